"""Results go on where they were, and say what they are of."""

from __future__ import annotations

import json

import pytest

from searchgym.errors import DataError
from searchgym.lab import gradient_results, learning_results
from searchgym.lab.gradient_results import lines, measure, row_of, rows_of, twins_of
from searchgym.lab.learning_results import summary
from searchgym.lab.results import resumed, stored

SMALL = {"sizes": [4], "successes": [0.4], "steps": 40, "few": 10, "enumerate_groups": False}


def test_a_result_is_resumed_and_other_settings_are_refused(tmp_path):
    path, asked = tmp_path / "r.json", []

    def one(name, result):
        asked.append(name)
        return {"value": float("nan")}

    resumed(path, {"a": 1}, ["x", "y"], one)
    found = resumed(path, {"a": 1}, ["x", "y", "z"], one)
    assert asked == ["x", "y", "z"]
    assert found["methods"]["x"] == {"value": None}
    assert {"date", "searchgym", "torch", "numpy", "python"} <= set(json.loads(path.read_text()))
    with pytest.raises(DataError, match="name another file"):
        resumed(path, {"a": 2}, ["x"], one)


def test_twins_have_one_row(tmp_path):
    """GRPO with a KL to where it begins is GRPO, at a step's first update."""
    path = tmp_path / "g.json"
    measure(["grpo", "rloo"], path, **SMALL)
    result = measure(["grpo", "grpo_kl", "rloo"], path, **SMALL)
    assert result["methods"]["grpo_kl"] == {"same_as": "grpo"}
    assert twins_of(result, "grpo") == ["grpo_kl"]
    assert rows_of(result, "grpo_kl") == rows_of(result, "grpo")
    assert row_of(result, "rloo", 4, 0.4)["calls"] > 3
    shown = lines(result, 4, 0.4)
    assert [line["method"] for line in shown] == ["rloo", "grpo"]
    assert all(len(" ".join(line.values())) < 80 for line in shown)


def test_numbers_of_a_training():
    curve = [[64.0 * (i + 1), em, 2.0] for i, em in enumerate([0, 0, 0.4, 0.5, 0.6, 0.6, 0.7])]
    found = summary(curve)
    assert found["area"] == pytest.approx(2.8 / 7)
    assert found["to_goal"] == 64.0 * 7  # the mean of the last five is .56
    assert found["end"] == pytest.approx(0.56)
    assert summary(curve[:6])["to_goal"] is None


@pytest.mark.parametrize("name", ["gradients", "learning"])
def test_the_shipped_result_draws(name):
    """What the site shows: a title that is a finding, marks for every method, two widths."""
    if not stored(name).exists():
        pytest.skip(f"{name} has not been measured")
    result = json.loads(stored(name).read_text())
    figure = (gradient_results if name == "gradients" else learning_results).figure(result)
    assert len(figure.title) > 30
    assert len(figure.rows) >= 4
    assert figure.spec()["description"] == figure.alt
    assert figure.spec(narrow=True)
