"""The learning bench runs from warm-up to table; what it finds is measured by ``searchgym lab
--learn`` (minutes a method), not here."""

from __future__ import annotations

import pytest

from searchgym.core.rollout import run_episodes
from searchgym.lab.learn import Asker, Course, setting, train
from searchgym.lab.learning_results import lines

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
    with pytest.raises(Exception, match="teacher"):
        train("distillation", 0, TINY)
    result = {"methods": {"grpo": {"runs": [runs[0]] * 3}, "broken": {"runs": [runs[1]] * 3}}}
    assert {line["method"] for line in lines(result)} == {"grpo", "broken"}
