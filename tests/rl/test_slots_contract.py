"""Every object of the registry keeps its slot's contract; broken ones are found out."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from searchgym.envs import SearchEnv
from searchgym.errors import CardError, CheckError
from searchgym.rl.recipe import Recipe
from searchgym.rl.slots import contracts
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.records import TaskPlan, Workers
from searchgym.rl.slots.registry import REGISTRY
from tests.rl.colours import CORPUS, TASKS, player, setting
from tests.rl.trainers import trainer

NEEDED: dict[str, dict[str, Any]] = {
    "cispo": {"clip_high": 0.3},
    "curriculum": {"curriculum": None},
    "constant": {"kl": 0.1},
    "served": {"role": "refiner"},
    "scheduled": {"kl": {"kind": "linear", "start": 0, "end": 1, "total": 2}, "lr": 0.5},
}
"""Options without defaults."""
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "advantage": [
        {"use": "grpo", "std": "population"},
        {"use": "reinforce", "baseline": 0.5},
        {"use": "reinforce_pp", "beta": 0.1, "gamma": 0.9},
        {"use": "ppo", "level": "turn", "lam": 0.9},
        {"use": "ppo", "level": "bi-level", "lam": 0.9},
        {"use": "distillation", "base": "grpo", "gate": "failed"},
    ],
    "loss": [
        {"use": "ppo", "aggregate": "seq-mean-token-sum-norm", "norm": 100},
        {"use": "ppo", "dual_clip": 3.0},
        {"use": "gspo", "turns": True},
        {"use": "kl", "how": "k2"},
    ],
    "data": [{"use": "rejection", "cap": 1}, {"use": "dynamic", "strict": True}],
    "reward": [{"use": "weighted", "weights": {"em": 1, "length": -0.1}}],
    "rollout": [{"use": "chains", "size": 3, "greedy_twin": True}],
    "signal": [{"use": "parts", "names": ["format", "search"]}],
}


def entries(slot: Any) -> list[Any]:
    every: list[Any] = [{"use": name, **NEEDED.get(name, {})} for name in REGISTRY[slot]]
    return [pytest.param(e, id=str(e["use"])) for e in every + VARIANTS.get(slot, [])]


@pytest.mark.parametrize("spec", entries("advantage"))
def test_estimators(spec: Any) -> None:
    contracts.check_estimator(spec)


@pytest.mark.parametrize("spec", entries("loss"))
def test_losses(spec: Any) -> None:
    contracts.check_loss(spec)


@pytest.mark.parametrize("spec", entries("reward"))
def test_rewards(spec: Any) -> None:
    contracts.check_reward(spec)


@pytest.mark.parametrize("spec", entries("data"))
def test_data(spec: Any) -> None:
    contracts.check_data(spec)


@pytest.mark.parametrize("spec", entries("schedule"))
def test_schedules(spec: Any) -> None:
    contracts.check_schedule(spec)


@pytest.fixture(scope="module")
def workers() -> Workers:
    lm, policy = player(4)
    frozen = player(5)[1]
    roles = {"generator": frozen, "ranker": "shared", "refiner": "shared", "decider": "shared"}
    return Workers(policy, setting(), lm, player(6)[0], roles=roles)


def noisy_setting() -> SearchEnv:
    return SearchEnv(
        corpus=CORPUS, tasks=list(TASKS), dialect="plain", k=1, max_turns=2,
        engine={"name": "degraded", "engine": {"name": "bm25"}},
    )  # fmt: skip


PLANS = [TaskPlan(task, f"0.{i}", i) for i, task in enumerate(TASKS[:3])]


@pytest.mark.parametrize("spec", entries("rollout"))
def test_rollouts(spec: Any, workers: Workers) -> None:
    if spec["use"] == "noisy":  # plays only where an engine can be noisy
        workers = replace(workers, env=noisy_setting())
    groups = contracts.check_rollout(spec, PLANS, workers)
    frozen = make("rollout", spec).frozen
    assert all(bool(m.rows) == (m.role not in frozen) for g in groups for m in g.members)


@pytest.mark.parametrize("spec", entries("signal"))
def test_signals(spec: Any, workers: Workers) -> None:
    groups = make("rollout", {"use": "chains", "size": 3}).collect(PLANS, workers)
    contracts.check_signal(spec, groups, workers)


# --- the contracts can fail -------------------------------------------------------------------
OTHERS = '''
from searchgym.rl.slots.batch import Estimate
from searchgym.rl.slots.protocols import AdvantageEstimator, Loss, Reduction
import torch

class Position(AdvantageEstimator):
    """Depends on the order."""
    relative = False
    def estimate(self, batch, coef):
        return Estimate(torch.arange(len(batch)).float() * ~batch.reward.isnan())

class Raw(AdvantageEstimator):
    """Says that it is relative."""
    relative = True
    def estimate(self, batch, coef):
        return Estimate(torch.nan_to_num(batch.reward))

class Forgetful(AdvantageEstimator):
    relative = False
    seen = 0
    def estimate(self, batch, coef):
        self.seen += 1
        return Estimate(torch.where(batch.reward.isnan(), 0.0, float(self.seen)))

class Hidden(AdvantageEstimator):
    """Reads what it does not ask for."""
    relative = False
    def estimate(self, batch, coef):
        return Estimate(torch.where(batch.mask, batch.need("ref_logp") * 0, 0.0))

class Scales(AdvantageEstimator):
    """Does not say that it scales the clip range."""
    relative = False
    def estimate(self, batch, coef):
        ones = torch.ones(batch.mask.shape)
        return Estimate(torch.where(batch.reward.isnan(), 0.0, 1.0), clip_scale=ones)

class Shifty(AdvantageEstimator):
    """Says that a number more for all does not matter."""
    relative = False
    invariant = frozenset({"shift"})
    def estimate(self, batch, coef):
        return Estimate(torch.nan_to_num(batch.reward))

class Deaf(Loss):
    """Says that it reads the clip scale."""
    name, weight, scales_clip = "policy", 1.0, True
    def __call__(self, output, batch, totals, coef):
        kept = torch.where(batch.mask, output.logp, 0.0)
        return -kept.sum() / max(totals.tokens, 1), {}

class Curious(Loss):
    """Reads a reference that it does not ask for."""
    name, weight = "policy", 1.0
    def __call__(self, output, batch, totals, coef):
        kept = torch.where(batch.mask, output.logp - batch.need("ref_logp"), 0.0)
        return -kept.sum() / max(totals.tokens, 1), {}

class Leaky(Loss):
    """Averages over its own part, and over masked tokens."""
    name, weight = "policy", 1.0
    def __call__(self, output, batch, totals, coef):
        return -(batch.adv[:, None] * output.logp).mean(), {}

class Part(Loss):
    name, weight = "policy", 1.0
    def __call__(self, output, batch, totals, coef):
        kept = torch.where(batch.mask, output.logp, 0.0)
        return -kept.sum() / batch.mask.sum().clamp_min(1), {}

class Claims(AdvantageEstimator):
    relative = True
    reductions = (Reduction({}, {"use": "grpo"}),)
    def estimate(self, batch, coef):
        from searchgym.rl.advantages.group_relative import dr_grpo_advantages
        return Estimate(dr_grpo_advantages(batch.reward, batch.group))

class Half(AdvantageEstimator):
    """A third party's own method: a good one."""
    relative = True
    def __init__(self, factor=0.5):
        self.factor = factor
    def estimate(self, batch, coef):
        from searchgym.rl.advantages.group_relative import dr_grpo_advantages
        return Estimate(self.factor * dr_grpo_advantages(batch.reward, batch.group))

