"""The learning curve of a model that is taught, at a small size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import searchgym as sg
from searchgym_agents.smollm.recipe import FinetuneRecipe
from tests.benchmarks import smollm_curve
from tests.llms import tiny
from tests.smollm.tables import table


@pytest.mark.contract
def test_models_are_kept_as_they_stood(tmp_path: Path) -> None:
    model = str(tiny.save(tmp_path / "base", "llama", max_position_embeddings=8192))
    recipe = FinetuneRecipe.of(table(model))
    smollm_curve.taught(tmp_path / "run", recipe, seed=0, every=2)
    folders = sorted((tmp_path / "run" / "checkpoints").iterdir())
    assert [folder.name for folder in folders] == ["2", "4"]
    middle, last = (sg.load_policy(folder) for folder in folders)
    assert middle.fingerprint != last.fingerprint
    before = [folder.stat().st_mtime_ns for folder in folders]
    smollm_curve.taught(tmp_path / "run", recipe, seed=0, every=2)
    assert [folder.stat().st_mtime_ns for folder in folders] == before, "a finished run is kept"


def test_the_title_is_the_finding() -> None:
    def found(generated: float, real: float) -> dict[str, Any]:
        means = {"generated world": generated, "HotpotQA": real}
        return {place: {"em": [m, m - 0.05, m + 0.05]} for place, m in means.items()}

    report = {
        "questions": 30, "rules": found(0.1, 0.2),
        "checkpoints": {"20": found(0.0, 0.0), "72": found(0.3, 0.1)},
    }  # fmt: skip
    drawn = smollm_curve.figure(report)
    assert drawn.title == (
        "EM rises from 0.00 to 0.30 in the generated world and from 0.00 to 0.10 on HotpotQA"
    )
    assert {row["series"] for row in drawn.rows} == {"the model", "rules"}
    assert len(drawn.rows) == 8
    assert drawn.png().startswith(b"\x89PNG")
