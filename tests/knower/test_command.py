"""``searchgym knower``: made, measured, resumed and played with by the command line alone."""

# ruff: noqa: F811  (a fixture that another file defines)

from __future__ import annotations

from pathlib import Path

import pytest

from searchgym_agents.knower.knowledge import Knowledge
from tests.cli.conftest import Cli, cli  # noqa: F401

pytestmark = [pytest.mark.contract, pytest.mark.timeout(120)]


def small(out: Path) -> list[object]:
    return ["knower", "--out", out, "--entities", 24, "--seed", 2, "--width", 16, "--steps", 12,
            "--max-tokens", 60]  # fmt: skip


def test_a_knower_is_made_measured_and_found_finished(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "knower"
    done = cli(*small(out), "--questions", 2, "--json")
    assert done.code == 0, done.err
    facts = done.json
    knowledge = Knowledge.load(out)
    assert facts["facts taught"] == len(knowledge.taught)
    assert facts["facts"] == len((out / "taught.jsonl").read_text().splitlines())
    assert {g["hops"] for g in facts["closed_book_em"]} <= {1, 2, 3}
    asked = sum(g["n"] for g in facts["closed_book_em"])
    assert 2 <= asked <= 6
    for measure in ("closed_book_em", "self_search_em", "right_object_stated"):
        assert {g["knowledge"] for g in facts[measure]} <= {
            "taught", "untaught", "untaught, shown",
        }  # fmt: skip
        assert all(0 <= g["low"] <= g["mean"] <= g["high"] <= 1 for g in facts[measure])
    counts = {k: v for k, v in facts["boundary"]["all"].items() if k != "f1"}
    assert sum(counts.values()) == asked
    assert "searchgym eval SearchQA-v0 -a knower" not in done.out
    again = cli(*small(out), "--questions", 1)
    assert again.code == 0, again.err
    assert "to its last step already" in again.err
    for shown in ("closed book", "self-search", "Not searching", "facts taught"):
        assert shown in again.out
    assert f"-a knower -s agent.folder={out}" in again.err
    other = cli(*small(out), "--taught", ".4")
    assert other.code == 2, "another recipe"
    assert "use another folder" in other.err
    played = cli(
        "eval", "SearchQA-v0", "-a", "knower", "-s", f"agent.folder={out}", "-s",
        "world.entities=24", "-s", "world.seed=2", "-s", 'tasks={"simple": 1}', "-s", "max_turns=1",
        "--json",
        "-s", "agent.max_tokens=16", "--closed-book", "none",
    )  # fmt: skip
    assert played.code == 0, played.err


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--taught", "1.5"], "taught is a share from 0 to 1"),
        (["--unknown", "serch"], "Did you mean 'search'"),
        (["--corpus", "hotpotqa"], "no generated world"),
        (["--taught", "0", "--unknown", "nothing"], "nothing to learn"),
        (["--steps", "3"], "--steps"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    cli: Cli, tmp_path: Path, options: list[str], what: str
) -> None:
    done = cli(*small(tmp_path / "x"), *options)
    assert done.code == 2
    assert what in done.err
    assert not (tmp_path / "x").exists()


def test_help_shows_examples(cli: Cli) -> None:
    done = cli("knower", "--help")
    assert "searchgym knower --taught .3 --unknown abstain" in done.out


def test_its_card_trains_it_as_the_command_does(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "knower"
    assert cli(*small(out), "--questions", 0).code == 0
    options = ["entities=24", "width=16", "steps=12", "max_tokens=60", "questions=0"]
    asked = ["train", "knower", "--out", out, *(f"-s{option}" for option in options)]
    done = cli(*asked, "--seed", 2)
    assert done.code == 0, done.err
    assert "was trained to its last step already" in done.err
    wrong = cli(*asked, "-sstepz=3")
    assert wrong.code == 2
    assert "unknown option of the table [train] of 'knower' 'stepz'" in wrong.err
