"""The store of an episode: tools of several episodes in any order, played together, copied midway,
leave each as if it had been played alone; rewards read what it holds at the end."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from searchgym import Outcome
from searchgym.core import Episode, EpisodeConfig, Rules, run_tools
from searchgym.dialects import get_dialect
from searchgym.engines import build_engine
from searchgym.tools import Tool, ToolContext, make_toolbox
from searchgym.types import ABSTAIN, Answer, Call, Task, ToolResult, ToolSpec
from tests.small import CORPUS

from . import mine

DIALECT = "json_tools+tools"
SAY = get_dialect(DIALECT).render_action
NONE: Mapping[str, Any] = {"type": "object", "properties": {}}


class Stock(Tool):
    """A database of its own for each question."""

    needs_task = True
    time_limit = None
    spec = ToolSpec("take_one", "Take one.", NONE, shares="stock")

    def initial_state(self, task: Task | None) -> Any:
        return dict(task.meta["stock"]) if task else None

    def use(self, args: Mapping[str, Any], state: Any) -> ToolResult:
        state["apples"] -= 1
        return ToolResult((f"{state['apples']} left",), cost=0.25, state=state)


def left(outcome: Outcome) -> float:
    """Apples that are left at the end."""
    return float(outcome.tool_states["stock"]["apples"])


def quick(tool: type[Tool]) -> Tool:
    made = tool()
    made.time_limit = None
    return made


@functools.cache
def box() -> Any:
    tools = [quick(mine.Put), quick(mine.Take), quick(mine.Count), Stock()]
    return make_toolbox(tools, ToolContext(CORPUS, build_engine("bm25", CORPUS)))


@functools.cache
def rules(reward: Any = None) -> Rules:
    toolbox, more = box(), {} if reward is None else {"reward": reward}
    return Rules(
        toolbox.specs(tuple(toolbox.tools)), dialect=DIALECT, max_turns=12,
        needs_task=tuple(toolbox.needs_task), **more,
    )  # fmt: skip


def episode(number: int, **changes: Any) -> Episode:
    task = Task(f"t{number}", "How many?", ("1",), meta={"stock": {"apples": 9 + number}})
    return Episode(EpisodeConfig(task, rules(**changes), number, f"e{number}"))


ACTIONS = (
    *(Call(tool, {"item": item}) for tool in ("put", "take") for item in "ab"),
    Call("count_calls", {}), Call("take_one", {}),
)  # fmt: skip


@functools.cache
def alone(number: int, actions: tuple[int, ...]) -> str:
    e = episode(number)
    for action in actions:
        e.act(SAY(ACTIONS[action]))
        run_tools([e], box())
    return json.dumps([e.snapshot(), e.tool_states])


@pytest.mark.parametrize(
    "n", [pytest.param(500), pytest.param(10_000, marks=pytest.mark.contract)]
)  # fmt: skip
def test_interleaved_episodes_are_each_as_if_played_alone(n: int) -> None:
    """Three episodes take turns in random batches; some are restored from snapshots midway, of
    some a fork goes a way of its own in the same batch."""
    rng = np.random.default_rng(53)
    for _ in range(n):
        scripts = [tuple(rng.integers(len(ACTIONS), size=rng.integers(1, 5)).tolist())
                   for _ in range(3)]  # fmt: skip
        playing = [episode(i) for i in range(3)]
        done = [0, 0, 0]
        while waiting := [i for i in range(3) if done[i] < len(scripts[i])]:
            size = int(rng.integers(1, len(waiting) + 1))
            chosen = [waiting[i] for i in rng.permutation(len(waiting))[:size]]
            strayed = []
            for i in chosen:
                chance = rng.random()
                if chance < 0.1:
                    strayed.append(playing[i].fork())
                    strayed[-1].act(SAY(ACTIONS[int(rng.integers(len(ACTIONS)))]))
                elif chance < 0.15:
                    playing[i] = Episode.restore(json.loads(json.dumps(playing[i].snapshot())))
                playing[i].act(SAY(ACTIONS[scripts[i][done[i]]]))
                done[i] += 1
            run_tools([*strayed, *(playing[i] for i in chosen)], box())
        for i, e in enumerate(playing):
            assert json.dumps([e.snapshot(), e.tool_states]) == alone(i, scripts[i])


def test_rewards_read_the_final_state_and_costs_by_tool() -> None:
    from searchgym import Reward

    e = episode(2, reward=Reward.of(left))
    for action in (ACTIONS[5], ACTIONS[0], ACTIONS[5]):
        e.act(SAY(action))
        run_tools([e], box())
    assert "9 left" in e.delta
    e.act(SAY(Answer("9")))
    outcome = e.outcome()
    assert outcome is not None
    assert (e.turns[-1].reward, outcome.costs) == (9.0, {"take_one": 0.5, "put": 0.0})
    assert outcome.cost == 0.5
    assert dict(e.config.task.meta["stock"]) == {"apples": 11}, "the question's own is not touched"


def test_oracles_make_the_calls_that_a_task_names() -> None:
    from searchgym.agents import OracleAgent
    from searchgym.core import oracle_actions, run_episodes

    calls = [{"tool": "put", "args": {"item": "a"}}, {"tool": "take_one", "args": {}}]
    meta = {"stock": {"apples": 5}, "calls": [*calls, calls[1]]}
    task = Task("t", "How many?", ("3 left",), ("p1",), ("x",), meta=meta)
    e = Episode(EpisodeConfig(task, rules(), 0, "e"))
    take = Call("take_one", {})
    assert oracle_actions(e) == [Call("put", {"item": "a"}), take, take, Answer("3 left")]
    e.act(SAY(take))
    run_tools([e], box())
    assert oracle_actions(e) == [Call("put", {"item": "a"}), take, Answer("3 left")]
    (done,) = run_episodes([e], OracleAgent([task]), box())
    assert (done.answer, [t.action for t in done.turns][1:3]) == (
        "3 left",
        oracle_actions_of(calls),
    )
    unsaid = Task("u", "How many?", ("7 left",), meta=meta)
    (done,) = run_episodes([Episode(EpisodeConfig(unsaid, rules(), 0, "f"))],
                           OracleAgent([unsaid]), box())  # fmt: skip
    assert done.answer == ABSTAIN, "it believes what it was shown"


def oracle_actions_of(calls: list[dict[str, Any]]) -> list[Call]:
    return [Call(call["tool"], call["args"]) for call in calls]
