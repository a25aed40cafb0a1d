"""What slots may do besides: data that replays groups, signals that learn from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from searchgym.errors import CardError
from searchgym.rl.data.uniform import Uniform
from searchgym.rl.recipe import Recipe, read
from searchgym.rl.signals.outcome import Return
from searchgym.rl.slots.protocols import Learner, Replay
from searchgym.rl.slots.records import Scored
from tests.rl.test_trainer import trainer


class Again(Uniform):
    """The best group so far, once more."""

    def __init__(self) -> None:
        super().__init__()
        self.best: Scored | None = None

    def observe(self, scored: Scored) -> None:
        if self.best is None or scored.rewards.total.mean() > self.best.rewards.total.mean():
            self.best = scored

    def replay(self, count: int, step: int, seed: int) -> Sequence[Scored]:
        return [] if step == 0 or self.best is None else [self.best]


class Expected(Return):
    """A return, and a running mean of it."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.seen = 0.0, 0

    def fit(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        self.seen += len(scored)
        self.mean = float(np.mean([s.rewards.total.mean() for s in scored]))
        return {"expected": self.mean}


def test_stored_groups_are_trained_on_beside_new_ones() -> None:
    data, signal = Again(), Expected()
    assert isinstance(data, Replay)
    assert isinstance(signal, Learner)
    assert not isinstance(Uniform(), Replay)
    assert not isinstance(Return(), Learner)
    run = trainer({**read("grpo"), "data": data, "signal": signal}, steps=2, tasks=3)
    first, second = run.train()
    assert (first["replayed"], second["replayed"]) == (0, 1)
    assert (first["kept"], second["kept"]) == (3, 3)
    assert signal.seen == 3 + 4  # those that were trained on
    assert second["expected"] == pytest.approx(signal.mean)


@pytest.mark.parametrize("use", ["constant", "scheduled"])
def test_a_coefficient_that_nobody_reads_is_refused(use: str) -> None:
    spec: dict[str, Any] = {"advantage": "grpo", "loss": "ppo"}
    for name in ("policy", "lr", "w_searches"):
        Recipe.of({**spec, "schedule": {"use": use, name: 0.5}}).check(frozenset())
    wrong = Recipe.of({**spec, "schedule": {"use": use, "ppo": 0.5}})
    with pytest.raises(CardError, match=r"'ppo'.*policy"):
        wrong.check(frozenset())


def test_an_adaptive_coefficient_needs_what_it_adapts_to() -> None:
    recipe = {"advantage": "grpo", "loss": "ppo", "schedule": {"use": "adaptive_kl", "name": "lr"}}
    with pytest.raises(CardError, match=r"schedule .*needs 'ref_logp'"):
        Recipe.of(recipe).check(frozenset())
