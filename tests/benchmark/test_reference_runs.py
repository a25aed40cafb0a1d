"""The runs kept beside the candidate agent's card: repeated, a run lands in its own intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from searchgym import ConstantAgent
from searchgym.benchmark import Rung, transfer
from searchgym.benchmark.reference_runs import load, outside, record, save
from searchgym.cards import card
from searchgym.errors import EvaluationError
from tests.cli.conftest import Cli, cli  # noqa: F401
from tests.small import CORPUS, TASKS

KEPT = card("agents", "candidate").folder / "expected.json"


@pytest.mark.slow  # a whole ladder on real sets
def test_the_small_run_lands_inside_its_intervals(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    runs = load(KEPT)
    again = ("transfer", *runs["small"]["arguments"], "--out", tmp_path / "run", "--run", "small")
    done = cli(*again, "--against", KEPT)
    assert done.code == 0, done.err
    assert "was met" in done.err
    # the same comparison can fail: by a number that is no longer so, and by a missing agent
    row = next(
        r for r in runs["small"]["table"] if (r["agent"], r["metric"]) == ("candidate", "f1")
    )
    row.update(low=0.99, high=1.0)
    runs["small"]["table"].append({**row, "agent": "nobody"})
    other = save(tmp_path / "other.json", "small", runs["small"])
    done = cli(*again, "--against", other)
    assert done.code == 1
    assert f"{row['rung']}, candidate, f1" in done.err
    assert "nobody, f1: not measured" in done.err


def test_the_ladder_is_kept_whole() -> None:
    ladder = load(KEPT)["ladder"]
    assert {row["seeds"] for row in ladder["table"] if row["agent"] == "candidate"} == {3}
    steps = {rung["name"]: rung["kind"] for rung in ladder["rungs"]}
    assert {"held-out world", "held-out wording"} <= set(steps)
    assert "real" in steps.values()
    assert {row["agent"] for row in ladder["gains"]} == {"candidate"}
    assert "searchgym" in ladder["versions"]
    for row in ladder["table"]:
        assert row["low"] <= row["mean"] <= row["high"]


def test_records_are_read_back(tmp_path: Path) -> None:
    rung = Rung("held-out world", "generated", {"corpus": CORPUS, "tasks": TASKS})
    table = transfer({"one": ConstantAgent("Mira Venn"), "two": ConstantAgent()}, [rung])
    table.reference, table.baselines = "held-out world", {"one": "two"}
    path = save(tmp_path / "e.json", "a", record(table, ["one", "-n", "2"]))
    save(path, "b", record(table, []))
    runs: dict[str, Any] = load(path)
    assert (list(runs), runs["a"]["arguments"]) == (["a", "b"], ["one", "-n", "2"])
    assert outside(table, runs["a"]) == []
    row = next(r for r in runs["a"]["table"] if (r["agent"], r["metric"]) == ("one", "em"))
    row["high"] = 0.4
    (line,) = outside(table, runs["a"])
    assert line.startswith("held-out world, one, em: 0.5000 outside [")
    for text, why in (("{", "no JSON"), ('{"schema": 1}', "schema 2"), ("[]", "schema 2")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(EvaluationError, match=why):
            load(path)
    with pytest.raises(EvaluationError, match="--record"):
        load(tmp_path / "none.json")
    with pytest.raises(EvaluationError, match="'make it' writes it"):
        load(tmp_path / "none.json", "make it")
    assert json.loads(KEPT.read_text("utf-8"))["schema"] == 2
