"""The table of published systems is what recipes, rewards, dialects and the like say."""

from __future__ import annotations

import pytest

from searchgym.cli.catalog import systems
from searchgym.objects import load_known
from searchgym.rewards import REWARDS
from searchgym.rl import REGISTRIES, document, implemented, marks, shipped
from tests.cli.conftest import Cli


def test_every_recipe_and_published_reward_is_in_the_table() -> None:
    parts = {part for one in implemented().values() for part in one.here}
    for name in shipped():
        doc = document(name)
        assert doc is not None
        assert doc.systems, f"{name}: [doc] names no system"
        assert f"recipe {name}" in parts
    for name, where in REWARDS.items():
        assert (f"reward {name}" in parts) == bool(getattr(load_known(where), "systems", ()))
    assert implemented()["Search-R1"].here == (
        "recipe search_r1_grpo", "recipe search_r1_ppo", "reward search_r1",
    )  # fmt: skip
    assert [row["id"] for row in systems()] == list(implemented())


def test_every_system_has_one_mark_and_says_what_is_missing() -> None:
    known = marks()
    marked = [*known["whole"], *known["part"], *known["name"]]
    assert sorted(marked) == sorted(implemented()), "marked once, and nothing that is not here"
    for name, one in implemented().items():
        assert (one.covers == "whole") == (not one.missing), name


def test_engines_tasks_and_tools_stand_in_the_table() -> None:
    for named in marks()["here"].values():
        for kind, name in (part.split() for part in named):
            assert name in REGISTRIES[kind]
    for name, part in {
        "UR²": "curriculum per_task", "ACQO": "engine hybrid", "DeepTravel": "engine recorded",
        "MOSAIC": "engine degraded", "VerlTool": "engine remote", "InfoSeek": "task intersection",
        "BMGQ": "task intersection", "REDSearcher": "task intersection",
        "AgentGL": "tool graph_rank",
    }.items():  # fmt: skip
        assert part in implemented()[name].here
        assert implemented()[name].covers != "whole"


def test_names_that_were_not_deserved() -> None:
    """Bi-level GAE is VAGEN's; of RAGEN's own parts none is here."""
    assert implemented()["VAGEN"].here == ("recipe ppo_bi_level",)
    assert "RAGEN" not in implemented()
    for name in ("AdaSearch", "AstraFlow", "MaxCode", "RLSP",
                 "ROLL", "SearchLLM", "ToolGen", "DeepResearcher"):  # fmt: skip
        assert implemented()[name].covers == "name only"


def test_the_table_fits_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = cli("list", "systems")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert "name only" in done.out
