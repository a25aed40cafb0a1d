"""The table of published systems is what recipes, rewards, dialects and the like say."""

from __future__ import annotations

import pytest

from searchgym.cli.catalog import systems
from searchgym.cli.commands import COMMANDS
from searchgym.objects import load_known
from searchgym.rewards import REWARDS
from searchgym.rl import REGISTRIES, document, implemented, marks, shipped
from tests.cli.conftest import Cli


def test_every_recipe_and_published_reward_is_in_the_table() -> None:
    parts = {part for one in implemented().values() for part in one.here}
    for name in shipped():
        doc = document(name)
        assert doc is not None
        assert doc.systems, f"{name}: [doc] names no system; the method's own name is one"
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
    assert len(marked) == len(set(marked)), "marked once"
    assert set(marked) <= set(implemented()), "nothing that is not here"
    for name, one in implemented().items():
        assert (one.covers == "whole") == (not one.missing), name


def test_engines_tasks_and_tools_stand_in_the_table() -> None:
    for named in marks()["here"].values():
        for kind, name in (part.split(maxsplit=1) for part in named):
            assert name in {**REGISTRIES, "command": COMMANDS}[kind]
    for name, part in {
        "UR²": "curriculum per_task", "ACQO": "engine hybrid", "DeepTravel": "engine recorded",
        "MOSAIC": "engine degraded", "VerlTool": "engine remote", "InfoSeek": "task intersection",
        "BMGQ": "task intersection", "REDSearcher": "task intersection",
        "AgentGL": "tool graph_rank",
    }.items():  # fmt: skip
        assert part in implemented()[name].here
        assert implemented()[name].covers != "whole"


def test_no_name_stands_for_what_it_does_not_define() -> None:
    """Bi-level GAE is VAGEN's, StarPO-S is RAGEN's; RLSP has lost its name."""
    assert implemented()["VAGEN"].here == ("recipe ppo_bi_level",)
    assert implemented()["RAGEN"].here == ("recipe starpo_s",)
    assert "RLSP" not in implemented()
    named = [name for name, one in implemented().items() if one.covers == "name only"]
    assert named == ["ToolGen"]


def test_the_table_fits_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = cli("list", "systems")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert "whole" in done.out
