"""Figures that pages state, against the stored results, and the leaderboard's page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from docsite import figures
from docsite.leaderboard import markdown
from searchgym.benchmark import REAL_SETS
from searchgym.cards import catalog
from searchgym.errors import EvaluationError
from searchgym_agents.leaderboard.entries import entries, expected_files

ROOT = catalog("envs").parent
CANDIDATE = "agents/searchgym_agents/candidate"
PLACE = f"{CANDIDATE} | ladder | hotpotqa | candidate | f1"


def stated() -> dict[str, Any]:
    runs = json.loads((ROOT / CANDIDATE / "expected.json").read_text("utf-8"))["runs"]
    (row,) = [
        r for r in runs["ladder"]["table"]
        if (r["rung"], r["agent"], r["metric"]) == ("hotpotqa", "candidate", "f1")
    ]  # fmt: skip
    return dict(row)


def page() -> str:
    row = stated()
    return (
        f"F1 **{row['mean']:.3f}**<!-- figure: {PLACE} --> or {row['mean']:.2f} "
        f"[{row['low']:.2f}, {row['high']:.2f}]<!-- figure: {PLACE} -->.\n"
    )


def test_a_true_figure_passes_and_a_changed_one_fails() -> None:
    text = page()
    assert figures.check(text) == (2, (), ())
    mean = f"{stated()['mean']:.3f}"
    wrong = text.replace(mean, "0.999", 1)
    (drift,) = figures.check(wrong).drifts
    assert (drift.line, drift.stated, drift.place) == (1, "0.999**", PLACE)
    assert figures.rewritten(wrong) == text
    high = f"{stated()['high']:.2f}]"
    assert figures.check(text.replace(high, "0.98]")).drifts, "intervals count, too"


def test_a_table_is_compared_line_by_line() -> None:
    path = catalog("agents") / "reader" / "README.md"
    text = path.read_text(encoding="utf-8")
    found = figures.check(text)
    assert found.figures > 50
    assert not found.drifts
    row = next(x for x in text.splitlines() if x.startswith("| hotpotqa | "))
    wrong = text.replace(row, row.replace("0.0", "0.1", 1))
    (drift,) = figures.check(wrong).drifts
    assert (drift.stated, drift.stored) == (row.replace("0.0", "0.1", 1), row)
    assert figures.rewritten(wrong) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("F1<!-- figure: a | b | c | d | f1 -->", "1 marks"),
        (f"0.1<!-- figure: {CANDIDATE} | ladder -->", "expected 5 parts"),
        (
            f"0.1<!-- figure: {CANDIDATE} | lader | hotpotqa | candidate | f1 -->",
            "'ladder'",
        ),
        (
            f"0.1<!-- figure: {CANDIDATE} | ladder | hotpotqa | candidat | f1 -->",
            "'candidate'",
        ),
        ("0.1<!-- figure: agents/nobody | ladder | hotpotqa | x | f1 -->", "does not exist"),
    ],
)
def test_a_mark_that_leads_nowhere_is_an_error(text: str, said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        figures.check(text)


def test_unmarked_figures_are_counted() -> None:
    assert figures.check("F1 0.5 [0.4, 0.6] here").unmarked == ("0.5 [0.4, 0.6]",)


def test_every_page_states_what_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.verify()
    assert "agree with the stored results" in capsys.readouterr().out


def test_a_stored_mean_that_its_seeds_contradict_is_found(tmp_path: Path) -> None:
    for path in expected_files():
        assert figures.contradictions(path) == []
    path = ROOT / CANDIDATE / "expected.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["runs"]["ladder"]["table"][0]["mean"] += 0.2
    copy = tmp_path / "expected.json"
    copy.write_text(json.dumps(data), encoding="utf-8")
    assert any("that of its seeds" in line for line in figures.contradictions(copy))


def test_the_markdown_holds_every_row_and_command() -> None:
    rows = entries()
    text = markdown(rows)
    sets = {row.set for row in rows}  # each has a head, and a line of the first table
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == len(rows) + 2 * len(sets) + 1
    real = [line for line in lines[1 : len(sets) + 1] if line.split()[1] in REAL_SETS]
    assert lines[1 : len(real) + 1] == real, "real sets stand first"
    assert all(row.command in text for row in rows)


def test_names_in_the_markdown_are_no_markup() -> None:
    hostile = "a | b\n\n<script>alert(1)</script>\x1b[31m [x](http://evil) `c`"
    lines = [
        x for x in markdown([entries()[0]._replace(method=hostile)]).splitlines() if "alert" in x
    ]
    assert len(lines) == 2, "in the summary and in the set's own table"
    for line in lines:
        assert "a \\| b" in line
        assert "&lt;script&gt;" in line
        assert "\\[x\\](http" in line
