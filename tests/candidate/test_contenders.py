"""What candidate agents are trained against on the ladder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from searchgym.cards import card
from searchgym.errors import CardError
from searchgym_agents.candidate.contenders import source_options, trained
from searchgym_agents.candidate.training import CandidateRecipe


def test_sources() -> None:
    assert source_options("graph") == {"engine": "graph"}
    assert source_options("research") == {"corpus": "research"}
    assert source_options('{"k": 5}') == {"k": 5}
    for wrong, why in (
        ("grap", "unknown source.*graph"),
        ("self", "by its folder"),
        ("{k", "no JSON"),
    ):
        with pytest.raises(CardError, match=why):
            source_options(wrong)


def test_an_engine_whose_answers_vary_is_no_source(tmp_path: Path) -> None:
    small = replace(
        CandidateRecipe.of_card(), encoder={"none": True}, dev={"tasks": {"simple": 4}},
        env={"corpus": "encyclopedia", "world": {"entities": 60}, "tasks": {"simple": 4}},
    )  # fmt: skip
    with pytest.raises(CardError, match="depend on the query"):
        trained(
            card("agents", "candidate"), tmp_path, recipe=small, seeds=[0],
            sources=["simulated_rules"],
        )  # fmt: skip
