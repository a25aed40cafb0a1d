"""Failed tasks are replayed, first in first out, until they are solved."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from searchgym import Task
from searchgym.curricula import make_curriculum
from searchgym.errors import CardError
from searchgym.rl import implemented
from searchgym_agents.methods.failure_replay import FailureReplay

TASKS = [Task(f"t{i}", "?", ("a",)) for i in range(1000)]


def test_a_fifth_of_the_tasks_is_drawn_from_the_failed() -> None:
    curriculum = FailureReplay()
    assert (curriculum.size, curriculum.share, curriculum.adapts) == (512, 0.2, True)
    plain = [curriculum.choose(TASKS, key) for key in range(500)]
    for number in (3, 4):
        curriculum.observe(f"t{number}", 0.0)
    drawn = [curriculum.choose(TASKS, key) for key in range(5000)]
    replayed = [task for task in drawn if task in (3, 4)]
    assert 900 < len(replayed) < 1120
    assert 380 < replayed.count(3) < 660
    others = [(a, b) for a, b in zip(plain, drawn, strict=False) if b not in (3, 4)]
    assert all(a == b for a, b in others), "the rest is what would have been chosen"
    elsewhere = [curriculum.choose(TASKS[10:], key) for key in range(500)]
    assert elsewhere == [FailureReplay().choose(TASKS[10:], key) for key in range(500)]


def test_the_oldest_leaves_a_full_queue_and_a_solved_task_leaves_it() -> None:
    curriculum = FailureReplay(2)
    for name in "abc":
        curriculum.observe(name, 0.49)
    assert list(curriculum.failed) == ["b", "c"]
    curriculum.observe("d", 0.5)
    assert list(curriculum.failed) == ["b", "c"]
    for reward, left in ((0.0, True), (0.0, True), (1.0, True), (1.0, False)):  # 2 of 4
        curriculum.observe("b", reward)
        assert ("b" in curriculum.failed) == left
    assert curriculum.metrics() == {"failed": 1.0}


def test_its_memory_survives_and_its_options_are_checked() -> None:
    curriculum = make_curriculum({"use": "failure_replay", "tasks": "self_paced"})
    for number in range(40):
        curriculum.observe(f"t{number}", number % 3)
    twin = make_curriculum({"use": "failure_replay", "tasks": "self_paced"})
    twin.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    for key in range(300):
        assert twin.choose(TASKS, key) == curriculum.choose(TASKS, key)
    for wrong in ({"size": 0}, {"share": 2}, {"solved": 0}):
        with pytest.raises(CardError, match="at least 1 task"):
            make_curriculum({"use": "failure_replay", **wrong})


def test_an_environment_replays_what_was_failed() -> None:
    env = gym.make("searchgym/SqlQA-v0", world={"entities": 600}, tasks={"sql": 18},
                   curriculum={"use": "failure_replay", "share": 1.0})  # fmt: skip
    _, info = env.reset(seed=0)
    first = info["task_id"]
    query, answer = env.unwrapped.oracle()  # type: ignore[attr-defined]
    while True:
        _, _, terminated, truncated, info = env.step("nothing")
        if terminated or truncated:
            break
    for _ in range(2):
        assert env.reset()[1]["task_id"] == first
    env.step(query)
    env.step(answer)
    assert {env.reset()[1]["task_id"] for _ in range(12)} != {first}
    assert "curriculum failure_replay" in implemented()["DeepTravel"].here
