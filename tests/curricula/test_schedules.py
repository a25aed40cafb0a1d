"""Schedules, and of which episodes a curriculum is told."""

from __future__ import annotations

import itertools
import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import searchgym  # noqa: F401 (registers the environments)
from searchgym import VectorCurriculumWrapper
from searchgym.curricula import (
    CURRICULA,
    Curriculum,
    Scheduled,
    Staged,
    ZeroSearchNoise,
    make_curriculum,
)
from searchgym.curricula.schedules import Exponential, Linear, Steps, make_schedule
from searchgym.errors import CardError
from tests.small import CORPUS, TASKS

NOISY = {"name": "degraded"}
TABLE = {0: 0.0, 50: 0.06904, 100: 0.16667, 150: 0.30474, 200: 0.5, 999: 0.5}
"""ZeroSearch's p(i) for p_s = 0, p_e = 0.5, m = 200, b = 4."""


def test_zerosearch_noise_is_the_papers_table() -> None:
    curriculum = ZeroSearchNoise(0.0, 0.5, 200, 4.0)
    assert isinstance(curriculum, Curriculum)
    for step, wanted in TABLE.items():
        curriculum.set_step(step)
        assert curriculum.params()["noise"] == pytest.approx(wanted, abs=5e-6)
    curve = [Exponential(0, 0.5, 200, 4)(i) for i in range(250)]
    assert curve == sorted(curve)
    assert all(a < b for a, b in itertools.pairwise(curve[:201]))


def test_base_one_is_the_limit_and_a_straight_line() -> None:
    line = Exponential(0.1, 0.5, 200, 1.0)
    assert [line(i) for i in (0, 50, 100, 200, 300)] == pytest.approx([0.1, 0.2, 0.3, 0.5, 0.5])
    for base in (1 - 1e-9, 1 + 1e-9):
        near = Exponential(0.1, 0.5, 200, base)
        assert [near(i) for i in range(210)] == pytest.approx([line(i) for i in range(210)])
    assert Exponential(0, 1, 100, 0.25)(50) > 0.5 > Exponential(0, 1, 100, 4)(50)


def test_other_shapes() -> None:
    assert [Linear(1, 0, 10)(i) for i in (-1, 0, 5, 10, 99)] == [1, 1, 0.5, 0, 0]
    steps = Steps((0.0, 0.2, 0.4), (10, 20))
    assert [steps(i) for i in (0, 9, 10, 19, 20)] == [
        0,
        0,
        0.2,
        0.2,
        0.4,
    ]
    assert make_schedule(0.25)(7) == 0.25
    assert make_schedule({"kind": "linear", "start": 0, "end": 1, "total": 4})(1) == 0.25
    assert make_schedule({"end": 0.5, "total": 200})(100) == pytest.approx(1 / 6)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "exponentail"}, "unknown schedule 'exponentail'. Did you mean 'exponential'"),
        ({"kind": "linear", "begin": 0}, "schedule 'linear': .*begin"),
        ({"kind": "exponential", "total": 0}, "total > 0"),
        ({"kind": "steps", "values": (1, 2), "at": ()}, "one more value than switches"),
        ("fast", "a number, a mapping"),
    ],
)
def test_wrong_schedules_are_one_clear_error(spec: object, message: str) -> None:
    with pytest.raises(CardError, match=message):
        make_schedule(spec)  # type: ignore[arg-type]


def test_noise_beyond_one_is_refused() -> None:
    with pytest.raises(CardError, match=r"noise rates lie in \[0, 1\]"):
        ZeroSearchNoise(0, 1.5)


def test_a_step_is_so_many_episodes_and_state_survives() -> None:
    curriculum = ZeroSearchNoise(total=200, episodes_per_step=4)
    for i in range(100 * 4 + 3):
        curriculum.observe(f"t{i}", 1.0)
    assert curriculum.step == 100
    assert curriculum.params()["noise"] == pytest.approx(1 / 6)
    copy = ZeroSearchNoise(total=200, episodes_per_step=4)
    copy.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    curriculum.observe("t", 0.0)
    copy.observe("t", 0.0)
    assert copy.params() == curriculum.params()
    assert copy.step == 101


