"""Notes that go from one member of a group to the next, and what new ones are paid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from searchgym.rl import TaskPlan, Workers
from searchgym.tools import notes_of, with_notes
from searchgym.types import TurnRequest
from searchgym_agents.methods.group_memory import GroupMemory
from searchgym_agents.methods.note_novelty import NoteNovelty
from tests.rl.colours import player


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    return SearchEnv(
        world={"entities": 400}, tasks={"simple": 4}, dialect="json_tools",
        tools=["search", {"use": "memory", "room": 60}],
        reward="note_novelty", max_turns=12,
    )  # fmt: skip


def call(action: str, text: str) -> str:
    body = {"name": "memory", "arguments": {"action": action, "text": text}}
    return f"<tool_call>{json.dumps(body)}</tool_call>"


@pytest.mark.parametrize(
    ("brought", "written", "paid"),
    [
        ([], ["red green blue", "red green black", "red green blue"], [0.1, 0.05, 0.0]),
        (["red green blue"], ["red green black", "white"], [0.05, 0.1]),
        ([], ["x" * 61, "y"], [0.0, 0.1]),
        ([], [*"bcdefghij"], [0.1] * 8 + [0.0]),
        (["a b"] * 9, ["c"], [0.1]),
        ([], ["a b", None, "a b", "c d"], [0.1, 0.0, 0.0, 0.1]),
        ([], [*"bcdefghi", None, "j"], [0.1] * 8 + [0.0, 0.0]),
    ],
)
def test_a_note_earns_what_is_new_in_it(env, brought, written, paid) -> None:
    episode = env.start(1, task=with_notes(env.tasks[0], brought))
    for text in [call(*(("forget", "") if t is None else ("write", t))) for t in written] + [
        call("summarise", "new words")
    ]:
        episode.receive(env.toolbox.run(episode.act(text)))
    rewards = [turn.reward for turn in episode.turns]
    assert rewards == pytest.approx([*paid, 0.0])


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(CardError, match="got -1"):
        NoteNovelty(most=-1)


class Writer:
    """Writes the number of its member, then answers; what is read of it is a real policy's."""

    def __init__(self) -> None:
        self.read = player(2)[1]

    def act(self, requests: Sequence[TurnRequest]) -> list[str]:
        return [
            call("write", f"by {r.episode_id[-1]}")
            if r.turn == 0 and not r.episode_id.endswith("2")
            else '<tool_call>{"name": "answer", "arguments": {"answer": "x"}}</tool_call>'
            for r in requests
        ]


def test_members_begin_with_the_notes_of_the_best_before(env) -> None:
    writer = Writer()
    policy = SimpleNamespace(
        act=writer.act, rows=lambda episode, since=0: (), episode_usage=lambda name, since=0: {},
        forget=writer.read.forget,
    )  # fmt: skip
    plans = [TaskPlan(task, f"g{i}", i) for i, task in enumerate(env.tasks[:2])]
    groups = GroupMemory(4).collect(plans, Workers(policy, env, None))
    for group, plan in zip(groups, plans, strict=True):
        assert group.plan is plan
        began = [notes_of(member.episode.config.task) for member in group.members]
        # by 0 pays .1, by 1 overlaps with it by a third, 2 writes nothing; by 3 is read last
        assert began == [[], ["by 0"], ["by 0"], ["by 0"]]
        rewards = [sum(t.reward for t in m.episode.turns) for m in group.members]
        assert rewards == pytest.approx([0.1, 0.1 * 2 / 3, 0.0, 0.1 * 2 / 3])
