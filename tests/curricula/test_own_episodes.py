"""A curriculum learns from the episodes that it chose, whoever plays them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from searchgym import VectorCurriculumWrapper
from searchgym.curricula import CURRICULA, Curriculum, make_curriculum

ADAPTIVE: dict[str, dict[str, Any]] = {
    "after_success": {"params": {"cost": {"kind": "linear", "start": 0, "end": 0.5, "total": 9}},
                      "min_episodes": 1, "threshold": 0.1},
    "staged": {"max_hops": [1, 2], "min_episodes": 1, "threshold": 0.1},
    "masksearch": {"levels": [1, 2], "min_episodes": 1, "threshold": 0.1},
    "band": {"levels": [{"turns": 3}, {"turns": 6}], "episodes": 1},
    "bandit": {"arms": [{"turns": 3}, {"turns": 6}], "hold": 1},
    "self_paced": {}, "success_band": {}, "pool": {},
}  # fmt: skip
CLOCKS: dict[str, dict[str, Any]] = {
    "uniform": {}, "zerosearch": {"total": 9}, "scaling_inter": {}, "per_task": {"levels": {}},
    "scheduled": {"params": ADAPTIVE["after_success"]["params"]},
}  # fmt: skip
ELSEWHERE: dict[str, dict[str, Any]] = {
    "another split": {"split": "test"},
    "closed book": {"search_enabled": False},
    "another difficulty": {"difficulty": {"turns": 8}},
    "another parameter": {"params": {"own": 1.0}},
    "a task that somebody names": {"task_id": "encyclopedia-train-chain-2-2"},
}
SMALL = {"world": {"entities": 100}, "tasks": {"simple": 6, "chain-2": 6, "at_most": True}}


def single(curriculum: Curriculum, options: dict[str, Any]) -> None:
    env = gym.make("SearchQA-v0", curriculum=curriculum, **SMALL)
    env.reset(seed=1, options=options)
    over = False
    while not over:
        text = next(iter(env.unwrapped.oracle()), "<answer> none </answer>")
        _, _, terminated, truncated, _ = env.step(text)
        over = terminated or truncated


def vector(curriculum: Curriculum, options: dict[str, Any], mode: str | None = None) -> None:
    envs: Any = gym.make_vec("SearchQA-v0", 1, vectorization_mode=mode, **SMALL)
    envs = VectorCurriculumWrapper(envs, curriculum)
    envs.reset(seed=1, options=options)
    over = False
    while not over:
        (texts,) = envs.unwrapped.call("oracle") if mode else envs.unwrapped.oracle()
        _, _, terminated, truncated, _ = envs.step([next(iter(texts), "<answer> no </answer>")])
        over = bool(terminated[0] or truncated[0])


def sync(curriculum: Curriculum, options: dict[str, Any]) -> None:
    vector(curriculum, options, "sync")


@pytest.mark.parametrize("play", [single, vector, sync])
@pytest.mark.parametrize("name", ADAPTIVE)
def test_it_learns_from_its_own_episodes_alone(name: str, play: Any) -> None:
    def learnt(options: dict[str, Any]) -> dict[str, Any]:
        curriculum = make_curriculum({"use": name, **ADAPTIVE[name]})
        play(curriculum, options)
        return {k: v for k, v in curriculum.state_dict().items() if k != "drawn"}

    nothing = learnt(ELSEWHERE["another split"])
    assert nothing == {
        k: v for k, v in make_curriculum({"use": name, **ADAPTIVE[name]}).state_dict().items()
        if k != "drawn"
    }  # fmt: skip
    assert learnt({}) != nothing
    for what, options in ELSEWHERE.items():
        assert learnt(options) == nothing, what


def test_the_tables_above_name_every_curriculum() -> None:
    assert {*ADAPTIVE, *CLOCKS} == {*CURRICULA}
    for tables, adapts in ((ADAPTIVE, True), (CLOCKS, False)):
        for name, options in tables.items():
            assert make_curriculum({"use": name, **options}).adapts is adapts


def test_a_schedule_counts_every_episode_at_its_difficulty() -> None:
    def state(options: dict[str, Any]) -> dict[str, Any]:
        curriculum = make_curriculum({"use": "scheduled", **CLOCKS["scheduled"]})
        single(curriculum, options)
        return curriculum.state_dict()

    moved = state({})
    assert moved == state(ELSEWHERE["a task that somebody names"])
    assert moved != state({"split": "test"}) == state({"difficulty": {"cost": 0.3}})
