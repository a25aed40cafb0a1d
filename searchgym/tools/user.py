"""``ask_user``: the person whose question it is, played by a script or by a language model.

Who the person is stands in the task: ``meta["user"]`` holds ``knows``, a list of what can be asked
about (``{"about": name, "words": […], "says": text}``), and optionally ``later``
(``{"after": name, "knows": […]}``): what holds once the person has been asked about that, who
changes their mind then. A question is answered iff it names something (MUA-RL, arXiv 2508.18669,
and ESearch-R1, arXiv 2512.18571, have such users; that words decide is ours).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CardError
from ..llms.base import Completion, GenRequest, Message, Sampling
from ..seeding import derive
from ..text import normalise_answer
from ..types import Failure, Task, ToolCall, ToolResult, ToolSpec
from .base import Tool

UNKNOWN = "I cannot tell you that."
"""Reply to a question that names nothing the person knows."""
TOO_MANY = "One thing at a time, please."
"""Reply to a question that names more than ``THINGS`` of them."""
THINGS = 3
MOST = 500
"""Characters of a question."""
_WORD = re.compile(r"\w+")
_PROMPT = """\
You play a person who is asked something. {scene}You know only this:
{facts}
You are asked: "{question}"
Reply as that person in one short sentence. Tell one thing, that which you are asked about; {cue}"""


class AskUser(Tool):
    """Ask the person one question; only what is asked about is answered.

    Of two or three things that a question names, the first is told; a list of more is not answered,
    so that what to ask must be known. A subclass that overrides :meth:`reply` is another person.

    Args:
        generator: Language model that says it in words of its own, as ``searchgym.llms`` makes
            one; by default the script's words are said. What the person knows, and when they
            change their mind, is the script's all the same, and a reply that gives an accepted
            answer away that the script does not is replaced by the script's.
        temperature, max_tokens: How its text is drawn.
        cost: Cost of each question.

    Raises:
        CardError: a negative temperature, or no room for a reply.
    """

    registered = "ask_user"
    needs_task = True
    time_limit = None
    spec = ToolSpec(
        "ask_user",
        "Ask the person whose question it is about one thing, in words of your own.",
        {
            "type": "object",
            "properties": {"question": {"type": "string", "minLength": 1, "maxLength": MOST}},
            "required": ["question"],
        },
    )

    def __init__(
        self,
        *,
        generator: Any = None,
        temperature: float = 0.0,
        max_tokens: int = 64,
        cost: float = 0.0,
    ) -> None:
        super().__init__(cost=cost)
        if not temperature >= 0 or max_tokens < 1:
            raise CardError(
                "temperature is at least 0 and max_tokens at least 1; got "
                f"temperature={temperature}, max_tokens={max_tokens}"
            )
        self.generator: Any = None
        if generator is not None:
            from ..llms.registry import build_generator

            self.generator = build_generator(generator)
        self.temperature, self.max_tokens = temperature, max_tokens

    def initial_state(self, task: Task | None) -> dict[str, Any]:
        """Return what the person knows (``knows``, ``later``) and was asked about (``told``)."""
        user = (task.meta.get("user") if task else None) or {}
        return {"knows": [], "told": [], **copy.deepcopy(dict(user))}

    def reply(self, question: str, user: dict[str, Any]) -> str:
        """Return what the person says; ``user`` is theirs to change, and kept for the next
        question."""
        named = asked_about(question, user["knows"])
        if not 1 <= len(named) <= THINGS:
            return TOO_MANY if named else UNKNOWN
        entry = named[0]
        user["told"].append(entry["about"])
        if (later := user.get("later")) and later["after"] == entry["about"]:
            user["knows"] = later["knows"]
            del user["later"]
        return str(entry["says"])

    def use(self, args: Mapping[str, Any], state: Any) -> ToolResult:
        return ToolResult((self.reply(args["question"], state),), state=state)

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        results = super().run(batch)
        if self.generator is None:
            return results
        said = [i for i, result in enumerate(results) if isinstance(result, ToolResult)]
        requests = [self._request(batch[i], results[i]) for i in said]
        for i, text in zip(said, self.generator.run(requests), strict=True):
            results[i] = _spoken(batch[i], results[i], text)
        return results

    def _request(self, call: ToolCall, result: Any) -> GenRequest:
        before = call.ctx.state or self.initial_state(call.ctx.task)
        line = str(result.parts[0])
        cue = "to this question you do not know an answer, and say so."
        if line not in (UNKNOWN, TOO_MANY):
            cue = f"here it is this: {line}"
        text = _PROMPT.format(
            scene=f"{scene} " if (scene := before.get("scene")) else "",
            facts="\n".join(f"- {entry['says']}" for entry in before["knows"]) or "- nothing",
            question=call.args["question"].replace('"', "'"),
            cue=cue,
        )
        chat = "chat" in self.generator.capabilities
        sampling = Sampling(max_tokens=self.max_tokens, temperature=self.temperature)
        key = derive(call.ctx.key, "user")
        return GenRequest((Message("user", text),) if chat else text, sampling, key)


def asked_about(question: str, knows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries whose words a question names, by where they begin, the longest first. Case and
    punctuation do not count, words do as wholes."""
    text = f" {' '.join(_WORD.findall(question.casefold()))} "
    found = []
    for entry in knows:
        places = [(text.find(f" {words.casefold()} "), -len(words)) for words in entry["words"]]
        if named := [place for place in places if place[0] >= 0]:
            found.append((min(named), entry))
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


def _spoken(call: ToolCall, result: Any, text: Completion | Failure) -> ToolResult | Failure:
    """The result in a model's words, unless they are none or give away what the script keeps."""
    if isinstance(text, Failure):
        return text
    said, line = " ".join(text.text.split()), f" {normalise_answer(str(result.parts[0]))} "
    task = call.ctx.task
    for answer in task.answers if task else ():
        gold = f" {normalise_answer(answer)} "
        if gold in f" {normalise_answer(said)} " and gold not in line:
            said = ""
    kept: ToolResult = result._replace(parts=(said or result.parts[0],))
    return kept
