"""No policy that is blind to the task earns anything; ``tests/benchmarks`` plays a million."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import gymnasium as gym
import pytest

import searchgym  # noqa: F401  (registers)
from docsite.constant import BEGIN, CONSTANTS, END, TRICKS, best_constant, sentence, write_page
from searchgym.cards import cards
from searchgym.scoring import score_answer
from searchgym.types import Task

from .blind import BLIND, ENTITIES, earned, in_world
from .constants import TABLE, best, by_family, families
from .solving import world

pytestmark = pytest.mark.contract


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


@pytest.mark.parametrize("item", cards("envs").values(), ids=lambda card: card.id)
def test_every_page_states_the_best_constant(item) -> None:
    text = (item.folder / "README.md").read_text(encoding="utf-8")
    writes = f"PYTHONPATH=.site python -m docsite.scores {item.folder.name}"
    assert text.count(BEGIN) == text.count(END) == 1, f"{writes} writes it"
    stated = text.partition(BEGIN)[2].partition(END)[0]
    if item.body["kwargs"].get("one_search"):
        assert "constant queries the best" in stated
        assert "which a regular expression finds" in stated
    else:
        assert "The best constant answer" in stated
        assert f"Of {len(CONSTANTS) + len(TRICKS)} constants and tricks, the best under" in stated


def test_no_text_without_knowledge_earns_more_than_is_stored() -> None:
    """The stored winners, played again by family and reward; ``tests/benchmarks`` tries all."""
    assert len(CONSTANTS) >= 500
    stored = json.loads(TABLE.read_text(encoding="utf-8"))
    env = families()
    groups = by_family(env)
    assert stored.keys() == groups.keys()
    for family, tasks in groups.items():
        winners = {name for name, _ in stored[family].values()} | {"and", "yes no"}
        found = best(env, tasks, winners)
        assert found.keys() == stored[family].keys(), (
            "a new reward: PYTHONPATH=.site python -m tests.constants"
        )
        for reward, (name, mean) in found.items():
            assert mean == pytest.approx(stored[family][reward][1]), (family, reward, name)


def test_connectives_and_hedges_earn_nothing() -> None:
    env = world(30)
    for task in env.tasks:
        if task.items:
            for text in ("and", "a and b", ";", "and, and; and", ", " * 50):
                assert not any(score_answer(task, text).values()), (text, task)
        if task.answers[0] in ("yes", "no"):
            assert score_answer(task, "yes no")["f1"] == 0
            assert score_answer(task, f"{task.question} yes no")["f1"] == 0


@pytest.mark.parametrize("mode", ["vector_entry_point", "sync", "async"])
def test_every_kind_of_environment_scores_alike(mode: str) -> None:
    keywords = {"world": {"entities": 400}, "tasks": {"parallel": 4, "set": 4, "comparison": 4},
                "reward": {"em": 1, "f1": 1, "set_f1": 1}}  # fmt: skip
    tasks = gym.make("SearchQA-v0", **keywords).unwrapped.tasks
    envs = gym.make_vec("SearchQA-v0", num_envs=2, vectorization_mode=mode, **keywords)
    try:
        for task in tasks[::2]:
            right, swapped = task.answers[0], " and ".join(of[0] for of in task.items[::-1])
            for texts in ((right, swapped or "yes no"), ("I don’t know", "a, b; c")):
                envs.reset(seed=[1, 1], options={"task_id": task.id})
                _, rewards, *_ = envs.step([f"<answer> {text} </answer>" for text in texts])
                for text, reward in zip(texts, rewards, strict=True):
                    scores = score_answer(task, text)
                    set_f1 = scores.get("set_f1", scores["em"])
                    assert reward == pytest.approx(scores["em"] + scores["f1"] + set_f1)
    finally:
        envs.close()


@pytest.mark.parametrize("name", ["ComparisonQA-v0", "CountQA-v0", "SelfSearchQA-v0"])
def test_pages_state_what_is_so(name: str, tmp_path: Path) -> None:
    env = gym.make(f"searchgym/{name}")
    page = cards("envs")[name].folder / "README.md"
    assert sentence(env) in page.read_text(encoding="utf-8")
    copy = tmp_path / "README.md"
    shutil.copyfile(page, copy)
    write_page(copy, env)
    assert copy.read_bytes() == page.read_bytes()
