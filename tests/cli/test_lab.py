"""``lab --orderings``: the shipped table, a file that is resumed, options that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from searchgym_agents.lab.orderings import results
from searchgym_agents.lab.orderings.verdicts import ORDERINGS
from tests.cli.conftest import Cli


def test_the_stored_table_fits_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = cli("lab", "--stored", "--orderings")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert all(name in done.out for name in ORDERINGS)
    only = cli("lab", "--stored", "--orderings", "slate-variance")
    assert "disagree" in only.out
    assert "arpo" not in only.out
    assert cli("lab", "--stored", "--orderings", "--json").json["pieces"]


def test_pieces_are_kept(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"siblings": 0.1, "chains": 1.0}
    monkeypatch.setattr(results, "measure_arm", lambda arm, seed: figures)
    out = tmp_path / "orderings.json"
    asked = ("lab", "--orderings", "slate-variance", "--out", out)
    assert "not measured" in cli(*asked, "--minutes", 0).out
    assert not out.exists()
    assert "disagree" in cli(*asked).out
    monkeypatch.setattr(results, "measure_arm", None)  # what is there is not measured again
    assert "agree" in cli(*asked).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--orderings", "slate"), "slate-variance"),
        (("--orderings", "--learn"), "--orderings goes with"),
        (("--minutes", 3), "--minutes goes with --orderings"),
        (("grppo", "--stored"), "Did you mean 'grpo'"),
        (("--learn", "--stored", "--seeds", 2), "--stored measures nothing"),
        (("--learn", "--stored", "--size", 4), "not with --learn"),
        (("--seeds", 2), "--seeds goes with --learn"),
        (("--stored", "--size", 7), "sizes are 4, 8, 16"),
    ],
)
def test_what_does_not_go_together(cli: Cli, arguments: tuple[object, ...], said: str) -> None:
    done = cli("lab", *arguments)
    assert done.code == 2
    assert said in done.err


def test_the_stored_rows_asked_for(cli: Cli) -> None:
    done = cli("lab", "grpo", "dr_grpo", "--stored", "--json")
    assert done.code == 0, done.err
    assert {"grpo", "dr_grpo"} <= set(done.json["methods"])
    assert len(done.json["methods"]) <= 4
