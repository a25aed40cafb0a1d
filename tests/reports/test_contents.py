"""What reports say is what the runs have written."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from searchgym.evaluation import Column, EvalResult, Interval, ResultTable, compare
from searchgym.reports import scores
from searchgym.reports.ladders import figure_of
from searchgym.reports.page import report_of, report_on
from searchgym.reports.report import Report
from searchgym.reports.sources import read_run
from tests.reports.conftest import EVIL


def table(report: Report, name: str) -> ResultTable:
    return next(t for t in report.tables if t.name == name)


def test_one_training_run(trained: list[Path]) -> None:
    report = report_of(trained[:1])
    assert report.title == "grpo: runs/warm in SimpleQA-v0"
    assert "30 steps, 240 episodes, seed 0: reward 0.19 → 0.59" in report.summary[0]
    assert report.summary[-1] == "1 named warning."
    assert report.warnings[0].startswith("entropy_collapse (step 25)")
    names = [s.title for s in report.sections]
    assert {"Learning curves", "Reward parts", "Curriculum", "Schedules", "Warnings"} <= {*names}
    rows = {r["measure"]: r for r in table(report, "ends").rows}
    assert rows["reward"]["first"] == pytest.approx(0.1 + 0.02 * 4.5)
    assert rows["reward"]["last"] == pytest.approx(0.1 + 0.02 * 24.5)
    axes = next(f for f in report.figures if f.name == "curriculum")
    assert [r["value"] for r in axes.rows if "value" in r][::10] == [2.0, 3.0, 4.0]
    assert [r["mean"] for r in axes.rows if "mean" in r][::10] == [2.0, 3.0, 4.0], (
        "as set, not late"
    )
    machine = [b for b in report.sections[-1].blocks if b.title == "Versions"]
    assert dict(machine[0].rows)["python"]  # type: ignore[union-attr]


def test_a_run_of_one_logged_point_has_a_dot_and_no_change(tmp_path: Path) -> None:
    """A line needs two; a beginning and an end, too."""
    row = '{"step": 7, "loss": 6.24, "mean_token_accuracy": 0.02}\n'
    (tmp_path / "sft.jsonl").write_text(row)
    report = report_of([tmp_path])
    assert report.summary[0].endswith("loss, nats per token 6.24, accuracy of the next token 0.02.")
    assert "In numbers" not in [section.title for section in report.sections]
    drawn = json.dumps(report.figures[0].chart.to_dict())
    assert drawn.count('"alone": true') == 2
    assert '"filter": "datum.alone"' in drawn
    (tmp_path / "sft.jsonl").write_text(row + row.replace("7", "8"))
    again = report_of([tmp_path])
    assert "In numbers" in [section.title for section in again.sections]
    assert "alone" not in json.dumps(again.figures[0].chart.to_dict())


def test_a_reward_part_that_is_not_there_was_not_given(trained: list[Path]) -> None:
    parts = next(f for f in report_of(trained[:1]).figures if f.name == "reward_parts")
    given = [r["value"] for r in parts.rows if r["measure"] == "format" and "value" in r]
    assert len(given) == 30
    assert sum(given) == pytest.approx(0.2)


def test_seeds_become_one_curve_and_other_settings_another(trained: list[Path]) -> None:
    report = report_of(trained)
    learning = report.figures[0]
    reward = [r for r in learning.rows if r["measure"] == "reward"]
    series = {r["series"] for r in reward}
    assert series == {"seed-0", "faster"}
    assert {r["seed"] for r in reward if r["series"] == "seed-0" and "value" in r} == {0, 1, 2}
    last = max((r for r in reward if "mean" in r and r["series"] == "seed-0"), key=lambda r: r["x"])
    assert last["seeds"] == 3
    # seeds differ by .01: the half width is t * sd / sqrt(3) = 4.3027 * .01 / sqrt(3)
    assert last["high"] - last["mean"] == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-3)
    differing = table(report, "differing")
    assert [r["setting"] for r in differing.rows] == ["train.lr"]
    assert differing.rows[0]["faster"] == "0.0001"
    assert "seed 2" in json.dumps([dict(r) for r in table(report, "warnings").rows])


def test_an_evaluation(evaluated: Path) -> None:
    report = report_of([evaluated])
    results = {p.stem: EvalResult.load(p) for p in evaluated.glob("*r*.json") if p.stem != "other"}
    means = {r["measure"]: r for r in table(report, "means").rows}
    for agent, result in results.items():
        column = "rules (closed book)" if agent == "rules.closed" else agent
        assert means["F1"][column] == result.means["f1"]
    best = max(("rules", "first-hit"), key=lambda a: results[a].means["f1"].mean)
    assert report.summary[0].startswith(f"{best} answers")
    assert "questions are few" in report.summary[1]
    paired = {(r["a"], r["b"]): r for r in table(report, "paired").rows}
    assert ("rules", "rules (closed book)") in paired
    expected = compare(results[best], results["oracle"], "f1")
    row = paired[best, "oracle"]
    assert row["difference"] == expected.difference
    assert row["p"] <= row["p_holm"] <= 1
    assert "ends" not in [f.name for f in report.figures], "all ended with an answer"
    families = {r["family"]: r for r in table(report, "families").rows}
    assert sum(f["questions"] for f in families.values()) == len(results["oracle"].rows)
    assert families["chain"]["oracle"].mean == 1.0
    assert report.warnings == (), "a closed book is no mistake"
    odd = [r["setting"] for r in table(report, "differing").rows]
    assert "search_enabled" in odd


def test_results_that_cannot_be_compared_are_said(evaluated: Path, tmp_path: Path) -> None:
    data = json.loads((evaluated / "rules.json").read_text(encoding="utf-8"))
    data["settings"]["rules"]["k"] = 9
    data["agent"] = "other"
    (tmp_path / "other.json").write_text(json.dumps(data))
    report = report_of([evaluated / "rules.json", tmp_path / "other.json"])
    assert any("not comparable" in line and "rules.k" in line for line in report.warnings)
    assert "paired" not in [t.name for t in report.tables]
    assert {"setting": "rules.k", "rules": "3", "other": "9"} in [
        dict(r) for r in table(report, "differing").rows
    ]


def test_several_sets_are_reported_apart(evaluated: Path, tmp_path: Path) -> None:
    data = json.loads((evaluated / "oracle.json").read_text(encoding="utf-8"))
    (tmp_path / "x.json").write_text(json.dumps({**data, "set": "Other Set"}))
    report = report_of([evaluated, tmp_path])
    titles = [s.title for s in report.sections]
    assert "Scores: SimpleQA" in titles
    assert "Scores: Other Set" in titles
    names = [f.name for f in report.figures]
    assert len(set(names)) == len(names)
    assert len({s.anchor for s in report.sections}) == len(report.sections)


def test_a_ladder(climbed: Path) -> None:
    report = report_of([climbed])
    data = json.loads((climbed / "transfer.json").read_text(encoding="utf-8"))
    ladder = report.figures[0]
    cells = {(r["rung"], r["by"]): r for r in ladder.rows if "mean" in r}
    for row in data["table"]:
        if row["metric"] == "f1":
            assert cells[row["rung"], row["agent"]]["mean"] == row["mean"]
    rings = [r["value"] for r in ladder.rows if r.get("by") == "trained" and "value" in r]
    assert len(rings) == 4, "two seeds on two rungs"
    assert next(r["facet"] for r in ladder.rows if "mean" in r) == "Generated"
    assert [(r["rung"], r["other"]) for r in table(report, "paired").rows] == [
        ("home", "random"), ("away", "random"),
    ]  # fmt: skip
    assert report.summary[0].startswith("trained has F1")
    assert any(line.startswith("F1 of trained") for line in report.summary)


def test_drops_ratios_and_strata_are_shown_where_they_are(climbed: Path, tmp_path: Path) -> None:
    data = json.loads((climbed / "transfer.json").read_text(encoding="utf-8"))
    interval = {"mean": 0.4, "low": 0.3, "high": 0.5, "n": 2, "method": "x"}
    data["drops"] = [{"rung": "away", "above": "home", "agent": "trained", "metric": "f1",
                      "drop": interval, "paired": True}]  # fmt: skip
    gain = {"agent": "trained", "baseline": "random", "reference": "home", "metric": "f1",
            "gain": interval, "reference_gain": interval, "why": ""}  # fmt: skip
    data["gains"] = [
        {**gain, "rung": "away", "ratio": None, "why": "nothing was gained"},
        {**gain, "rung": "real sets, averaged", "ratio": interval},
    ]
    stratum = {"name": "long", "simulated_n": 9, "real_n": 30, "simulated": interval,
               "real": interval, "points": interval, "few": True}  # fmt: skip
    lacks = [{"rung": "away", "simulated": "home", "agent": "trained", "metric": "f1",
              "trait": "length", "lost": 0.2, "explained": interval, "uncovered": 0.5,
              "strata": [stratum]}]  # fmt: skip
    (tmp_path / "lacks.json").write_text(json.dumps(lacks))
    curves = [{"agent": "trained", "seed": 7, "curve": [
        {"episodes": n, "f1": n / 4000, "searches": 1.0} for n in (0, 1000)]}]  # fmt: skip
    (tmp_path / "curves.json").write_text(json.dumps(curves))
    data["absent"], data["complete"] = ["remote: no server"], False
    (tmp_path / "transfer.json").write_text(json.dumps(data))
    report = report_of([tmp_path])
    assert table(report, "drops").rows[0]["trained"][:3] == (0.4, 0.3, 0.5)
    rows = table(report, "gains").rows
    assert (rows[0]["ratio"], rows[0]["why"]) == (None, "nothing was gained")
    assert rows[1]["ratio"][:3] == (0.4, 0.3, 0.5)
    assert "it keeps 40 % [30 %, 50 %] of its gain over random on real sets." in report.summary[0]
    assert table(report, "lacks").rows[0]["explained"][:3] == (0.4, 0.3, 0.5)
    assert table(report, "strata").rows[0]["few"] == "few"
    learning = next(f for f in report.figures if f.name == "learning")
    assert {r["series"] for r in learning.rows} == {"trained"}
    assert any("remote: no server" in line for line in report.warnings)
    assert any("interrupted" in line for line in report.warnings)


def test_several_ladders_name_their_agents_by_run(climbed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "transfer.json").write_text((climbed / "transfer.json").read_text("utf-8"))
    report = report_on([read_run(climbed), read_run(other)])
    agents = [r["by"] for r in report.figures[0].rows if "mean" in r]
    assert {"other: trained", f"{climbed.name}: trained", "random", "oracle"} <= {*agents}
    assert agents.count("random") == 2, "the same on both: once a rung"


def test_the_short_ladder_leaves_out_what_is_there_for_comparison(climbed: Path) -> None:
    data = json.loads((climbed / "transfer.json").read_text(encoding="utf-8"))
    whole, short = figure_of(data), figure_of(data, short=True)
    assert {r["by"] for r in whole.rows} == {"random", EVIL, "oracle", "trained"}
    assert {r["by"] for r in short.rows} == {EVIL, "oracle", "trained"}


def test_an_untrained_agent_is_what_others_are_measured_against(tmp_path: Path) -> None:
    """Agents of two sources, as ``transfer`` lists them: what they were before comes first."""
    names = ["rules", "c (a) untrained", "c (a)", "c (b) untrained", "c (b)"]
    cell = {"metric": "f1", "low": 0.1, "high": 0.9, "n": 5, "questions": 5, "seeds": 1}
    rungs = [{"name": "world", "kind": "generated", "questions": 5},
             {"name": "nq", "kind": "real", "questions": 5}]  # fmt: skip
    interval = {"mean": 0.3, "low": 0.1, "high": 0.5}
    data = {
        "rungs": rungs, "complete": True,
        "table": [{**cell, "rung": r["name"], "agent": a, "mean": 0.1 * (i + 1)}
                  for r in rungs for i, a in enumerate(names)],
        "drops": [{"rung": "nq", "above": "world", "agent": a, "metric": "f1", "drop": interval,
                   "paired": False} for a in names],
    }  # fmt: skip
    (tmp_path / "transfer.json").write_text(json.dumps(data))
    report = report_of([tmp_path])
    assert report.summary[0] == "c (a) has F1 0.30 in world (rules 0.10)."
    assert report.summary[1].startswith("It is not told apart from the best script on world")
    assert [s.split(":")[0] for s in report.summary[2:]] == ["F1 of c (a)", "F1 of c (b)"]
    assert "0.30 [0.10, 0.90] in world; on real passages 0.30 (nq)" in report.summary[2]
    drops = next(f for f in report.figures if f.name == "drops")
    assert [r["by"] for r in drops.rows] == ["c (a)", "c (b)"]
    assert list(table(report, "drops").rows[0])[3:] == names, "the table has all"
    assert {r["by"] for r in figure_of(data, short=True).rows} == {"rules", "c (a)", "c (b)"}


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (Column("x", "x"), Interval(0.5, 0.25, 1.0, 9, "bca"), "0.500 [0.250, 1.000]"),
        (
            Column("x", "x", 2, signed=True),
            Interval(0.5, -0.25, 1.0, 9, "bca"),
            "+0.50 [-0.25, +1.00]",
        ),
        (Column("x", "x"), None, "–"),
        (Column("x", "x"), float("nan"), "–"),
        (Column("x", "x"), 1234, "1,234"),
        (Column("x", "x", 1), 1234.56, "1,234.6"),
        (Column("x", "x"), True, "yes"),
        (Column("x", "x"), EVIL, EVIL),
    ],
)
def test_cells(column: Column, value: object, text: str) -> None:
    assert column.text(value) == text


def test_tables_and_figures_as_files(evaluated: Path, tmp_path: Path) -> None:
    from searchgym.reports.page import save_figures

    report = report_of([evaluated])
    written = save_figures(report, tmp_path)
    for figure in report.figures:
        assert written[f"{figure.name}.png"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        drawn = written[f"{figure.name}.svg"].read_text(encoding="utf-8")
        assert drawn.startswith("<svg")
        assert "var(--" not in drawn, "files carry colours"
        data = json.loads(written[f"{figure.name}.json"].read_text(encoding="utf-8"))
        assert len(data) == len(figure.rows)
        assert len(list(csv.reader(written[f"{figure.name}.csv"].open()))) == len(data) + 1
    rows = list(csv.DictReader(written["table_means.csv"].open()))
    f1 = next(r for r in rows if r["measure"] == "F1")
    assert float(f1["oracle"]) == 1.0
    assert float(f1["oracle_low"]) < 1.0


def test_a_heading_rests_on_the_paired_difference_and_names_no_oracle_best(evaluated: Path) -> None:
    files = sorted(p for p in evaluated.glob("*.json") if p.name != "machine.json")
    first = next(r for r in map(EvalResult.load, files) if not r.ceiling and r.complete)
    rng = np.random.default_rng(0)
    base, gain = rng.random(len(first.rows)) * 0.8, 0.05 + 0.1 * rng.random(len(first.rows))

    def scored(name: str, f1: Any, **agent: Any) -> EvalResult:
        rows = tuple(r._replace(f1=float(v)) for r, v in zip(first.rows, f1, strict=True))
        settings = {**first.settings, "agent": {**first.settings["agent"], **agent}}
        return replace(first, agent=name, rows=rows, settings=settings)

    low, high = scored("low", base), scored("high", base + gain)
    assert low.means["f1"].high > high.means["f1"].low, "each for itself they overlap"
    told = scores._lead([low, high])
    assert re.fullmatch(
        r"high reaches F1 [\d.]+, low [\d.]+; on the same questions, a difference of 0\.\d+ \[.*\]",
        told,
    )
    assert "not told apart" in scores._lead([low, scored("same", base[::-1])])
    told_all = scored("all", base * 0 + 1, **{"class": "searchgym.agents.oracle:OracleAgent"})
    assert scores.best_of([told_all, low, high], "f1") is high
    assert scores._lead([told_all, low, high]).endswith("; the oracle 1.00")
