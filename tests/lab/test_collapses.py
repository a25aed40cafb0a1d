"""Collapses made on purpose: verdicts follow from the stored logs; one is made again end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docsite import collapse
from searchgym.reports import diagnosis
from searchgym.rl import Recipe
from searchgym_agents.lab.collapse_results import (
    FRESH,
    KIND,
    LEAD,
    UNLABELLED,
    figures,
    known,
    lines,
    unlabelled,
    verdict,
)
from searchgym_agents.lab.collapses import declared, reproduce
from searchgym_agents.lab.results import load, stored
from tests.cli.conftest import Cli, cli  # noqa: F401  (a fixture)


def test_verdicts_follow_from_the_stored_logs() -> None:
    found = load(stored(KIND), KIND)
    assert known().keys() - UNLABELLED <= found[KIND].keys() <= known().keys()
    for name, entry in found[KIND].items():
        assert entry.keys() == known()[name].keys()
        for part, trainings in known()[name].items():
            assert [run["seed"] for run in entry[part]] == [one["seed"] for one in trainings]
            for run in entry[part]:
                assert {key: run[key] for key in ("found", "halved", "start", "end")} == verdict(
                    run["log"]
                ), f"{name}, seed {run['seed']}"
    assert found["machine"]["cores"] >= 1


def test_the_bars_are_met() -> None:
    """Nine in ten collapses are named, and in time but for one of the fresh ones; few sound runs
    have a finding."""
    for fresh, timely in ((False, 0.9), (True, 0.89)):
        told = figures(load(stored(KIND), KIND), fresh=fresh)
        assert told["runs"] == 3 * len(declared())
        assert told["sound"] + told["unsound"] == 40
        assert told["named"] >= 0.9
        assert told["recall"] >= timely
        assert told["false_alarms"] <= 0.05


def test_a_verdict_says_when_the_exact_match_halves() -> None:
    em = [0.4] * 8 + [0.1] * 8
    log = {"reward": em, "em": em, "entropy": [0.8] * 6 + [0.01] * 10}
    made = verdict({name: list(values) for name, values in log.items()})
    assert made["halved"] == 11, "two of five at .4, three at .1: .22 is above a half, .16 below"
    assert made["start"] == 0.4
    assert made["end"] == 0.1
    assert "entropy_collapse" in made["found"]


def test_the_page_has_a_row_for_every_cause() -> None:
    told = collapse.page()
    assert {cause["name"] for cause in told["causes"]} >= set(declared())
    seen, fresh = told["result"]["lines"]
    assert {line["cause"] for line in seen} == set(declared())
    assert {line["cause"].removeprefix(FRESH) for line in fresh} == set(declared())
    assert len(lines(told["result"])) == len(seen + fresh)
    assert all("None" not in sign for cause in told["causes"] for sign in cause["signs"])


def test_the_command_prints_the_stored_table(cli: Cli) -> None:  # noqa: F811
    done = cli("lab", "--stored", "--collapse", "no_search", "kl_blow_up")
    assert done.code == 0
    assert "no_search" in done.out
    assert "kl_blow_up" in done.out
    assert "recall" in done.err
    wrong = cli("lab", "--collapse", "no_serch")
    assert wrong.code == 2
    assert "no_search" in wrong.err
    assert cli("lab", "--collapse", "--learn").code == 2
    assert "stored" in cli("lab", "--stored", "--collapse", "ttrl").err


def test_rewards_without_labels_rise_as_the_exact_match_falls() -> None:
    def runs(reward: float, em: float) -> list[dict[str, Any]]:
        log = {"reward": [0.5] * 6 + [reward] * 6, "em": [0.2] * 6 + [em] * 6}
        return [{"seed": seed, "log": log, **verdict(log)} for seed in (0, 1)]

    assert {Recipe.of(name).loss is not None for name in UNLABELLED} == {True}
    made = {KIND: {"ttrl": {"runs": runs(0.9, 0.0), "mended": runs(0.7, 0.7)}}}
    assert unlabelled(made) == [{
        "recipe": "ttrl", "its reward": "0.50 → 0.90", "exact match": "0.20 → 0.00",
        "with labels": "0.20 → 0.70",
    }]  # fmt: skip
    assert lines(made) == []


@pytest.mark.contract
def test_a_collapse_is_made_named_and_mended(tmp_path: Path) -> None:
    """Trained as ``searchgym lab --collapse noisy_reward`` does, and read by the doctor."""
    sick = diagnosis(reproduce("noisy_reward", tmp_path / "sick", seed=20))
    named = {finding["cause"]: finding["update"] for finding in sick["findings"]}
    assert named["noisy_reward"] <= 2 * LEAD
    well = diagnosis(reproduce("noisy_reward", tmp_path / "well", seed=20, mended=True))
    assert "noisy_reward" not in {finding["cause"] for finding in well["findings"]}
