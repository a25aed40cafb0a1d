"""Merged weights are the worked numbers, and a merged folder is a model like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from searchgym.errors import CardError, DataError, EngineError
from searchgym.llms.merging import average, merge_models, overlaps, ram
from searchgym.policies.trainable import Lora, TrainableLM
from tests.rl.colours import player


def test_ram_by_hand() -> None:
    """The mean where two changed a number; more than it says where only one did."""
    base = torch.full((3,), 7.0)
    models = [base + torch.tensor([1.0, 0, 2]), base + torch.tensor([0.0, 3, 4])]
    assert overlaps(base, models) == [(2, 1), (2, 1)]
    close = torch.testing.assert_close
    close(ram(base, models, [1.0, 1.0]) - base, torch.tensor([1.0, 3, 3]))
    scales = [1 + 0.1 * shared / changed for changed, shared in overlaps(base, models)]
    close(ram(base, models, scales) - base, torch.tensor([1.05, 3.15, 3]))
    close(ram(base, models[:1], [1.0]), models[0])
    close(ram(base, [base + 1e-6, base], [2.0, 2.0]), base)


def test_an_average_by_hand() -> None:
    a, b = torch.tensor([1.0, 2]), torch.tensor([3.0, 6])
    assert average([a, b], [0.5, 0.5]).tolist() == [2, 4]
    assert average([a, b], [0.75, 0.25]).tolist() == [1.5, 3]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """A model, and two that were trained from it."""
    made = []
    for number in range(3):
        lm, _ = player(0)
        draw = torch.Generator().manual_seed(number)
        with torch.no_grad():
            for p in lm.parameters():
                if number:
                    p.add_(0.1 * torch.randn(p.shape, generator=draw))
        made.append(lm.save(tmp_path / f"model{number}"))
    return made


def test_a_merged_folder_is_a_model(folders: list[Path], tmp_path: Path) -> None:
    base, one, two = folders
    out = merge_models([one, two], tmp_path / "out")
    merged, a, b = (TrainableLM(f) for f in (out, one, two))
    for name, value in merged.state_dict().items():
        torch.testing.assert_close(value, (a.state_dict()[name] + b.state_dict()[name]) / 2)
    assert (out / "searchgym.json").read_text() == (one / "searchgym.json").read_text()
    same = merge_models([one, two], tmp_path / "one", shares=[1.0, 0.0])
    assert torch.equal(_weights(same), _weights(one))
    ram_of = {"how": "ram", "base": base, "rescale": 1.0, "threshold": 0.0}
    whole = merge_models([one, two], tmp_path / "ram", **ram_of)  # type: ignore[arg-type]
    torch.testing.assert_close(_weights(whole), _weights(out), atol=1e-4, rtol=0)


def test_parts_are_read_like_a_whole(folders: list[Path], tmp_path: Path) -> None:
    _, one, two = folders
    want = merge_models([one, two], tmp_path / "whole")
    TrainableLM(two).model.save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    (tmp_path / "parts" / "tokenizer.json").write_bytes((two / "tokenizer.json").read_bytes())
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 1
    got = merge_models([one, tmp_path / "parts"], tmp_path / "out")
    assert torch.equal(_weights(got), _weights(want))


def test_what_is_no_weight_is_kept_and_not_counted(folders: list[Path], tmp_path: Path) -> None:
    kept = {"seen": torch.tensor([True, False]), "steps": torch.tensor([3], dtype=torch.uint8)}
    want = [_merged(folders, tmp_path / f"{how}-without", how) for how in ("average", "ram")]
    for folder in folders:
        file = folder / "model.safetensors"
        save_file({**load_file(file), **kept}, file)
    for how, without in zip(("average", "ram"), want, strict=True):
        found = _merged(folders, tmp_path / how, how)
        for name, value in {**without, **kept}.items():
            assert torch.equal(found[name], value), name
    one = folders[1] / "model.safetensors"
    save_file({**load_file(one), "steps": torch.tensor([4], dtype=torch.uint8)}, one)
    with pytest.raises(EngineError, match=r"steps is no weight .*differs"):
        _merged(folders, tmp_path / "out", "ram")


def test_what_cannot_be_merged_is_named(folders: list[Path], tmp_path: Path) -> None:
    base, one, two = folders
    for options, message in (
        ({"how": "sum"}, "'average' or 'ram'"),
        ({"how": "ram"}, "needs base="),
        ({"base": base}, "'average' none"),
        ({"shares": [0.5, 0.6]}, "add up to 1"),
        ({"shares": [1.0]}, "one number for each of the 2"),
        ({"how": "ram", "base": base, "shares": [0.5, 0.5]}, "'ram' takes none"),
    ):
        with pytest.raises(CardError, match=message):
            merge_models([one, two], tmp_path / "out", **options)
    with pytest.raises(CardError, match="two models or more"):
        merge_models([one], tmp_path / "out")
    with pytest.raises(DataError, match="holds a model already"):
        merge_models([one, two], base)
    with pytest.raises(DataError, match="no model"):
        merge_models([one, tmp_path], tmp_path / "out")
    adapted, _ = player(0, lora=Lora(2))
    adapted.model.name_or_path = str(base)
    adapter = adapted.save(tmp_path / "adapter", adapter=True)
    with pytest.raises(DataError, match="an adapter"):
        merge_models([one, adapter], tmp_path / "out")
    weights = load_file(two / "model.safetensors")
    name = sorted(weights)[0]
    save_file({**weights, name: weights[name][:-1].clone()}, two / "model.safetensors")
    with pytest.raises(EngineError, match=f"one architecture: {name}"):
        merge_models([one, two], tmp_path / "out")
    (two / "model.safetensors").rename(two / "pytorch_model.bin")
    with pytest.raises(DataError, match="from safetensors only"):
        merge_models([one, two], tmp_path / "out")
    (two / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}')
    with pytest.raises(EngineError, match="different tokenizers"):
        merge_models([one, two], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_added_tokens_are_part_of_the_vocabulary(folders: list[Path], tmp_path: Path) -> None:
    """Chat models differ in these alone: one id, two meanings."""
    _, one, two = folders
    path = two / "tokenizer.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    table["added_tokens"][0]["content"] = "<|stop|>"
    path.write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(EngineError, match="different tokenizers"):
        merge_models([one, two], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _merged(folders: list[Path], out: Path, how: str) -> dict[str, torch.Tensor]:
    """Weights of the last two folders, merged; trained from the first."""
    base, *models = folders
    merge_models(models, out, how=how, base=base if how == "ram" else None)
    return load_file(out / "model.safetensors")


def _weights(folder: Path) -> torch.Tensor:
    found = load_file(folder / "model.safetensors")
    return torch.cat([found[name].flatten() for name in sorted(found)])
