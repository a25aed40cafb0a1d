"""The table of published systems is what recipes, rewards, dialects and the like say."""

from __future__ import annotations

from searchgym.cli.listing import systems
from searchgym.objects import load_known
from searchgym.rewards import REWARDS
from searchgym.rl.recipe_files import document, shipped
from searchgym.rl.systems import implemented


def test_every_recipe_and_published_reward_is_in_the_table() -> None:
    parts = {part for by in implemented().values() for part in by}
    for name in shipped():
        doc = document(name)
        assert doc is not None
        assert doc.systems, f"{name}: [doc] names no system"
        assert f"recipe {name}" in parts
    for name, where in REWARDS.items():
        assert (f"reward {name}" in parts) == hasattr(load_known(where), "registered")
    assert implemented()["Search-R1"] == [
        "recipe search_r1_grpo", "recipe search_r1_ppo", "reward search_r1",
    ]  # fmt: skip
    assert implemented()["RAM"] == ["merge ram"]
    assert [row["id"] for row in systems()] == list(implemented())
