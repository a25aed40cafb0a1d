"""Every number that is logged has its line in METRICS.md."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.llms import Sampling, SftConfig, SftTrainer, encode, train
from searchgym.policies import TrainableLM
from searchgym.rl import minimal
from searchgym.rl.log import read_log
from searchgym.rl.measures import advantage_metrics, gain, loss_metrics, staleness_metrics
from searchgym.rl.recipe import read
from searchgym.rl.slots.batch import Estimate
from searchgym.rl.slots.protocols import make as make_slot
from searchgym.rl.slots.registry import REGISTRY
from searchgym.rl.slots.samples import loss_statistics, sample_batch
from searchgym.scoring import metrics
from tests.rl.colours import blank, player, setting, tokenizer
from tests.rl.trainers import trainer

PAST = {
    "norm", "infra", "equal_groups", "play_s", "policy/clipped", "policy/kl_old", "kl_ref", "kept",
    "tokens", "age/mean", "weight/mean", "gap/max",
}  # fmt: skip


def undocumented(names: Iterable[str]) -> list[str]:
    """Logged names that METRICS.md does not explain."""
    return sorted(name for name in names if metrics.family(name) not in metrics.RL)


def test_every_metric_says_what_it_is() -> None:
    for table in (metrics.RL, metrics.SFT, metrics.CANDIDATE):
        for name, metric in table.items():
            assert all(metric), f"{name}: every field says something"
    assert metrics.RL["sampling_logp_difference/*"].formula.count("|") == 2


def test_unknown_names_are_found() -> None:
    logged = ["reward", "rewards/em", "kl/kl", "novel", "odd/one"]
    assert undocumented(logged) == ["novel", "odd/one"]
    assert metrics.label("grad_norm", metrics.RL) == "gradient norm"
    assert metrics.label("rewards/evidence_gain", metrics.RL) == "evidence gain"


@pytest.mark.parametrize(
    ("recipe", "lm"),
    [
        ({**read("grpo"), "loss": ["ppo", "kl", {"use": "entropy", "weight": 0.01}],
          "schedule": {"use": "scheduled",
                       "lr": {"kind": "linear", "start": 0.5, "end": 1.0, "total": 2}}},
         {"reference": True}),
        ("ppo", {}),
        ("dpo", {"reference": True}),
        ("kimi", {"reference": True}),
        ("rft", {}),
        ("sft", {}),
        ("kl_cov", {}),
    ],
)  # fmt: skip
def test_a_step_logs_nothing_unexplained(recipe: Any, lm: dict[str, Any], tmp_path: Path) -> None:
    list(trainer(recipe, steps=1, lm=lm, out=tmp_path).train())
    logged = read_log(tmp_path)[0].keys() - {"warnings"}
    assert undocumented(logged) == []
    assert not PAST & logged
    assert {"step", "reward", "frac_reward_zero_std", "rollout_s", "update_s"} <= logged


@pytest.mark.parametrize("name", REGISTRY["loss"])
def test_statistics_of_every_loss_are_explained(name: str) -> None:
    loss = make_slot("loss", {"use": name, **({"clip_high": 0.2} if name == "cispo" else {})})
    stats = dict.fromkeys(loss_statistics(loss))
    assert undocumented(loss_metrics(loss.name, stats)) == []


def test_asynchronous_names() -> None:
    batch = sample_batch(0)
    rows = [_row(line) for line in batch.mask.numpy()]
    batch.members = [type("M", (), {"rows": (row,), "unsampled": False})() for row in rows]  # type: ignore[assignment]
    logged = staleness_metrics(batch, 2, 1)
    assert undocumented(logged) == []
    assert 0 < logged["importance_sampling_ratio/ess"] <= 1
    assert logged["importance_sampling_ratio/kl"] > 0


@pytest.mark.parametrize(
    ("rewards", "of", "told"),
    [
        ([0, 0, 1, 1], [2, 1, 2, 1], 0.0),  # exact match alone is paid
        ([-1, -2, -1, -2], [1, 2, 1, 2], -1.0),  # a price of the other alone
        ([1, 2, 3, 4], [1, 2, 1, 2], 0.5 / 1.25**0.5),  # reward = 2 em + x
        ([1, 1, 1, 1], [1, 2, 1, 2], None), ([0, 0, 1, 1], [1, 1, 1, 1], None),
    ],
)  # fmt: skip
def test_what_is_paid_among_equally_right_episodes(rewards: Any, of: Any, told: Any) -> None:
    members: Any = [
        (SimpleNamespace(episode=SimpleNamespace(parts={"em": em})), float(reward))
        for em, reward in zip([0.0, 0.0, 1.0, 1.0], rewards, strict=True)
    ]
    made = gain(members, of)
    assert np.isnan(made) if told is None else made == pytest.approx(told)


@pytest.mark.parametrize(("adv", "told"), [(-1.0, -1.0), (3.0, 1.0), (0.0, None)])
def test_advantages_that_are_all_negative(adv: float, told: float | None) -> None:
    batch = sample_batch(0)
    batch.credit = Estimate(torch.full((len(batch),), adv))
    assert advantage_metrics(batch).get("advantage") == told
    batch.credit = Estimate(
        batch.mask * adv * torch.tensor([1.0, -1.0]).repeat(len(batch))[: len(batch), None]
    )
    assert abs(advantage_metrics(batch).get("advantage", 0.0)) < 0.5


def _row(mask: Any) -> Any:
    return type("R", (), {"version": np.full(len(mask), 1), "loss_mask": mask})()


def test_minimal_and_supervised_names(tmp_path: Path) -> None:
    lm, policy = player()
    (step,) = minimal.grpo(setting(), lm, policy, minimal.Config(steps=1, tasks=2, group=2))
    assert undocumented(step) == []
    assert {"grad_norm", "clip_frac", "frac_reward_zero_std"} <= step.keys()

    run = SftTrainer(blank(), encode(tokenizer(), [("a", "b")] * 4, 50), SftConfig(steps=1))
    train(run, tokenizer(), tmp_path)
    (row,) = read_log(tmp_path, "sft.jsonl")
    assert row.keys() == metrics.SFT.keys()
    assert row["grad_norm"] > 0


def test_overflowed_and_length_cut_turns_are_counted(tmp_path: Path) -> None:
    """With three tokens a turn every text is cut; with a context that prompts fill, all turns but
    the first have no room."""
    import json

    from searchgym.rl.recipe import Recipe
    from searchgym.rl.trainer import TrainConfig, Trainer

    def logged(policy: Any, lm: TrainableLM, name: str) -> dict[str, Any]:
        recipe = Recipe.of({**read("grpo"), "rollout": {"use": "chains", "size": 2}})
        config = TrainConfig.of(recipe, steps=1, tasks=2, lr=1e-3, save_rollouts=4)
        out = tmp_path / name
        list(Trainer(setting(), lm, recipe, config, policy=policy, out=out).train())
        row = read_log(out)[0]
        usage = [json.loads(line)["usage"] for line in (out / "rollouts.jsonl").open()]
        turns = row["turns"] * row["episodes"]
        for share in ("overflowed", "length_cut"):
            assert row[share] == pytest.approx(sum(u[share] for u in usage) / turns)
        return row

    lm, policy = player()
    free = logged(policy, lm, "free")
    assert (free["overflowed"], free["length_cut"]) == (0, 0)
    cut = logged(lm.policy("plain", sampling=Sampling(max_tokens=3, stop=("\n",))), lm, "cut")
    assert cut["length_cut"] > 0.9
    first = setting().tasks[0]
    from tests.rl.colours import episode

    asked = episode(first).requests()[0]
    length = len(policy.ask(asked).prompt)  # type: ignore[arg-type, union-attr]
    short = lm.policy("plain", sampling=Sampling(max_tokens=6, stop=("\n",)), context=length + 8)
    full = logged(short, lm, "full")
    assert 0 < full["overflowed"] < 1
