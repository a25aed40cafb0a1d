"""Metrics of a step: measures, infrastructure that fails, the log, named warnings."""

from __future__ import annotations

import copy
import json
import math
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.envs import EnvironmentMix
from searchgym.errors import DataError, EngineError
from searchgym.rl.collapse import CollapseMonitor, CollapseWarning
from searchgym.rl.log import Log
from searchgym.rl.losses.base import WeightedLoss
from searchgym.rl.recipe import read
from searchgym.rl.slots.batch import Estimate
from searchgym.rl.slots.protocols import AdvantageEstimator
from searchgym.rl.slots.records import Rewards
from searchgym.rl.trainer import Trainer
from searchgym.tools import SearchTool, Toolbox
from searchgym.types import Failure, Query, Ranking
from searchgym_agents.methods.kimi import Prioritized
from tests.rl.colours import setting
from tests.rl.trainers import rows, trainer, weights

LOGGED = (
    "step", "reward", "return", "em", "f1", "rewards/em", "rewards/format", "searches", "turns",
    "completion_length", "invalid", "truncated", "overflowed", "length_cut", "infra_errors",
    "episodes", "entropy", "groups", "groups_kept", "trajectories", "frac_reward_zero_std", "loss",
    "grad_norm", "lr", "clip_frac", "ratio", "approx_kl", "kl/kl", "kl", "rollout_s", "update_s",
)  # fmt: skip


def test_each_step_plays_one_of_several_environments(tmp_path: Path) -> None:
    other = setting().copy()
    mix = EnvironmentMix([setting(), other], [3, 1])
    whole, half = tmp_path / "whole", tmp_path / "half"
    run = trainer("grpo", steps=4, out=whole, env=mix)
    played = []
    for _ in run.train():
        played.append(mix.envs.index(mix.at(run.steps - 1)))
    assert sorted(played) == [0, 0, 0, 1]
    for steps in (2, 4):
        again = trainer("grpo", steps=steps, out=half, env=EnvironmentMix(mix.envs, [3, 1]))
        list(again.train())
    assert rows(whole) == rows(half)
    assert torch.equal(weights(run.lm), weights(again.lm))
    with pytest.raises(DataError, match=r"other settings \(env\."):
        trainer("grpo", steps=4, out=half, env=mix.envs[0])


def test_a_step_says_what_happened(tmp_path: Path) -> None:
    recipe = {**read("grpo"), "loss": ["ppo", "kl", {"use": "entropy", "weight": 0.01}]}
    run = trainer(recipe, steps=2, lm={"reference": True}, out=tmp_path)
    metrics = list(run.train())
    rows = [json.loads(line) for line in (tmp_path / "rl.jsonl").read_text().splitlines()]
    assert rows == [json.loads(json.dumps({**m, "step": int(m["step"])})) for m in metrics]
    for name in (*LOGGED, "entropy/entropy"):
        assert isinstance(rows[1][name], int | float), name
    first = metrics[0]
    assert first["reward"] == first["return"] == first["em"] == first["rewards/em"]
    assert first["episodes"] == first["trajectories"] == 32
    assert first["kl/kl"] == pytest.approx(0, abs=1e-6)
    assert metrics[1]["kl/kl"] > 1e-3
    assert first["completion_length"] == pytest.approx(7.5, abs=1.5)
    # an estimate from 240 draws of what the entropy loss measures exactly
    assert first["entropy"] == pytest.approx(first["entropy/entropy"], abs=0.15)


class Failing:
    """An engine that is down for some of the things."""

    needs_task = False
    fingerprint = "failing"

    def __init__(self, down: str | None) -> None:
        self.down = down

    def cache_key(self, request: Query) -> bytes | None:
        return None

    def run(self, batch: Any) -> list[Ranking | Failure]:
        return [
            Failure("unavailable", "down") if self.down is None or self.down in q.text else ()
            for q in batch
        ]


def with_engine(run: Trainer, down: str | None) -> Trainer:
    run.envs = EnvironmentMix([setting().copy()])
    run.env.setup = copy.copy(run.env.setup)
    run.env.setup.toolbox = Toolbox({"search": SearchTool(Failing(down), 1)})
    return run


