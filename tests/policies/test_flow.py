"""Episodes that do not wait for each other play what they play in lock step."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from searchgym.core import Episode, run_episodes
from searchgym.errors import EngineError
from searchgym.llms import Sampling, TransformersGenerator
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.policies.flow import play
from searchgym.policies.trainable import TrainableLM
from searchgym.types import ToolCall
from tests.policies.eager import NAME
from tests.policies.players import MANY_TURNS, WORDS, Tells, Tools, agree, model
from tests.small import TASKS, episode, lookup

pytestmark = pytest.mark.contract


def policy(kind: str = "qwen2", reuse: int = 0, **options: Any) -> CausalLMPolicy:
    generator = TransformersGenerator(model(kind), WORDS, reuse_tokens=reuse)
    return CausalLMPolicy(generator, sampling=Sampling(max_tokens=12, stop=("e",)), **options)


def episodes(n: int) -> list[Episode]:
    return [
        episode(TASKS[s % 2], seed=s, dialect=NAME, max_turns=5, snippet_chars=150)
        for s in range(n)
    ]


@cache
def in_lock_step(kind: str) -> tuple[CausalLMPolicy, list[Episode]]:
    """Nine episodes played, and who played them."""
    made = policy(kind)
    return made, run_episodes(episodes(9), made, Tools())  # type: ignore[arg-type]


@pytest.mark.parametrize(("reuse", "slots"), [(0, 3), (100_000, 64), (100_000, 3)])
@pytest.mark.parametrize("kind", MANY_TURNS)
def test_the_same_is_played_as_in_lock_step(kind: str, reuse: int, slots: int) -> None:
    flow = policy(kind, reuse)
    step, together = in_lock_step(kind)
    finished: list[int] = []
    flowing = play(episodes(9), flow, Tools(), slots=slots, progress=finished.append)  # type: ignore[arg-type]
    assert sum(finished) == 9
    assert len({len(e.turns) for e in together}) > 2
    assert sum(e.queries for e in together) > 9
    for a, b in zip(together, flowing, strict=True):
        assert a.snapshot() == b.snapshot()
        for x, y in zip(step.rows(a), flow.rows(b), strict=True):
            np.testing.assert_array_equal(x.ids, y.ids)
            np.testing.assert_array_equal(x.loss_mask, y.loss_mask)
            np.testing.assert_allclose(x.logp, y.logp, atol=1e-4)
    agree(TrainableLM(model(kind), WORDS), [r for e in flowing for r in flow.rows(e)])


class Waiting(Tools):
    """Holds the first call back until ``enough`` episodes have finished without it."""

    def __init__(self, enough: int) -> None:
        self.enough = threading.Event()
        self.left = enough
        self.held = 0

    def finished(self, count: int) -> None:
        self.left -= count
        if self.left <= 0:
            self.enough.set()

    def run(self, calls: Sequence[ToolCall]) -> Any:
        if any(c.ctx.episode_id == "e0" for c in calls) and not self.enough.is_set():
            self.held += 1
            assert self.enough.wait(60), "the others did not go on"
        return lookup(calls)


def test_an_episode_that_waits_for_a_tool_holds_nobody_up() -> None:
    """In lock step this would never end: the tool answers only after others have finished."""
    made = episodes(8)
    tools = Waiting(enough=5)
    done = play(made, policy(), tools, tool_threads=2, progress=tools.finished)  # type: ignore[arg-type]
    assert tools.held == 1
    assert all(e.phase == "done" for e in done)
    assert [e.config.episode_id for e in done] == [f"e{s}" for s in range(8)]


def test_an_error_of_a_tool_is_an_error_of_the_run() -> None:
    class Broken(Tools):
        def run(self, calls: Any) -> Any:
            raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        play(episodes(4), policy(), Broken())  # type: ignore[arg-type]


def test_a_full_context_is_an_invalid_action_here_too() -> None:
    lm = policy(context=200)
    other = policy(context=200)
    flowing = play(episodes(4), lm, Tools())  # type: ignore[arg-type]
    stepped = run_episodes(episodes(4), other, Tools())  # type: ignore[arg-type]
    assert [e.snapshot() for e in flowing] == [e.snapshot() for e in stepped]
    assert any(not t.text for e in flowing for t in e.turns)


def test_what_cannot_flow_is_refused() -> None:
    tells = CausalLMPolicy(Tells(lambda request: "x"))
    with pytest.raises(EngineError, match="got Tells"):
        play(episodes(1), tells, Tools())  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="tool_threads"):
        play(episodes(1), policy(), Tools(), tool_threads=0)  # type: ignore[arg-type]
    assert play([], policy(), Tools()) == []  # type: ignore[arg-type]
