"""Results go on where they were, and say what they are of."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from docsite import lab_figures
from docsite.lab_figures import apart, sentence
from docsite.laboratory import of_recipe
from searchgym.errors import DataError
from searchgym_agents.lab import learning_results
from searchgym_agents.lab.gradient_results import lines, measure, row_of, rows_of
from searchgym_agents.lab.learning_bench import Course
from searchgym_agents.lab.learning_results import row, summary
from searchgym_agents.lab.methods import BROKEN, MOST_USED, learners
from searchgym_agents.lab.results import load, resumed, stored

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


def of_areas(**areas):
    """A result whose methods' seeds have these areas, and of which the first alone gets there."""
    runs = {
        name: [{"area": a, "end": a, "searches": 1.0, "to_goal": 640.0 if i == 0 else None}
               for i, a in enumerate(values)]
        for name, values in areas.items()
    }  # fmt: skip
    return {"date": "2026-01-02", "searchgym": "1", "torch": "2",
            "methods": {name: {"runs": found} for name, found in runs.items()}}  # fmt: skip


def test_areas_apart():
    """Means .2 and .5 ± .0248 (t of two degrees of freedom 4.3027, deviation .01), and one whose
    interval holds both."""
    result = of_areas(low=[0.19, 0.2, 0.21], wide=[0.2, 0.35, 0.5], high=[0.49, 0.5, 0.51])
    assert apart(result) == {"high": ["low"], "wide": [], "low": []}
    told = sentence(result, "high")
    assert told.startswith("mean exact match while learning 0.50 [0.48, 0.52], at the end 0.50")
    assert "1 of 3 seeds reach an exact match of 0.5 after 640 episodes; 1.00 [1.00, 1.00]" in told
    assert told.endswith("3 seeds, 95 % intervals, 2026-01-02, SearchGym 1, torch 2")
    fallen = of_areas(fallen=[0.02, 0.0, 0.6])
    assert "; 2 of 3 seeds end at 0.02 or less; 1.00" in sentence(fallen, "fallen")
    assert learning_results.lines(fallen)[0]["at 0"] == "2"
    assert learning_results.lines(result)[0]["at 0"] == ""


def test_the_shipped_bench_tells_broken_credit_from_grpo():
    """Rows are of methods that exist, under the course that ``lab --learn`` runs, five seeds each;
    GRPO gets to an exact match of .5, and with its turns shuffled lies below it."""
    result = load(stored("learning"))
    assert result["settings"]["course"] == json.loads(json.dumps(asdict(Course())))
    assert set(MOST_USED) <= set(result["methods"]) <= set(learners())
    rows = {name: row(found) for name, found in result["methods"].items()}
    assert all(r["seeds"] >= 5 for r in rows.values())
    assert rows["grpo"]["reached"] == rows["grpo"]["seeds"]
    assert rows[BROKEN]["reached"] == 0
    fallen = {name: r["collapsed"] for name, r in rows.items() if r["collapsed"]}
    assert fallen == {BROKEN: 5, "adasearch": 1, "noisy_grpo": 1, "search_r2_refiner": 1,
                      "spa_rl": 3}  # fmt: skip
    assert BROKEN in apart(result)["grpo"]
    for name in {*rows} - {BROKEN}:
        assert result["date"] in of_recipe(name)["learning"]


def test_recipes_with_a_reward_of_their_own_show_both_biases():
    """IGPO follows the gain it pays more than the return; GRPO pays the return."""
    result = load(stored("gradients"))
    by_name = {line["method"]: line for line in lines(result)}
    assert by_name["igpo"]["bias"] == ".46 ±.02 (own .27 ±.02)"
    assert by_name["hypereyes"]["bias"] == ".74 ±.08 (own .56 ±.07)"
    assert "own" not in by_name["grpo"]["bias"]
    own = {name for name, line in by_name.items() if "own" in line["bias"]}
    assert {"a2tgpo", "dw_grpo", "mapo", "matchtir", "mt_grpo", "ss_grpo", "ui_s1", "clip_delta",
            "spear", "subsearch", "slate", "mars2"} <= own  # fmt: skip


@pytest.mark.parametrize("name", ["gradients", "learning"])
def test_the_shipped_result_draws(name):
    """What the site shows: a title that is a finding, marks for every method, two widths."""
    result = json.loads(stored(name).read_text())
    figure = getattr(lab_figures, name)(result)
    assert len(figure.title) > 30
    assert len(figure.rows) >= 4
    assert figure.spec()["description"] == figure.alt
    assert figure.spec(narrow=True)