def test_schedules_beside_stages_and_each_axis_alone() -> None:
    """Noise follows its schedule, hops the stages; neither changes which task a key means."""
    stages = {"use": "searchgym.curricula:Staged", "max_hops": (1, 2), "min_episodes": 3}
    both = Scheduled({"noise": 0.3, "dead": {"end": 1.0, "total": 10}}, tasks=stages)
    assert isinstance(both.tasks, Staged)
    plain = Staged((1, 2), min_episodes=3)
    for key in range(50):
        assert both.choose(TASKS, key) == plain.choose(TASKS, key)
        both.observe("t", 1.0)
        plain.observe("t", 1.0)
    assert both.tasks.stage == 1
    assert both.params() == {"noise": 0.3, "dead": 1.0}


def test_a_table_without_a_class_says_what_is_missing() -> None:
    with pytest.raises(CardError, match=r"names its object.*'max_hops'"):
        Scheduled({}, tasks={"max_hops": (1, 2)})


def test_environments_log_the_noise_that_their_episodes_have() -> None:
    curriculum = {"use": "searchgym.curricula:ZeroSearchNoise", "total": 4}
    env = gym.make(
        "SearchQA-v0", corpus=CORPUS, tasks=list(TASKS), engine=NOISY, curriculum=curriculum
    )
    seen = []
    for seed in range(6):
        _, info = env.reset(seed=seed)
        seen.append(info["params"]["noise"])
        env.step("<answer>x</answer>")
    assert seen == pytest.approx([Exponential(0, 0.5, 4, 4)(i) for i in range(6)])
    plain = gym.make("SearchQA-v0", corpus=CORPUS, tasks=list(TASKS))
    for seed in range(6):
        assert env.reset(seed=seed)[1]["task_id"] == plain.reset(seed=seed)[1]["task_id"]


def test_vector_environments_take_the_noise_at_each_slots_reset() -> None:
    curriculum = {"use": "searchgym.curricula:ZeroSearchNoise", "total": 4, "episodes_per_step": 2}
    envs = gym.make_vec(
        "SearchQA-v0", 2, corpus=CORPUS, tasks=list(TASKS), engine=NOISY, curriculum=curriculum,
        autoreset_mode="NEXT_STEP",
    )  # fmt: skip
    _, info = envs.reset(seed=0)
    seen = [info["params"]["noise"].tolist()]
    for _ in range(3):
        envs.step(["<answer>x</answer>"] * 2)
        info = envs.step([""] * 2)[-1]
        seen.append(info["params"]["noise"].tolist())
    wanted = [Exponential(0, 0.5, 4, 4)(i) for i in range(4)]
    assert np.allclose(seen, [[w, w] for w in wanted])


@pytest.mark.parametrize(
    "spec",
    [
        float("nan"),
        {"kind": "linear", "start": "a", "end": 1, "total": 3},
        {"kind": "linear", "start": 0, "end": float("nan"), "total": 2},
        {"kind": "exponential", "end": float("inf")},
        {"kind": "steps", "values": ["a"], "at": []},
        {"kind": "steps", "values": [0, 1], "at": [float("nan")]},
    ],
)
def test_what_is_no_number_is_refused_at_once(spec: object) -> None:
    with pytest.raises(CardError, match="finite numbers"):
        make_schedule(spec)  # type: ignore[arg-type]


def test_half_a_cosine() -> None:
    """SPEAR's weight of replayed trajectories: 0, a half, 1, and its mirror."""
    up, down = (make_schedule({"kind": "cosine", "start": a, "end": 1 - a, "total": 200})
                for a in (0.0, 1.0))  # fmt: skip
    assert [up(t) for t in (0, 100, 200, 300)] == pytest.approx([0, 0.5, 1, 1])
    assert [down(t) for t in (0, 100, 200)] == pytest.approx([1, 0.5, 0])
    assert up(200) == 1.0
    with pytest.raises(CardError, match="total > 0"):
        make_schedule({"kind": "cosine", "start": 0, "end": 1, "total": 0})


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
    assert {*ADAPTIVE, *CLOCKS} == {*CURRICULA.shipped}
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
