"""No policy that is blind to the task earns anything; ``tests/benchmarks`` plays a million."""

from __future__ import annotations

import shutil
from pathlib import Path

import gymnasium as gym
import pytest

import searchgym  # noqa: F401  (registers)
from searchgym.cards import cards
from searchgym.evaluation.constant import BEGIN, END, best_constant, sentence, write_page
from searchgym.types import Task

from .blind import BLIND, ENTITIES, earned, in_world
from .solving import world


def test_blind_policies_earn_no_more_than_a_constant_answer() -> None:
    env = world(30, max_turns=8)
    elsewhere = world(30, max_turns=8, split="dev").tasks
    rows = earned(env, {**BLIND, **in_world(env, elsewhere)})
    assert {row.family for row in rows} >= ENTITIES
    for row in rows:
        assert row.reward <= row.best_constant, row
        if row.family in ENTITIES:
            assert row.reward * row.episodes <= 1, row  # one of thirty may be hit by chance


def test_best_constant() -> None:
    tasks = [Task("a", "?", ("Two", "2")), Task("b", "?", ("2.",)), Task("c", "?", ("three",))]
    assert best_constant(tasks) == ("2", 2 / 3)
    assert best_constant(tasks[::2]) == ("three", 0.5), "a first answer before an alias"
    assert best_constant([]) == ("", 0.0)


ANSWERED = [c for c in cards("envs").values() if not c.body["kwargs"].get("one_search")]
"""Environments in which an answer is paid."""


@pytest.mark.parametrize("item", ANSWERED, ids=lambda card: card.id)
def test_every_page_states_the_best_constant_answer(item) -> None:
    text = (item.folder / "README.md").read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert "The best constant answer" in text.partition(BEGIN)[2].partition(END)[0]


@pytest.mark.parametrize("name", ["ComparisonQA-v0", "CountQA-v0", "SelfSearchQA-v0"])
def test_pages_state_what_is_so(name: str, tmp_path: Path) -> None:
    env = gym.make(f"searchgym/{name}")
    page = cards("envs")[name].folder / "README.md"
    assert sentence(env) in page.read_text(encoding="utf-8")
    copy = tmp_path / "README.md"
    shutil.copyfile(page, copy)
    write_page(copy, env)
    assert copy.read_bytes() == page.read_bytes()
