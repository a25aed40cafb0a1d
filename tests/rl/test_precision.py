"""Weights in half precision round small updates away: they are not trained unasked, and not
without a word."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from searchgym.policies.trainable import TrainableLM
from searchgym.rl.launch import Plan, build
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl.colours import player, setting

TABLE = {"advantage": {"use": "reinforce", "baseline": -1.0}, "loss": "reinforce",
         "rollout": {"use": "chains", "size": 2}}  # fmt: skip


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in bfloat16, as most are."""
    folder = tmp_path_factory.mktemp("half")
    lm, _ = player()
    lm.model.to(torch.bfloat16).save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    return folder


def plan(folder: Path, **more: Any) -> Plan:
    train = {"steps": 1, "tasks": 2, "lr": 1e-6}
    sampling = {"max_tokens": 6, "stop": ["\n"]}
    given = {"device": "cpu", "renderer": "plain", "sampling": sampling, "train": train, **more}
    return Plan("mine", TABLE, str(folder), **given)


def test_a_small_step_moves_the_weights_of_a_half_precision_checkpoint(
    half: Path, tmp_path: Path
) -> None:
    trainer = build(plan(half), setting(), tmp_path)
    before = {n: p.detach().clone() for n, p in trainer.lm.model.named_parameters()}
    list(trainer.train())
    after = dict(trainer.lm.model.named_parameters())
    assert {p.dtype for p in after.values()} == {torch.float32}
    moved = sum(int((after[n] != p).sum()) for n, p in before.items())
    assert moved > 0.9 * sum(p.numel() for p in before.values())


def test_adapters_keep_the_checkpoint_as_it_is(half: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        trainer = build(plan(half, lora={"rank": 2}), setting(), tmp_path)
    assert {p.dtype for p in trainer.lm.parameters()} == {torch.float32}
    assert trainer.lm.model.lm_head.weight.dtype == torch.bfloat16


def test_whoever_asks_for_it_is_warned(half: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"are bfloat16: most updates of lr=1e-06 are rounded"):
        asked = build(plan(half, dtype="bfloat16"), setting(), tmp_path)
    assert asked.lm.model.dtype == torch.bfloat16
    lm = TrainableLM(half, device="cpu")
    with pytest.warns(UserWarning, match="dtype='float32'"):
        Trainer(setting(), lm, TABLE, TrainConfig(tasks=2), policy=lm.policy("plain"))


def test_float32_is_no_cause_for_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        lm, policy = player()
        Trainer(setting(), lm, TABLE, TrainConfig(tasks=2), policy=policy)
