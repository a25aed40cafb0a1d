"""Models merged by RAM: worked numbers, and folders that are loaded as every other model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from searchgym.errors import CardError, DataError, EngineError
from searchgym.policies import TrainableLM
from searchgym_agents.methods.ram import merge_weights, models_merge
from tests.rl.colours import player, tokenizer

START = {"w": torch.tensor([1.0, 1.0, 1.0]), "step": torch.tensor(7)}


def trained(*changes: float) -> dict[str, torch.Tensor]:
    return {**START, "w": START["w"] + torch.tensor(changes)}


@pytest.mark.parametrize(("scale", "change"), [(1.0, [1.0, 3, 3]), (1.1, [1.05, 3.15, 3])])
def test_shared_changes_are_averaged_and_others_stretched(scale: float, change: list[float]):
    merged = merge_weights(START, [trained(1, 0, 2), trained(0, 3, 4)], scale=scale)
    torch.testing.assert_close(merged["w"] - START["w"], torch.tensor(change))
    assert merged["step"] == 7


def test_one_model_is_itself_and_small_changes_count_as_none():
    alone = merge_weights(START, [trained(1, 0, -2)])
    torch.testing.assert_close(alone["w"], trained(1, 0, -2)["w"])
    beside = merge_weights(START, [trained(1, 0, 0), trained(1e-6, 1, 0)], scale=2)
    torch.testing.assert_close(beside["w"], START["w"] + torch.tensor([1.0, 1.0, 0.0]))


def test_what_cannot_be_merged_is_refused():
    with pytest.raises(CardError, match="at least one model"):
        merge_weights(START, [])
    with pytest.raises(CardError, match="scale >= 1"):
        merge_weights(START, [START], scale=float("nan"))
    with pytest.raises(EngineError, match="names or shapes"):
        merge_weights(START, [{"w": torch.zeros(2), "step": torch.tensor(7)}])


def test_folders_are_merged_into_one_that_is_played(tmp_path: Path):
    lm, policy = player()
    tokenizer().save_pretrained(tmp_path / "start")
    for name, moved in (("start", {}), ("a", {0: 0.5}), ("b", {0: 1.0, 1: 0.25})):
        with torch.no_grad():
            norm = lm.model.model.norm.weight
            norm.fill_(1.0)
            for at, by in moved.items():
                norm[at] += by
        lm.save(tmp_path / name, policy=policy)
    out = tmp_path / "merged"
    models_merge(str(tmp_path / "start"), [str(tmp_path / n) for n in "ab"], out=out)
    norm = AutoModelForCausalLM.from_pretrained(out).model.norm.weight
    # b changed two weights, one of which a changed, too: its own is stretched by half of .1
    torch.testing.assert_close(norm[:3].detach(), torch.tensor([1.75, 1.2625, 1.0]))
    assert (out / "searchgym.json").read_text() == (tmp_path / "a/searchgym.json").read_text()
    TrainableLM(out, device="cpu")
    with pytest.raises(DataError, match="not empty"):
        models_merge(str(tmp_path / "start"), [str(tmp_path / "a")], out=out)