def test_failures_of_the_infrastructure_are_dropped() -> None:
    run = with_engine(trainer("grpo", steps=1), "Aldor")
    (metrics,) = run.train()
    assert 0 < metrics["infra_errors"] < metrics["episodes"]
    assert metrics["trajectories"] == metrics["episodes"] - metrics["infra_errors"]
    assert math.isfinite(metrics["reward"])
    assert math.isfinite(metrics["loss"])


def test_a_step_without_a_sound_episode_changes_nothing() -> None:
    run = with_engine(trainer("grpo", steps=1), None)
    before = weights(run.lm)
    (metrics,) = run.train()
    assert metrics["infra_errors"] == metrics["episodes"] == 32
    assert "loss" not in metrics
    assert torch.equal(weights(run.lm), before)
    assert run.policy.version == 0


def test_micro_batches_change_rounding_alone() -> None:
    """Whole, and trajectory by trajectory; a loss that compares members keeps groups whole. What
    is logged are means over tokens, trajectories or pairs, wherever they were computed."""
    for name, lm in (("grpo", {}), ("dpo", {"reference": True}), ("dr_grpo", {}), ("kimi", {})):
        whole, parts = (
            trainer(name, 2, steps=1, lm=lm, lr=1e-4, tokens=n, minibatches=2) for n in (65_536, 1)
        )
        (a,), (b,) = list(whole.train()), list(parts.train())
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-3), name
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5), name
        of_losses = ("ratio", "clip_frac", "approx_kl", "squared", "log_ratio")
        said = {k for k in a if k in of_losses or k.startswith("dpo/")}
        assert said, name
        for key in said:
            assert a[key] == pytest.approx(b[key], rel=1e-3, abs=1e-5), key


def test_dynamic_sampling_goes_on_and_gives_up() -> None:
    recipe = {**read("dapo"), "rollout": {"use": "chains", "size": 2}}
    run = trainer(recipe, steps=1)
    (metrics,) = run.train()
    assert metrics["groups_kept"] == 4
    assert metrics["groups"] > 4
    # groups of one never differ; a method that compares groups refuses them
    data = {"use": "dynamic", "max_rounds": 2, "strict": True}
    hopeless = {**recipe, "data": data, "reward": [], "advantage": "reinforce"}
    hopeless["rollout"] = {"use": "chains", "size": 1}
    with pytest.raises(EngineError, match=r"only 0 of 4 groups .* after 2 rounds"):
        list(trainer(hopeless, steps=1).train())
    resigned = {**hopeless, "data": {"use": "dynamic", "max_rounds": 2}}
    (metrics,) = trainer(resigned, steps=1).train()
    assert (metrics["groups_kept"], metrics["groups"]) == (0, 8)


def test_rejection_keeps_different_successes() -> None:
    recipe = {**read("rft"), "data": {"use": "rejection", "cap": 1}}
    (metrics,) = trainer(recipe, steps=1).train()
    assert metrics["trajectories"] <= 4
    assert metrics["trajectories"] == metrics["groups_kept"] > 0


def test_prioritized_prefers_what_fails() -> None:
    run = trainer({**read("kimi")}, steps=1)
    data: Any = run.recipe.data
    data.success = {t.id: float(i > 0) for i, t in enumerate(run.env.tasks)}
    plans = data.plan(run.env.tasks, 200, 0, 0)
    share = np.mean([p.task.id == run.env.tasks[0].id for p in plans])
    assert share == pytest.approx(1 / 1.15, abs=0.08)


def test_a_reward_for_shortness_is_no_success() -> None:
    data = Prioritized(momentum=0.0)
    plan = SimpleNamespace(task=SimpleNamespace(id="a"))
    rewards = Rewards(np.array([1.5] + [0.5] * 7))  # all right, one of them shorter
    scored = SimpleNamespace(
        signals={"return": np.ones(8)}, rewards=rewards, training=list(range(8)),
        group=SimpleNamespace(plan=plan),
    )  # fmt: skip
    data.observe(scored)  # type: ignore[arg-type]
    assert data.success == {"a": 1.0}
    assert data.requires == {"return"}


def test_a_learning_rate_follows_its_schedule() -> None:
    linear = {"kind": "linear", "start": 0.0, "end": 1.0, "total": 2}
    recipe = {**read("grpo"), "schedule": {"use": "scheduled", "lr": linear}}
    run = trainer(recipe, steps=2)
    before = weights(run.lm)
    steps = run.train()
    assert next(steps)["coef/lr"] == 0
    assert torch.equal(weights(run.lm), before)
    assert next(steps)["coef/lr"] == 0.5
    assert not torch.equal(weights(run.lm), before)


