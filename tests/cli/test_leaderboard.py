"""The leaderboard, the check of submitted results, and the figures that pages state."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from searchgym.benchmark import figures
from searchgym.benchmark.leaderboard import (
    FEWEST,
    METRICS,
    SORTS,
    entries,
    expected_files,
    markdown,
    measured,
    ordered,
)
from searchgym.benchmark.submitted import check_result
from searchgym.cards import catalog
from searchgym.core.trajectory import Trajectory, read_jsonl, write_jsonl
from searchgym.errors import EvaluationError
from searchgym.evaluation.journal import trajectories_of
from searchgym.evaluation.metrics import row_of
from searchgym.evaluation.result import EvalResult
from searchgym.utils import trust
from tests.cli.conftest import SMALL, Cli

ROOT = catalog("envs").parent


def test_every_stored_run_has_rows() -> None:
    rows = entries(fewest=1)
    assert {row.run.partition("/")[0] for row in rows} == {p.parent.name for p in expected_files()}
    assert {"hotpotqa", "nq", "popqa"} <= {row.set for row in rows}
    assert all(row.command.startswith(("searchgym transfer ", "searchgym eval ")) for row in rows)
    assert all(row.scores["f1"].low <= row.scores["f1"].mean for row in rows)
    assert min(row.questions for row in entries()) >= FEWEST


@pytest.mark.parametrize("by", SORTS)
def test_rows_are_sorted(by: str) -> None:
    rows = ordered(entries(), by)
    if by in METRICS:
        values = [row.scores[by].mean for row in rows if by in row.scores]
        real = [v for v in values if v == v]
        assert real == sorted(real, reverse=by != "searches")
    else:
        keys = [getattr(row, by) for row in rows]
        assert keys == sorted(keys, reverse=by in ("questions", "date"))


def test_an_unknown_column_or_set_is_named() -> None:
    with pytest.raises(EvaluationError, match="Did you mean 'f1'"):
        ordered(entries(), "f11")
    with pytest.raises(EvaluationError, match="Did you mean 'hotpotqa'"):
        ordered(entries(), of="hotpotq")


def test_the_markdown_holds_every_row_and_command() -> None:
    rows = entries()
    text = markdown(rows)
    assert sum(line.startswith("| ") for line in text.splitlines()) == len(rows) + len(
        {row.set for row in rows}
    )
    assert all(row.command in text for row in rows)


# --- results of others ------------------------------------------------------------------------
@pytest.fixture
def submitted(cli: Cli, tmp_path: Path) -> Path:
    done = cli("eval", "SearchQA-v0", "-a", "rules", "-n", 8, "--out", tmp_path / "r", *SMALL)
    assert done.code == 0, done.err
    return tmp_path / "r" / "rules.json"


def test_an_honest_result_passes_and_joins_the_leaderboard(cli: Cli, submitted: Path) -> None:
    found = check_result(submitted)
    assert (found.wrong, found.untried, len(found.right)) == ((), (), 3)
    assert cli("verify", submitted).code == 0
    row = measured(submitted)
    assert (row.method, row.set, row.questions) == ("rules", "SearchQA-v0 (altered)", 8)
    assert row.date >= "2026"
    assert "world=" in row.command, "what is unlike the environment's own is in the command"
    shown = cli("leaderboard", submitted, "--all", "--set", row.set, "--json").json
    assert [r["method"] for r in shown] == ["rules"]


def test_a_result_with_a_reward_of_ones_own_is_checked_by_trust(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_brevity.py").write_text(
        "def brief(outcome):\n    return 1 / len(outcome.turns)\n"
    )
    monkeypatch.chdir(tmp_path)
    own = ("-s", 'reward={"em": 1, "own_brevity:brief": 0.5}')
    done = cli("eval", "SearchQA-v0", "-a", "rules", "-n", 4, "--out", "r", *SMALL, *own)
    assert done.code == 0, done.err
    trust._NAMED.clear()  # as in another process
    refused = cli("verify", "r/rules.json")
    assert refused.code == 2
    assert "--trust" in refused.err
    assert cli("verify", "r/rules.json", "--trust").code == 0


def edited(path: Path, change: Callable[[Any], object]) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


def raise_mean(data: Any) -> None:
    data["means"]["f1"]["mean"] += 0.01


def raise_row(data: Any) -> None:
    at = data["columns"].index("f1")
    worst = min(data["rows"], key=lambda row: row[at])
    worst[at] = 1.0


def drop_row(data: Any) -> None:
    del data["rows"][0]


def older_scoring(data: Any) -> None:
    data["settings"]["scoring"]["version"] = 1


def fewer_results(data: Any) -> None:
    data["settings"]["environment"]["k"] = 1


def other_corpus(data: Any) -> None:
    data["settings"]["corpus"]["digest"] = "0" * 16


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (raise_mean, "f1: mean"),
        (raise_row, "f1: mean"),
        (drop_row, "questions were to be asked"),
        (older_scoring, "version 1 of the scoring"),
        (fewer_results, "rules.k (3 and 1)"),
        (other_corpus, "differs: corpus.digest"),
    ],
)
def test_a_changed_result_fails(
    cli: Cli, submitted: Path, change: Callable[[Any], object], said: str
) -> None:
    edited(submitted, change)
    assert any(said in line for line in check_result(submitted).wrong)
    done = cli("verify", submitted)
    assert (done.code, "WRONG" in done.out) == (1, True)


def test_a_result_without_its_episodes_fails(submitted: Path) -> None:
    trajectories_of(submitted).unlink()
    assert any("is missing" in line for line in check_result(submitted).wrong)


def test_an_invented_page_is_found_by_playing_again(submitted: Path) -> None:
    """A forger puts a gold page among the results and lets row and means follow: file and episodes
    agree, but the engine did not find that page."""
    path = trajectories_of(submitted)
    result = EvalResult.load(submitted)
    played = list(read_jsonl(path))
    at = next(i for i, row in enumerate(result.rows) if row.evidence_recall < 1)
    snapshot = json.loads(json.dumps(played[at].snapshot))
    gold = snapshot["config"]["task"]["evidence"]
    missing = next(page for page in gold if page not in str(snapshot["events"]))
    (received, *_) = (event for event in snapshot["events"] if event[0] == "receive")
    received[1][0]["hits"][0][0] = missing
    forged = replace(played[at], snapshot=snapshot)
    episode = forged.replay()
    forged = Trajectory.of(episode, usage=played[at].usage)
    rows = list(result.rows)
    rows[at] = row_of(episode, forged.usage)
    assert rows[at].evidence_recall > result.rows[at].evidence_recall
    write_jsonl(path, [*played[:at], forged, *played[at + 1 :]])
    replace(result, rows=tuple(rows)).save(submitted)
    assert not check_result(submitted, rebuild=False).wrong
    (line,) = check_result(submitted).wrong
    assert "evidence_" in line
    assert "played again" in line


# --- figures of pages -------------------------------------------------------------------------
PLACE = "agents/candidate | ladder | hotpotqa | candidate | f1"


def stated() -> dict[str, Any]:
    runs = json.loads((ROOT / "agents/candidate/expected.json").read_text("utf-8"))["runs"]
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
    path = ROOT / "agents" / "reader" / "README.md"
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
        ("0.1<!-- figure: agents/candidate | ladder -->", "expected 5 parts"),
        ("0.1<!-- figure: agents/candidate | lader | hotpotqa | candidate | f1 -->", "'ladder'"),
        ("0.1<!-- figure: agents/candidate | ladder | hotpotqa | candidat | f1 -->", "'candidate'"),
        ("0.1<!-- figure: agents/nobody | ladder | hotpotqa | x | f1 -->", "does not exist"),
    ],
)
def test_a_mark_that_leads_nowhere_is_an_error(text: str, said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        figures.check(text)


def test_unmarked_figures_are_counted() -> None:
    assert figures.check("F1 0.5 [0.4, 0.6] here").unmarked == ("0.5 [0.4, 0.6]",)


def test_every_page_states_what_is_stored(cli: Cli) -> None:
    done = cli("verify")
    assert done.code == 0, done.out
    assert "agree with the stored results" in done.out


def test_a_stored_mean_that_its_seeds_contradict_is_found(tmp_path: Path) -> None:
    for path in expected_files():
        assert figures.contradictions(path) == []
    copy = tmp_path / "expected.json"
    shutil.copy(ROOT / "agents/candidate/expected.json", copy)

    def change(data: Any) -> None:
        row = data["runs"]["ladder"]["table"][0]
        row["mean"] = row["mean"] + 0.2

    edited(copy, change)
    assert any("that of its seeds" in line for line in figures.contradictions(copy))
