"""The learning curve of a model that is taught, at a small size."""

from __future__ import annotations

from typing import Any

from tests.benchmarks import learning_curve


def test_the_title_is_the_finding() -> None:
    def found(generated: float, real: float) -> dict[str, Any]:
        means = {"generated world": generated, "HotpotQA": real}
        return {place: {"em": [m, m - 0.05, m + 0.05]} for place, m in means.items()}

    report = {
        "questions": 30, "rules": found(0.1, 0.2),
        "checkpoints": {"135000": found(0.0, 0.0), "540000": found(0.3, 0.1)},
    }  # fmt: skip
    drawn = learning_curve.figure(report)
    assert drawn.title == (
        "EM rises from 0.00 to 0.30 in the generated world and from 0.00 to 0.10 on HotpotQA"
    )
    assert {row["series"] for row in drawn.rows} == {"the model", "rules"}
    assert len(drawn.rows) == 8
    assert drawn.png().startswith(b"\x89PNG")
