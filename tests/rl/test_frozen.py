"""What a model's folder says to leave alone is left alone when it is trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from searchgym.llms.base import Sampling
from searchgym.policies.note import read_note, save_note
from searchgym.rl.launch import build
from tests.rl.colours import player, setting
from tests.rl.test_precision import plan

HELD = "*embed_tokens*"


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    folder = tmp_path / "start"
    lm, _ = player()
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    save_note(folder, "plain", Sampling(), [HELD])
    return folder


def trained(folder: Path, out: Path, **more: Any) -> tuple[Any, set[str]]:
    """The trainer after its steps, and the names of the parameters that moved."""
    trainer = build(plan(folder, **more), setting(), out)
    before = {n: p.detach().clone() for n, p in trainer.lm.model.named_parameters()}
    list(trainer.train())
    after = trainer.lm.model.named_parameters()
    return trainer, {n for n, p in after if not torch.equal(p, before[n])}


def test_it_stands_still_and_the_note_goes_on(noted: Path, tmp_path: Path) -> None:
    trainer, moved = trained(noted, tmp_path / "run")
    assert moved
    assert not any("embed_tokens" in name for name in moved)
    assert read_note(trainer.save(tmp_path / "model"))["freeze"] == [HELD]


def test_whoever_says_so_trains_everything(noted: Path, tmp_path: Path) -> None:
    trainer, moved = trained(noted, tmp_path / "run", load={"freeze": []})
    assert any("embed_tokens" in name for name in moved)
    assert "freeze" not in read_note(trainer.save(tmp_path / "model"))


def test_adapters_leave_it_alone_anyway(noted: Path, tmp_path: Path) -> None:
    trainer, moved = trained(noted, tmp_path / "run", lora={"rank": 2})
    assert moved
    assert all(".lora_" in name for name in moved)
    assert trainer.lm.freeze == ()
