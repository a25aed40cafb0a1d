"""The learning bench runs from warm-up to table; what it finds is measured by ``searchgym lab
--learn`` (minutes a method), not here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from searchgym.core import run_episodes
from searchgym.rl import shipped
from searchgym_agents.lab.learning_bench import Asker, Course, setting, train
from searchgym_agents.lab.learning_results import lines
from searchgym_agents.lab.methods import learners, methods
from searchgym_agents.lab.results import load, stored

pytestmark = pytest.mark.contract

TINY = Course(things=8, questions=8, warm_steps=2, warm_tasks=4, tasks=2, size=2, episodes=8)


def test_who_is_imitated_is_seldom_right():
    _, env = setting(Course())
    episodes = [
        env.start(i, task=env.tasks[i % len(env.tasks)], episode_id=str(i)) for i in range(400)
    ]
    run_episodes(episodes, Asker(env), env.toolbox)
    em = sum(e.parts["em"] for e in episodes) / len(episodes)
    assert 0.1 < em < 0.3
    assert not any("invalid" in t.reward_parts for e in episodes for t in e.turns)


def test_a_training_repeats_and_ends_when_its_episodes_are_played():
    runs = [train("grpo", 1, TINY), train("broken", 1, TINY)]
    again = train("grpo", 1, TINY)
    assert again["curve"] == runs[0]["curve"]
    assert [point[0] for point in again["curve"]] == [4.0, 8.0]
    result = {"methods": {"grpo": {"runs": [runs[0]] * 3}, "broken": {"runs": [runs[1]] * 3}}}
    assert {line["method"] for line in lines(result)} == {"grpo", "broken"}


@pytest.mark.parametrize("name", ["kepo", "ai_searchplanner", "noisy_grpo", "propa"])
def test_a_method_is_given_what_it_asks_for(name: str):
    """A teacher, a frozen role, an engine with noise, an expert around another rollout."""
    course = replace(TINY, tasks=1, size=4, episodes=4)
    run = train(name, 0, course)
    assert run["curve"][-1][0] >= 4
    assert all(0 <= em <= 1 and 0 <= searches <= 4 for _, em, searches in run["curve"])


def test_every_recipe_has_a_row_of_the_laboratory():
    """Of the table of gradients, or, where no trajectory of it is the recipe's, of the bench."""
    assert set(shipped()) <= set(learners())
    measured = load(stored("gradients"))["methods"]
    learnt = load(stored("learning"))["methods"]
    for name in shipped():
        assert name in (measured if name in methods() else learnt), name
