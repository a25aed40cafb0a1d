"""The page of learning curves says what is stored."""

from __future__ import annotations

from docsite import learning_curves as learning
from searchgym_agents.macros.curves import curves


def test_every_environment_has_three_seeds_and_a_row() -> None:
    rows = learning.page()
    assert [row["env"] for row in rows] == [*curves()]
    for row in rows:
        assert len(row["ends"]) >= 3
        assert {len(seed["train"]) for seed in row["seeds"].values()} == {row["updates"]}
        assert all(low <= mean <= high for mean, low, high in row["ends"])
        assert row["scripts"]["oracle"] > row["scripts"]["rules"]


def test_the_title_counts_what_is_clearly_above() -> None:
    rows = learning.page()
    bars = [max(r["uniform"], r["scripts"]["rules"], r["scripts"]["random"]) for r in rows]
    above = sum(
        min(low for _, low, _ in r["ends"]) > bar for r, bar in zip(rows, bars, strict=True)
    )
    assert learning.title().startswith(f"In {above} of {len(rows)} environments")


def test_the_figure_has_every_seed_and_script() -> None:
    rows = learning.figure().rows
    for env, made in curves().items():
        own = [row for row in rows if row["measure"] == env]
        assert {row["seed"] for row in own if "seed" in row} == set(made["seeds"])
        assert {row["series"] for row in own} == {learning.LEARNER, *learning.SCRIPTS}