class Nothing:
    pass

class Duck:
    def estimate(self, batch, coef): ...
    def state_dict(self): ...
    def load_state_dict(self, state): ...
'''


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "their_package.py").write_text(OTHERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "their_package:"  # type: ignore[misc]
    sys.modules.pop("their_package", None)


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        ("Position", "order of trajectories"),
        ("Raw", "exactly 0"),
        ("Forgetful", "state_dict"),
        ("Claims", "reduces to"),
        ("Hidden", "no ref_logp"),
        ("Scales", "provides 'clip_scale'"),
        ("Shifty", "invariant under shift"),
    ],
)
def test_bad_estimators_are_found_out(others: str, name: str, promise: str) -> None:
    with pytest.raises(CheckError, match=promise):
        contracts.check_estimator(others + name)


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        ("Leaky", "masked"),
        ("Part", "parts add up"),
        ("Deaf", "scales_clip"),
        ("Curious", "no ref_logp"),
    ],
)
def test_bad_losses_are_found_out(others: str, name: str, promise: str) -> None:
    with pytest.raises(CheckError, match=promise):
        contracts.check_loss(others + name)


def test_third_parties_add_their_own(others: str) -> None:
    spec = {"use": others + "Half", "factor": 0.25}
    contracts.check_estimator(spec)
    run = trainer({"advantage": spec, "loss": "ppo"}, steps=1, tasks=2)
    assert [m["step"] for m in run.train()] == [0.0]


# --- what is wrong is named -------------------------------------------------------------------
def test_unmet_needs_are_named() -> None:
    for recipe, name, advice in (
        ({"advantage": "remax", "loss": "ppo"}, "baseline", "greedy_twin"),
        ({"advantage": "grpo", "loss": ["ppo", "kl"]}, "ref_logp", "reference=True"),
        ({"advantage": "ppo", "loss": "ppo"}, "value", "a critic"),
        ({"advantage": "distillation", "loss": "ppo"}, "teacher_logp", "a teacher"),
        ({"advantage": "grpo", "loss": "ppo", "reward": "overlong"}, "length", "length"),
    ):
        with pytest.raises(CardError, match=f"needs '{name}'.*{advice}"):
            trainer(recipe)
    with pytest.raises(CardError, match=r"loss.1 \(KLLoss\)"):
        trainer({"advantage": "grpo", "loss": ["ppo", "kl"]})


def test_wrong_tables_are_named(others: str) -> None:
    good = {"advantage": "grpo", "loss": "ppo"}
    for change, message in (
        ({"advantage": "gpro"}, "Did you mean 'grpo'"),
        ({"rollouts": "chains"}, "Did you mean 'rollout'"),
        ({"loss": {"use": "ppo", "clip": 0.2}}, "loss 'ppo' 'clip'.*Known: aggregate, clip_high"),
        ({"loss": {"use": "ppo", "aggregate": "mean"}}, "aggregate is one of"),
        ({"loss": {"clip_low": 0.2}}, "names its object"),
        ({"loss": others + "Nothing"}, "Nothing. cannot be a loss: it has no"),
        ({"loss": others + "Missing"}, "cannot load"),
        ({"advantage": others + "Duck"}, "no subclass of searchgym.rl.AdvantageEstimator"),
        ({"train": {"stpes": 3}}, "stpes"),
    ):
        with pytest.raises(CardError, match=message):
            trainer({**good, **change})
    with pytest.raises(CardError, match="needs the slot 'advantage'"):
        Recipe.of({"loss": "ppo"})
    with pytest.raises(CardError, match="unknown recipe 'gppo'"):
        Recipe.of("gppo")


def test_recipes_are_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('advantage = "rloo"\nloss = [{ use = "ppo", clip_high = 0.3 }, "entropy"]\n')
    recipe = Recipe.of(path)
    assert [p for p, _ in recipe.parts()][-4:] == ["loss.0", "loss.1", "data", "schedule"]
    path.write_text("advantage = ")
    with pytest.raises(CardError, match="not valid TOML"):
        Recipe.of(path)
    with pytest.raises(CardError, match="cannot read"):
        Recipe.of(tmp_path / "none.toml")


def test_rows_of_an_edited_context_make_one_line() -> None:
    """A trajectory in two rows has the tokens of both, and turns as recorded."""
    from searchgym.rl.slots.batch import Batch, in_lines
    from searchgym.rl.slots.records import Rewards, Scored

    lm, policy = player(0)
    group = make("rollout", {"use": "chains", "size": 2}).collect(PLANS[:1], Workers(policy, setting(), lm))[0]  # fmt: skip  # noqa: E501
    first, second = group.members
    (row,) = first.rows
    half = row.turn_of_token == 0
    parts = tuple(
        replace(row, sampled=row.sampled & keep, loss_mask=row.loss_mask & keep)
        for keep in (half, ~half)
    )
    split = replace(group, members=(replace(first, rows=parts), second))
    rewards = Rewards(torch.tensor([1.0, 0.0]).double().numpy())
    whole, cut = (Batch.of([Scored(g, {}, rewards)]) for g in (group, split))
    assert whole is not None
    assert cut is not None
    for name in ("mask", "turn", "sampled_logp", "length"):
        assert torch.equal(getattr(whole, name), getattr(cut, name)), name
    assert whole.turn.max() == 1
    lines = in_lines(lm.logp(cut.rows).detach(), cut.members, cut.mask.shape[1])
    torch.testing.assert_close(lines, cut.sampled_logp, atol=1e-4, rtol=1e-4)
