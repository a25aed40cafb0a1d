"""The tool ``memory`` and the rule ``context_tokens``, which it makes up for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.core import Episode
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from searchgym.evaluation import compare, evaluate
from searchgym.tools import MemoryTool, notes_of, with_notes
from searchgym.types import Answer, Call, CallContext, Search, Task, ToolCall, ToolResult
from searchgym_agents.experts import NoteTaker

OPTIONS = {
    "world": {"entities": 600, "seed": 2}, "tools": ["search", "memory"], "dialect": "json_tools",
    "max_turns": 8,
}  # fmt: skip


def acted(tool: MemoryTool, notes: list[str] | None, task: Task | None = None, **args: object):
    call = ToolCall("memory", args, 0, CallContext(0, "e", {}, notes, task))
    (result,) = tool.run([call])
    assert isinstance(result, ToolResult)
    return result


@pytest.mark.parametrize(
    ("notes", "args", "after", "said"),
    [
        (None, {"action": "write", "text": " a  b "}, ["a b"], "Note 1 written; 1 notes, 3 of 20"),
        (["a"], {"action": "write", "text": "b"}, ["a", "b"], "Note 2 written"),
        (["a"], {"action": "write"}, ["a"], "Nothing was written"),
        (["a" * 15], {"action": "write", "text": "b" * 6}, ["a" * 15], "does not fit"),
        (["a" * 15], {"action": "write", "text": "b" * 5}, ["a" * 15, "b" * 5], "20 of 20"),
        (["Rome", "Oslo is cold"], {"action": "read"}, ["Rome", "Oslo is cold"],
         "1. Rome\n2. Oslo is cold"),
        (["Rome", "Oslo is cold"], {"action": "read", "text": "cold Oslo"},
         ["Rome", "Oslo is cold"], "2. Oslo is cold"),
        (["Rome"], {"action": "read", "text": "Paris"}, ["Rome"], "No note."),
        (["abcdefgh", "ijklmnop"], {"action": "summarise"}, ["abcde", "ijklm"], "2 kept"),
        (["abcdefgh", "ijklmnop"], {"action": "summarise", "text": "all"}, ["all"], "1 kept"),
        (["a", "b"], {"action": "forget", "number": 1}, ["b"], "1 forgotten"),
        (["a", "b"], {"action": "forget", "number": 3}, ["a", "b"], "There is no note 3"),
        (["a", "b"], {"action": "forget"}, [], "2 forgotten; 0 notes, 0 of 20"),
    ],
)  # fmt: skip
def test_what_an_action_does(notes, args, after, said) -> None:
    result = acted(MemoryTool(room=20), notes, **args)
    assert result.state == after
    assert said in result.parts[0]


@pytest.mark.parametrize("options", [{"room": 0}, {"shown": 0}, {"room": 50_001}])
def test_room_is_bounded(options) -> None:
    with pytest.raises(CardError, match="room is 1 to 50,000"):
        MemoryTool(**options)


TEXTS = st.text(max_size=60)
CALLS = st.fixed_dictionaries(
    {"action": st.sampled_from(["write", "read", "summarise", "forget"])},
    optional={"text": TEXTS, "number": st.integers(1, 9)},
)


@given(st.lists(CALLS, max_size=12), st.integers(1, 80))
def test_notes_never_outgrow_their_room(calls, room) -> None:
    tool, notes = MemoryTool(room=room, shown=50), None
    for args in calls:
        result = acted(tool, notes, **args)
        notes = result.state
        assert sum(map(len, notes)) <= room
        assert all(note.strip() == note and note for note in notes)
        assert args["action"] != "read" or len(result.parts[0]) <= 50


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    return SearchEnv(**OPTIONS, tasks={"chain": 12})


def played(env: SearchEnv, task: Task, *actions) -> Episode:
    episode = env.start(3, task=task)
    say = get_dialect(env.rules.dialect).render_action
    for action in actions:
        if calls := episode.act(say(action)):
            episode.receive(env.toolbox.run(calls))
    return episode


def test_an_unread_note_changes_nothing(env: SearchEnv) -> None:
    """Neither one that was written, but for its own turn, nor one that another episode left."""
    for task in env.tasks:
        rest = [*map(Search, ((q,) for q in task.queries)), Answer(task.answers[0])]
        write = [Call("memory", {"action": "write", "text": text}) for text in ("x", "y")]
        plain = played(env, task, *rest)
        assert (
            plain.contexts.segments == played(env, with_notes(task, ["z"]), *rest).contexts.segments
        )
        first, second = (played(env, task, note, *rest) for note in write)
        assert first.delta == second.delta
        own = [s for s in first.contexts.segments if s not in second.contexts.segments]
        assert [s.author for s in own] == ["policy"], "its own text"
        assert first.parts == second.parts
        assert plain.parts["em"] == first.parts["em"] == 1


def test_notes_go_on_to_another_episode_and_stay_apart(env: SearchEnv) -> None:
    task = with_notes(env.tasks[0], ["Rome is old"])
    read, write = Call("memory", {"action": "read"}), {"action": "write", "text": "Oslo"}
    one = played(env, task, read)
    assert "1. Rome is old" in one.delta
    twin = one.fork()
    for each, text in ((one, "Oslo"), (twin, "Bern")):
        each.act(
            get_dialect(env.rules.dialect).render_action(Call("memory", {**write, "text": text}))
        )
        each.receive(env.toolbox.run(each.pending))
    assert one.tool_states == {"memory": ["Rome is old", "Oslo"]}
    assert twin.tool_states == {"memory": ["Rome is old", "Bern"]}
    assert Episode.restore(one.snapshot()).observation() == one.observation()
    assert notes_of(env.tasks[0]) == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 400))
def test_a_small_context_keeps_the_question_and_the_newest_turn(env, picks, limit) -> None:
    small = env.under(context_tokens=limit)
    task = small.tasks[0]
    episode = played(
        small, task, *(Search((t.queries[0],)) for t in (small.tasks[i] for i in picks))
    )
    segments = episode.contexts.segments
    shown = episode.contexts.visible(0)
    head = [s for s in segments if s.kind in ("instructions", "question")]
    assert list(shown[: len(head)]) == head
    assert shown[-1] == segments[-1]
    assert shown[len(head)].author == "policy", "turns are hidden as a whole"
    older = shown[len(head) : -2]
    assert not older or sum(len(s.text.split()) for s in shown) <= limit
    assert [s._replace(visible=True) for s in segments] == [
        s._replace(visible=True)
        for s in played(env, task, *(t.action for t in episode.turns)).contexts.segments
    ]


def test_notes_pay_in_a_context_of_two_thousand_tokens() -> None:
    memory = {"use": "memory", "room": 20_000, "shown": 20_000}
    env = SearchEnv(
        corpus="encyclopedia-v1", world={"entities": 1500, "seed": 2}, tasks={"aggregate": 60},
        tools=["search", memory], dialect="json_tools", max_turns=90, context_tokens=2_000,
    )  # fmt: skip
    with_them, without = (evaluate(NoteTaker(env, notes), env) for notes in (True, False))
    found = compare(with_them, without, "em")
    assert with_them.means["em"].mean == 1.0
    assert found.difference.low > 0.2, found
    whole = env.under(context_tokens=None)
    assert evaluate(NoteTaker(whole, False), whole).means["em"].mean == 1.0, "it is the context"
