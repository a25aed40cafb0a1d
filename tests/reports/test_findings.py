"""What reports say first, what they must not leave out, and what they must not show."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from searchgym.charts import to_csv
from searchgym.evaluation import EvalResult, Interval, limits
from searchgym.reports.findings import NOT_ABOVE
from searchgym.reports.ladders import figure_of
from searchgym.reports.page import report_of, save_figures
from searchgym.reports.report import named, short_name
from tests.reports.conftest import training


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ("rules", "rules"), ("runs/cand/agents/seed-0.safetensors", "cand/seed-0"),
        ("runs/grpo/model", "grpo"), ("my_agents:FirstTitle", "my_agents:FirstTitle"),
        ("seed-0.safetensors", "seed-0.safetensors"),
    ],
)  # fmt: skip
def test_short_names(given: str, short: str) -> None:
    assert short_name(given) == short


def test_names_that_would_be_the_same_are_given_in_full(evaluated: Path) -> None:
    one = EvalResult.load(evaluated / "rules.json")
    paths = ["a/x/agents/s.safetensors", "b/x/agents/s.safetensors"]
    assert [r.agent for r in named([replace(one, agent=p) for p in paths])] == paths


def test_no_agent_is_left_out_of_the_first_sentence(evaluated: Path, tmp_path: Path) -> None:
    data = json.loads((evaluated / "rules.json").read_text(encoding="utf-8"))
    names = [f"agent {i}" for i in range(7)] + ["runs/c/agents/seed-0.safetensors", "one, two"]
    for i, name in enumerate(names):
        (tmp_path / f"{i}.json").write_text(json.dumps({**data, "agent": name}))
    first = report_of([tmp_path]).summary[0]
    assert all(f"agent {i}" in first for i in range(7))
    assert "c/seed-0" in first
    assert "“one, two”" in first


def test_several_sets_begin_with_one_table(evaluated: Path, tmp_path: Path) -> None:
    data = json.loads((evaluated / "rules.json").read_text(encoding="utf-8"))
    (tmp_path / "x.json").write_text(json.dumps({**data, "set": "Other Set"}))
    report = report_of([evaluated, tmp_path])
    first = report.sections[0].blocks[0]
    assert (report.sections[0].title, first.title) == (
        "Agents and sets", "F1 of every agent on every set",
    )  # fmt: skip
    rows = {r["agent"]: r for r in report.tables[0].rows}
    assert rows["rules"]["Other Set"] == rows["rules"]["SimpleQA"]
    assert rows["oracle"]["Other Set"] is None
    titles = [t.title for t in report.tables]
    assert len(set(titles)) == len(titles), "regions of a page need names of their own"
    shown = [s.link for s in report.sections if s.link]
    assert shown == ["SimpleQA", "Other Set"], "the bar leads to sets, not to all their sections"


def test_rates_lie_on_axes_from_0_to_1_and_small_ones_say_so(tmp_path: Path) -> None:
    lines = [{"step": i, "loss": 5.0 - i, "mean_token_accuracy": 0.002 * i} for i in range(4)]
    (tmp_path / "sft.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    spec = report_of([tmp_path]).figures[0].spec()
    panels = {" ".join(p["title"]): p for p in spec["concat"]}
    small = panels["accuracy of the next token (axis ends at 0.1)"]
    domains = [layer["encoding"]["y"]["scale"] for layer in small["layer"] if "y" in
               layer["encoding"]]  # fmt: skip
    assert {tuple(d["domain"]) for d in domains} == {(0, 0.1)}
    zero = [layer["encoding"]["y"]["scale"]["zero"] for layer in
            panels["loss, nats per token"]["layer"]]  # fmt: skip
    assert set(zero) == {True}


def test_what_does_not_change_is_told_not_drawn(tmp_path: Path) -> None:
    run = training(tmp_path / "run", 0)
    learning = report_of([run]).figures[0]
    assert "turns per episode 2" in learning.caption
    assert "turns per episode" not in {r["measure"] for r in learning.rows}


def test_evaluations_are_not_smoothed(climbed: Path, tmp_path: Path) -> None:
    (tmp_path / "transfer.json").write_text((climbed / "transfer.json").read_text("utf-8"))
    f1 = [0.0, 0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.4, 0.5, 0.1, 1.0]
    curve = [{"episodes": i, "f1": v, "searches": 1.0 + i} for i, v in enumerate(f1)]
    (tmp_path / "curves.json").write_text(
        json.dumps([{"agent": "trained", "seed": 0, "curve": curve}])
    )
    learning = next(f for f in report_of([tmp_path]).figures if f.name == "learning")
    assert [r["mean"] for r in learning.rows if r["measure"] == "F1" and "mean" in r] == f1
    assert learning.title == "F1 rises from 0.00 to 1.00 within 11 training episodes"
    assert learning.caption.startswith("As logged, without smoothing")


def test_training_says_over_how_many_steps_it_is_averaged(trained: list[Path]) -> None:
    learning = report_of(trained[:1]).figures[0]
    assert "the mean over 3 neighbouring steps" in learning.caption
    means = [r["mean"] for r in learning.rows if r["measure"] == "reward" and "mean" in r]
    assert means[-1] == pytest.approx(0.1 + 0.02 * 29), "no lag at the end"


def test_a_run_that_learnt_nothing_says_so_in_its_head(tmp_path: Path) -> None:
    run = training(tmp_path / "run", 0)
    assert report_of([run]).alarm == ""
    rows = [json.loads(line) for line in (run / "rl.jsonl").read_text().splitlines()]
    flat = [{**r, "grad_norm": 0.0, "frac_reward_zero_std": 1.0} for r in rows]
    (run / "rl.jsonl").write_text("".join(json.dumps(r) + "\n" for r in flat))
    assert report_of([run]).alarm.startswith("No group of episodes had two different rewards")


def _table(rules: float, own: float, **more: Any) -> dict[str, Any]:
    cells = [
        {"rung": r, "agent": a, "metric": "f1", "mean": m, "low": m - 0.1, "high": m + 0.1,
         "questions": 40, "seeds": 1, **(more if a == "c" else {})}
        for r, pair in {"world": (0.3, 0.5), "nq": (rules, own)}.items()
        for a, m in zip(("rules", "c"), pair, strict=True)
    ]  # fmt: skip
    ratio = {"mean": 0.46, "low": 0.2, "high": 0.7}
    return {
        "rungs": [{"name": "world", "kind": "generated", "questions": 40},
                  {"name": "nq", "kind": "real", "questions": 40}],
        "reference": "world", "table": cells, "complete": True,
        "gains": [{"agent": "c", "baseline": "c untrained", "rung": "nq", "metric": "f1",
                   "gain": ratio, "reference_gain": ratio, "ratio": ratio}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "own", "gap", "stands", "title"),
    [
        (0.27, 0.22, None, "not told apart from", "none of 2 sets"),
        (0.22, 0.27, None, "not told apart from", "none of 2 sets"),
        (0.22, 0.47, None, "above", "1 of 2 sets"),
        (0.47, 0.22, None, "below", "none of 2 sets, clearly below on nq"),
        # what is known of the same questions counts for more than two intervals that overlap
        (0.22, 0.27, (0.01, 0.09), "above", "1 of 2 sets"),
        (0.22, 0.47, (-0.1, 0.6), "not told apart from", "none of 2 sets"),
        (0.27, 0.22, (-0.09, -0.01), "below", "none of 2 sets, clearly below on nq"),
    ],
)
def test_a_share_is_kept_only_where_rules_are_beaten(
    rules: float, own: float, gap: tuple[float, float] | None, stands: str, title: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    data = _table(rules, own)
    if gap is not None:
        interval = {"mean": own - rules, "low": gap[0], "high": gap[1]}
        data["contrasts"] = [{"rung": "nq", "agent": "c", "other": "rules", "metric": "f1",
                              "difference": interval, "p": 0.5, "p_holm": 0.5}]  # fmt: skip
    (tmp_path / "transfer.json").write_text(json.dumps(data))
    report = report_of([tmp_path])
    kept = stands == "above"
    told = "; it keeps 46 % [20 %, 70 %] of its gain over itself before training on nq"
    assert report.summary[0] == f"c has F1 0.50 in world (rules 0.30){told if kept else ''}."
    lines = [line for line in report.summary if f"{stands} the best script on" in line]
    assert any(f"nq ({own:.2f}, rules {rules:.2f})" in line for line in lines), report.summary
    (row,) = next(t for t in report.tables if t.name == "gains").rows
    assert (row["ratio"] is not None, row["why"]) == (kept, "" if kept else NOT_ABOVE)
    assert report.figures[0].title == (
        f"c is clearly above rules on {title}: F1 0.50 on world and {own:.2f} on nq"
    )


def test_two_seeds_are_shown_without_an_interval_over_them() -> None:
    seeds = {"seeds": 2, "each_seed": "0.1 0.3", "method": "crossed over 2 seeds"}
    rows = figure_of(_table(0.3, 0.2, **seeds)).rows
    own = [r for r in rows if r["by"] == "c"]
    assert {r["low"] for r in own if "mean" in r} == {None}
    assert [r["value"] for r in own if r["rung"] == "nq" and "value" in r] == [0.1, 0.3]


def test_no_count_is_below_zero_and_no_rate_above_one() -> None:
    wide = Interval(0.9, -0.66, 3.05, 9, "bca")
    assert wide.within(*limits("searches")) == wide._replace(low=0.0)
    assert wide.within(*limits("f1")) == wide._replace(low=0.0, high=1.0)
    assert wide.within(*limits("reward")) == wide, "a reward may take points away"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_runs_no_cell(start: str) -> None:
    text = to_csv([{"agent": f"{start}HYPERLINK(1)", "mean": -0.5, "p": "-0.5", f"{start}x": 1}])
    head, row = csv.reader(io.StringIO(text, newline=""))
    assert row[0] == f"'{start}HYPERLINK(1)"
    assert row[1:3] == ["-0.5", "-0.5"], "numbers stay numbers"
    assert head[3].startswith("'")


def test_a_folder_of_figures_has_an_index_of_all_files(evaluated: Path, tmp_path: Path) -> None:
    written = save_figures(report_of([evaluated]), tmp_path)
    index = written["index.html"].read_text(encoding="utf-8")
    for name in written.keys() - {"index.html"}:
        assert f'"{name}"' in index
