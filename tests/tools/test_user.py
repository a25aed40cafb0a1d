"""``ask_user``: a scripted person, and one that a language model speaks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from searchgym.engines import build_engine
from searchgym.errors import CardError
from searchgym.llms import Completion, GenRequest
from searchgym.tools import AskUser, ToolContext, make_tool
from searchgym.tools.user import MOST, TOO_MANY, UNKNOWN
from searchgym.types import CallContext, Failure, Task, ToolCall
from tests.small import CORPUS

KNOWS = [
    {"about": "city", "words": ["city", "live"], "says": "I live in Oru."},
    {"about": "year", "words": ["year", "in what year", "when"], "says": "It came out in 1984."},
    {"about": "sure", "words": ["confirm", "sure"], "says": "No, make it Ulm."},
    {"about": "film", "words": ["film"], "says": "Not a film."},
]
LATER = [{"about": "city", "words": ["city"], "says": "Ulm."}]
USER = {"knows": KNOWS, "later": {"after": "sure", "knows": LATER}}
TASK = Task("t", "Which?", ("Mira Venn",), meta={"user": USER})


def asked(*questions: str, task: Task | None = TASK, tool: Any = None) -> list[str]:
    tool = tool or AskUser()
    state, said = None, []
    for question in questions:
        context = CallContext(1, "e", {}, state, task)
        (result,) = tool.run([ToolCall("ask_user", {"question": question}, 0, context)])
        said.append(result if isinstance(result, Failure) else result.parts[0])
        state = state if isinstance(result, Failure) else result.state
    return said


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Which CITY?", "I live in Oru."),
        ("In what year did it come out?", "It came out in 1984."),
        ("When, and in which city?", "It came out in 1984."),
        ("City or year?", "I live in Oru."),
        ("Tell me all.", UNKNOWN),
        ("The capacity?", UNKNOWN),
        ("Do you live there? Sure?", "I live in Oru."),
        ("Is it Mira Venn?", UNKNOWN),
        ("City, year, sure?", "I live in Oru."),
        ("City, year, sure, film?", TOO_MANY),
    ],
)
def test_only_what_is_named_first_is_told(question: str, said: str) -> None:
    assert asked(question) == [said]


def test_the_person_changes_their_mind_once() -> None:
    said = asked("city?", "Sure?", "Sure?", "city?", "year?")
    assert said == ["I live in Oru.", "No, make it Ulm.", UNKNOWN, "Ulm.", UNKNOWN]
    assert TASK.meta["user"] == USER
    assert asked("city?") == ["I live in Oru."], "another episode's person"


def test_a_task_without_a_person() -> None:
    assert asked("city?", task=Task("t", "?", ("x",))) == [UNKNOWN]
    assert asked("city?", task=None) == [UNKNOWN]


class Speaker:
    """A generator that says one text, and keeps what it was asked."""

    needs_task = False
    fingerprint = "speaker"

    def __init__(self, text: str | Failure, chat: bool = True) -> None:
        self.text, self.asked = text, []
        self.capabilities = frozenset({"chat"} if chat else ())

    def cache_key(self, request: GenRequest) -> None:
        return None

    def run(self, batch: Sequence[GenRequest]) -> list[Any]:
        self.asked += [r.prompt if isinstance(r.prompt, str) else r.prompt[0][1] for r in batch]
        failed = isinstance(self.text, Failure)
        return [self.text if failed else Completion(self.text) for _ in batch]

    def score(self, batch: Any) -> list[Any]:
        raise NotImplementedError


@pytest.mark.parametrize("chat", [True, False])
def test_a_language_model_speaks_for_the_person(chat: bool) -> None:
    model = Speaker(" Well,\n in Oru! ", chat)
    assert asked("city?", tool=AskUser(generator=model)) == ["Well, in Oru!"]
    assert "here it is this: I live in Oru." in model.asked[0]
    assert "Mira Venn" not in model.asked[0], "the answer is not the person's to know"
    silent = AskUser(generator=Speaker(" "))
    assert asked("city?", "huh?", tool=silent) == ["I live in Oru.", UNKNOWN]
    leaky = AskUser(generator=Speaker("It is MIRA VENN."))
    assert asked("city?", tool=leaky) == ["I live in Oru."]
    changed = asked("sure?", "city?", tool=AskUser(generator=model))
    assert changed == ["Well, in Oru!"] * 2
    assert "Ulm." in model.asked[-1]
    assert "Oru" not in model.asked[-1], "who has thought again knows the new wish only"
    lost = Failure("unavailable", "down")
    assert asked("city?", tool=AskUser(generator=Speaker(lost))) == [lost]


def test_options_and_names() -> None:
    context = ToolContext(CORPUS, build_engine("bm25", CORPUS))
    assert isinstance(make_tool("ask_user", context), AskUser)
    assert AskUser.spec.parameters["properties"]["question"]["maxLength"] == MOST
    for wrong in ({"temperature": -1}, {"max_tokens": 0}):
        with pytest.raises(CardError, match="at least"):
            AskUser(**wrong)