class Explodes(WeightedLoss):
    """A loss without bounds."""

    def __call__(self, output: Any, batch: Any, totals: Any, coef: Any) -> Any:
        return output.logp.sum() * float("inf"), {}


def test_a_loss_that_is_not_finite_stops_the_run() -> None:
    run = trainer({"advantage": "grpo", "loss": Explodes()}, steps=1)
    before = weights(run.lm)
    with pytest.raises(EngineError, match=r"step 0: the loss is -inf.* lower the learning rate"):
        list(run.train())
    assert torch.equal(weights(run.lm), before)


class Undefined(AdvantageEstimator):
    """An estimator that divides 0 by 0 in one trajectory."""

    def estimate(self, batch: Any, coef: Any) -> Estimate:
        adv = torch.zeros(len(batch))
        adv[0] = float("nan")
        return Estimate(adv)


def test_advantages_that_are_not_finite_are_named() -> None:
    """The learning rate is not to blame for them."""
    run = trainer({"advantage": Undefined(), "loss": "ppo"}, steps=1)
    with pytest.raises(EngineError, match=r"advantages of 1 of \d+ trajectories are not finite"):
        list(run.train())


# --- the log ----------------------------------------------------------------------------------
def test_a_log_is_cut_where_the_checkpoint_is(tmp_path: Path) -> None:
    log = Log(tmp_path / "rl.jsonl")
    log.cut(3)  # nothing there yet
    for step in range(4):
        log.write({"step": float(step), "reward": float("nan")}, ["no_search"] if step == 1 else [])
    with log.path.open("a") as file:
        file.write('{"step": 4')
    log.cut(2)
    rows = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert rows == [
        {"step": 0, "reward": None},
        {"step": 1, "reward": None, "warnings": ["no_search"]},
    ]


# --- collapse ---------------------------------------------------------------------------------
HEALTHY = {
    "reward": 0.3, "em": 0.3, "searches": 1.5, "entropy": 0.8, "completion_length": 50.0,
    "truncated": 0.05,
}  # fmt: skip
BAD = {
    "no_search": {"searches": 0.0, "em": 0.6, "reward": 0.6},
    "entropy_collapse": {"entropy": 0.001},
    "format_hacking": {"reward": 0.9},
    "length_blow_up": {"completion_length": 400.0},
}


def said(watch: CollapseMonitor, changes: dict[str, float], steps: int = 30) -> list[str]:
    """Names, in the order they were said, as the metrics drift from healthy ones."""
    names: list[str] = []
    for step in range(steps):
        share = min(max(step - 6, 0) / 10, 1.0)
        now = {k: v + share * (changes.get(k, v) - v) for k, v in HEALTHY.items()}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            watch.update(now)
        assert [str(w.message).split(":")[0] for w in caught] == watch.latest
        assert all(w.category is CollapseWarning for w in caught)
        names += watch.latest
    return names


@pytest.mark.parametrize("name", BAD)
def test_a_collapse_is_named_once(name: str) -> None:
    assert said(CollapseMonitor(), BAD[name]) == [name]


def test_health_is_not_warned_of() -> None:
    assert said(CollapseMonitor(), {}) == []
    learning = {
        "reward": 0.9,
        "em": 0.9,
        "searches": 1.0,
        "entropy": 0.2,
        "completion_length": 90.0,
    }
    assert said(CollapseMonitor(), learning) == []
    assert said(CollapseMonitor(searchable=False), {"searches": 0.0}) == []
    assert "length_blow_up" in said(CollapseMonitor(), {"truncated": 0.9})


def test_a_watch_remembers() -> None:
    whole, first = CollapseMonitor(), CollapseMonitor()
    changes = BAD["no_search"]
    assert said(first, changes, 12) == []
    second = CollapseMonitor()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.state_dict() == first.state_dict()
    said(whole, changes)
    again = CollapseMonitor()
    again.load_state_dict(whole.state_dict())
    assert said(again, changes) == [], "said already"


def test_steps_without_an_episode_are_not_looked_at() -> None:
    watch = CollapseMonitor()
    watch.update({"infra_errors": 32.0, "episodes": 32.0})
    watch.update({**HEALTHY, "reward": float("nan")})
    assert watch.seen == 0
