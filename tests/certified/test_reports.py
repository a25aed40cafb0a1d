"""The stored reports cover the catalogue and hold no finding; ``make certify`` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import searchgym
from searchgym.cards import cards
from searchgym.envs import ids_of

HERE = Path(__file__).parent
REPORTS: dict[str, Any] = json.loads((HERE / "reports.json").read_text(encoding="utf-8"))


def test_the_reports_are_of_the_programs_pinned_and_of_this_version() -> None:
    lines = (HERE / "programs.txt").read_text(encoding="utf-8").split()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    assert REPORTS["programs"] == pinned
    assert REPORTS["searchgym"] == searchgym.__version__


def answered(env_id: str) -> bool:
    """Tell whether answers are paid; where a query is, there is none to forge."""
    return not gym.spec(env_id).kwargs.get("one_search")


SHARES = {"searchgym/TravelQA-v0", "searchgym/ReportQA-v0"}
"""Pay a share of what is right, as their pages say: one wrong detail costs little."""
IDS = [env_id for item in cards("envs").values() for env_id in ids_of(item)]
"""Versions share their card's rules and rewards, which is what is forged here."""


@pytest.mark.contract
def test_every_environment_was_checked() -> None:
    lacking = [env_id for env_id in filter(answered, IDS) if env_id not in REPORTS["environments"]]
    assert not lacking, f"make certify ARGS='{' '.join(lacking)}'"


@pytest.mark.parametrize("env_id", [i for i in IDS if i in REPORTS["environments"] and answered(i)])
def test_an_environment_was_checked_and_nothing_was_found(env_id: str) -> None:
    said = REPORTS["environments"][env_id]
    assert set(said) == set(REPORTS["programs"])
    for program in said.values():
        shares = [f for f in program["findings"] if "grader_accepts_wrong" in f]
        assert not shares or env_id in SHARES
        assert len(program["findings"]) == len(shares)
    assert said["nenyax"]["tier"] == "audited"
    for way in ("as a turn", "as an answer"):
        assert said["rl-envdoctor"][way]["trials"] > 500
        # SSRL pays a tenth for the form of the whole text, which a bare answer has not
        whole = 0.9 if env_id.endswith("SelfSearchQA-v0") else 1.0
        assert whole <= said["rl-envdoctor"][way]["right"] <= 1.0
    assert "fooled" not in said["gradecheck"]["verdicts"].values()
