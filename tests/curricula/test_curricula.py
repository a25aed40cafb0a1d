"""Curricula: worked numbers, exits, memory, and what holds whatever an agent does."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.curricula import (
    AXES,
    CURRICULA,
    AfterSuccess,
    AxisBandit,
    Curriculum,
    DifficultyPool,
    LevelBand,
    MaskSearch,
    PerTask,
    ScalingInter,
    Scheduled,
    SelfPaced,
    Staged,
    SuccessBand,
    TaskPool,
    blur,
    checked_difficulty,
    make_curriculum,
    next_task,
)
from searchgym.errors import CardError
from searchgym.types import Difficulty, GraphEdge, GraphNode, ReasoningGraph, Task

TASKS = tuple(
    Task(
        f"t{i}", f"q{i}", ("a",), hops=1 + i % 4,
        meta={"masks": 1 + i % 3, "difficulty": ("easy", "medium", "hard")[i % 3]},
    )
    for i in range(24)
)  # fmt: skip
LEVELS = [{"noise": 0.0}, {"noise": 0.25}, {"noise": 0.5}]
MADE: dict[str, dict[str, Any]] = {
    "uniform": {"params": {"noise": 0.2}},
    "scheduled": {"params": {"hops": {"kind": "linear", "start": 1, "end": 4, "total": 30}}},
    "zerosearch": {"total": 40},
    "scaling_inter": {"every": 10, "tasks": {"use": "pool"}},
    "after_success": {"params": {"cost": {"end": 0.1, "total": 20}}, "min_episodes": 3},
    "per_task": {"levels": {"1": {"tools": 0}, "2": {"turns": 3}}, "tasks": "pool"},
    "staged": {"max_hops": [1, 2, 4], "min_episodes": 4, "max_episodes": 30},
    "masksearch": {"levels": [1, 2, 3, 4], "min_episodes": 4, "max_episodes": 30},
    "band": {"levels": LEVELS, "episodes": 5, "tasks": "self_paced"},
    "bandit": {"arms": LEVELS, "hold": 4},
    "self_paced": {},
    "success_band": {},
    "pool": {"group": 2},
    "failure_replay": {"size": 4},
    "agentgl": {"first": [4, 4, 4], "second": [0, 4, 4]},
    "ode": {"axes": {"hops": [1, 2, 3], "turns": [6, 4]}, "window": 4},
}
"""Every registered curriculum, with small numbers."""
RETURNS = st.lists(st.tuples(st.integers(0, 23), st.floats(-1, 1.5)), max_size=60)


def make(name: str) -> Curriculum:
    return make_curriculum({"use": name, **MADE[name]})


def test_every_registered_curriculum_is_tried_here() -> None:
    assert set(MADE) == set(CURRICULA)


# --- what holds for all -----------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(CURRICULA))
@settings(max_examples=25, deadline=None)
@given(returns=RETURNS, later=RETURNS)
def test_state_survives_json_and_nothing_else_matters(
    name: str, returns: list[tuple[int, float]], later: list[tuple[int, float]]
) -> None:
    """A copy made from the state does as the original from there on; params and draws are pure."""
    original = make(name)
    assert isinstance(original, Curriculum)
    for task, reward in returns:
        original.choose(TASKS, task)
        original.observe(f"t{task}", reward, original.params())
    copy = make(name)
    copy.load_state_dict(json.loads(json.dumps(original.state_dict())))
    for task, reward in later:
        keys = [task * 1000 + i for i in range(5)]
        drawn = [original.choose(TASKS, key) for key in keys]
        assert drawn == [original.choose(TASKS, key) for key in keys]
        assert drawn == [copy.choose(TASKS, key) for key in keys]
        assert all(0 <= place < len(TASKS) for place in drawn)
        assert original.params() == copy.params() == original.params()
        checked_difficulty({k: v for k, v in original.params().items() if k in AXES})
        for curriculum in (original, copy):
            curriculum.observe(f"t{task}", reward, curriculum.params())
    assert original.state_dict() == copy.state_dict()


# --- the vector -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nosie": 0.1}, "unknown difficulty axis 'nosie'. Did you mean 'noise'"),
        ({"noise": 1.1}, r"'noise' is a number in \[0, 1\], a probability; got 1.1"),
        ({"hops": 0}, r"'hops' is a whole number in \[1, 100\], facts in a row; got 0"),
        ({"turns": 0.99}, "'turns' is a whole number"),
        ({"top_k": float("nan")}, "'top_k' .* got nan"),
        ({"cost": "high"}, "'cost' .* got 'high'"),
        ({"tools": True}, "'tools' .* got True"),
        ({"truncation": 10**9}, "'truncation' is a whole number .* characters"),
    ],
)
def test_a_wrong_vector_says_what_was_expected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(CardError, match=message):
        checked_difficulty(values)


def test_whole_axes_take_the_whole_number_below() -> None:
    line = make_curriculum(
        {"use": "scheduled", "params": {"hops": {"kind": "linear", "start": 1, "end": 4,
                                                 "total": 3}}}
    )  # fmt: skip
    seen = []
    for _ in range(5):
        (value,) = checked_difficulty(line.params()).values()
        assert isinstance(value, int)
        seen.append(value)
        line.observe("t", 0.0)
    assert seen == [1, 2, 3, 4, 4]
    assert checked_difficulty({"hops": 2.9999999999999996}) == {"hops": 3}
    assert checked_difficulty({"turns": np.int64(5), "noise": np.float32(0.5)}) == {
        "turns": 5, "noise": 0.5,
    }  # fmt: skip


@given(st.dictionaries(st.sampled_from(sorted(AXES)), st.floats(-10, 2_000), max_size=10))
def test_checking_is_idempotent_and_stays_in_range(values: dict[str, float]) -> None:
    try:
        checked = checked_difficulty(values)
    except CardError:
        assert any(
            not AXES[name].low <= value < AXES[name].high + 1 or not AXES[name].whole
            for name, value in values.items()
        )
        return
    assert checked_difficulty(checked) == checked
    for name, value in checked.items():
        assert AXES[name].low <= value <= AXES[name].high
        assert values[name] - 1 < value <= values[name] + 1e-8


# --- tasks within a difficulty ----------------------------------------------------------------
def asked(name: str, nodes: str, given: str, edges: str, **more: Any) -> Task:
    """A task about one-letter nodes; edges such as "ab bc"; the answer is the last node."""
    graph = ReasoningGraph(
        tuple(GraphNode(n, "T", n, n in given) for n in nodes),
        tuple(GraphEdge(a, "p", b, i, f"p{i}") for i, (a, b) in enumerate(edges.split())),
        more.pop("answer", nodes[-1]),
    )
    return Task(name, name, ("x",), graph=graph, **more)


def test_blur_is_the_share_that_is_described() -> None:
    assert blur(asked("simple", "ab", "a", "ab")) == 0
    assert blur(asked("chain-2", "abc", "a", "ab bc")) == 1 / 2
    assert blur(asked("chain-3", "abcd", "a", "ab cb cd")) == pytest.approx(2 / 3)
    # two named films, the year of each: years are values, one leads no further
    assert blur(asked("older of two", "abxy", "ab", "ax by", answer="a")) == 0
    assert blur(asked("of both", "abc", "ab", "ca cb")) == 0  # named clues, the answer is asked
    assert blur(TASKS[0]) is None


def test_a_pool_holds_what_is_within_and_says_what_is_not() -> None:
    tasks = [
        asked("t0", "ab", "a", "ab", hops=1, difficulty=Difficulty(1, 1, 1, 1)),
        asked("t1", "abc", "a", "ab bc", hops=2, difficulty=Difficulty(2, 1, 1, 2)),
        asked("t2", "abcd", "a", "ab bc cd", hops=3, difficulty=Difficulty(3, 2, 1, 3)),
    ]
    pool = TaskPool(tasks)
    assert pool.within({"noise": 0.5}) is tasks
    assert [t.id for t in pool.within({"hops": 2})] == ["t0", "t1"]
    assert [t.id for t in pool.within({"branches": 1})] == ["t0", "t1"]
    assert [t.id for t in pool.within({"blur": 0.55})] == ["t0", "t1"]
    assert pool.within({"blur": 0.55}) is pool.within({"blur": 0.6})  # one and the same sequence
    assert [t.id for t in pool.within({"hops": 9, "blur": 0.0})] == ["t0"]
    with pytest.raises(CardError, match="no task is within hops 1; the easiest have hops 2"):
        TaskPool(tasks[1:]).within({"hops": 1})
    with pytest.raises(CardError, match="'branches' cannot act here: the task 't0' does not say"):
        TaskPool(TASKS).within({"branches": 2})


# --- by the clock -----------------------------------------------------------------------------
def test_scaling_inter_grows_as_in_the_paper() -> None:
    curriculum = ScalingInter()
    found = {}
    for step in (0, 99, 100, 199, 200, 10_000):
        curriculum.set_step(step)
        found[step] = curriculum.params()["turns"]
    assert found == {0: 5, 99: 5, 100: 8, 199: 8, 200: 10, 10_000: 10}
    with pytest.raises(CardError, match="rounds must grow"):
        ScalingInter((8, 5))


@given(
    kind=st.sampled_from(["linear", "exponential"]),
    start=st.floats(0, 1),
    end=st.floats(0, 1),
    total=st.integers(1, 300),
)
def test_clocks_are_monotone_and_end_where_they_should(
    kind: str, start: float, end: float, total: int
) -> None:
    schedule = {"kind": kind, "start": start, "end": end, "total": total}
    curriculum = Scheduled({"noise": schedule})
    values = []
    for step in range(0, total + 2):
        curriculum.set_step(step)
        values.append(curriculum.params()["noise"])
    assert values[0] == pytest.approx(start)
    assert values[-1] == end
    rising = np.diff(values) * (1 if end >= start else -1)
    assert rising.min() >= -1e-12  # but for rounding


def test_a_gated_clock_starts_with_success_and_never_stops() -> None:
    curriculum = AfterSuccess(
        {"cost": {"kind": "linear", "start": 0, "end": 0.1, "total": 10}}, min_episodes=4
    )
    for _ in range(30):
        curriculum.observe("t", 0.0)
    assert curriculum.params() == {"cost": 0.0}
    while curriculum.opened is None:
        curriculum.observe("t", 1.0)
    assert curriculum.mean >= 0.5
    assert curriculum.params() == {"cost": 0.0}
    for _ in range(5):
        curriculum.observe("t", 0.0)
    assert curriculum.params()["cost"] == pytest.approx(0.05)
    told = AfterSuccess({"cost": 0.1}, min_episodes=1)
    told.set_step(70)
    told.observe("t", 1.0)
    told.set_step(75)
    assert told.step == 5


# --- stages -----------------------------------------------------------------------------------
def test_stages_end_by_success_or_by_budget_and_never_come_back() -> None:
    learns = Staged((1, 2, 4), threshold=0.7, min_episodes=5, max_episodes=50)
    lengths = []
    for _, group in itertools.groupby(stages_of(learns, [1.0] * 40)):
        lengths.append(len(list(group)))
    assert lengths == [5, 5, 30]
    fails = Staged((1, 2, 4), threshold=0.7, min_episodes=5, max_episodes=50)
    assert [len(list(g)) for _, g in itertools.groupby(stages_of(fails, [0.0] * 140))] == [
        50, 50, 40,
    ]  # fmt: skip
    assert stages_of(fails, [-5.0] * 100) == [2] * 100
    # the running mean of 1 after n zeros: 1 - 0.9^m ≥ 0.7 at the twelfth one
    slow = Staged((1, 2), threshold=0.7, min_episodes=2, max_episodes=500)
    assert stages_of(slow, [0.0, 0.0] + [1.0] * 12)[-1] == 0
    assert slow.stage == 1


def stages_of(curriculum: Staged, rewards: list[float]) -> list[int]:
    seen = []
    for reward in rewards:
        seen.append(curriculum.stage)
        curriculum.observe("t", reward)
    return seen


@given(st.lists(st.floats(-1, 1), max_size=200))
def test_stages_only_grow(rewards: list[float]) -> None:
    curriculum = Staged((1, 2, 4), min_episodes=3, max_episodes=40)
    seen = stages_of(curriculum, rewards)
    assert seen == sorted(seen)
    for stage in set(seen) - {seen[-1] if seen else 0}:
        assert 3 <= seen.count(stage) <= 40


def test_episodes_drawn_in_an_earlier_stage_do_not_end_the_next() -> None:
    """A trainer draws many tasks before the first of them ends."""
    for curriculum in (
        Staged((1, 2, 4), min_episodes=3, threshold=0.5),
        MaskSearch((1, 2, 4), min_episodes=3, threshold=0.5, share=1.0),
    ):
        drawn = [TASKS[curriculum.choose(TASKS, key)].id for key in range(40)]
        for task_id in drawn:
            curriculum.observe(task_id, 1.0)
        assert (curriculum.stages.stage, curriculum.stages.episodes) == (1, 0)
        for key in range(3):
            curriculum.observe(TASKS[curriculum.choose(TASKS, key)].id, 1.0)
        assert curriculum.stages.stage == 2


def test_masksearch_mixes_one_in_five_from_below() -> None:
    curriculum = MaskSearch((1, 2, 3), by="masks", min_episodes=1, threshold=0.8)
    histograms = []
    for _ in range(3):
        drawn = Counter(
            int(TASKS[curriculum.choose(TASKS, 7919 * key)].meta["masks"]) for key in range(4_000)
        )
        histograms.append([drawn[level] / 4_000 for level in (1, 2, 3)])
        curriculum.observe("t", 1.0)
    assert histograms[0] == [1, 0, 0]
    assert histograms[1] == pytest.approx([0.2, 0.8, 0], abs=0.02)
    assert histograms[2] == pytest.approx([0.1, 0.1, 0.8], abs=0.02)
    with pytest.raises(CardError, match=r"no task has 5 hops; there are \[1, 2, 3, 4\]"):
        MaskSearch((5,)).choose(TASKS, 0)
    with pytest.raises(CardError, match=r"has no meta\['depth'\]"):
        MaskSearch(by="depth").choose(TASKS, 0)


# --- by success -------------------------------------------------------------------------------
def test_a_band_moves_up_and_down_and_ignores_other_levels() -> None:
    band = LevelBand(LEVELS, low=0.3, high=0.8, episodes=10)
    trace = []
    for reward in [1.0] * 20 + [0.5] * 20 + [0.0] * 30:
        trace.append(band.params()["noise"])
        band.observe("t", reward, band.params())
    assert trace == [0.0] * 10 + [0.25] * 10 + [0.5] * 30 + [0.25] * 10 + [0.0] * 10
    stale = LevelBand(LEVELS, episodes=3)
    for _ in range(50):  # episodes of a slot that began at another level
        stale.observe("t", 1.0, {"noise": 0.5})
    assert stale.level == stale.seen == 0
    for _ in range(3):
        stale.observe("t", 1.0, {"noise": 0.0, "dead": 0.1})
    assert stale.level == 1


def test_a_place_that_says_less_does_not_count_what_one_that_says_more_has_played() -> None:
    band = LevelBand([{"hops": 2}, {"hops": 2, "noise": 0.5}], episodes=2)
    band.observe("t", 1.0, {"hops": 2, "noise": 0.5})  # begun before the level went down
    assert band.seen == 0
    band.observe("t", 1.0, {"hops": 2, "noise": 0.1})  # the noise is the environment's own
    assert band.seen == 1
    bandit = AxisBandit([{}, {"noise": 0.5}], hold=2)
    bandit.observe("t", 1.0, {"noise": 0.5})
    assert bandit.seen == 0


def test_a_level_between_whole_numbers_counts_the_episodes_below_it() -> None:
    band = LevelBand([{"turns": 2.5}, {"turns": 4}], episodes=3)
    for _ in range(3):
        band.observe("t", 1.0, {"turns": 2})  # as the environment has played it
    assert band.level == 1


def test_a_band_finds_the_level_that_is_neither_easy_nor_hard() -> None:
    """An agent that succeeds with probability 1 - noise settles where that is between the bars."""
    levels = [{"noise": i / 10} for i in range(11)]
    band = LevelBand(levels, low=0.4, high=0.6, episodes=200)
    rng = np.random.default_rng(0)
    played = []
    for _ in range(20_000):
        noise = band.params()["noise"]
        played.append(noise)
        band.observe("t", float(rng.random() >= noise), band.params())
    assert 0.35 <= np.mean(played[10_000:]) <= 0.65


def draws(curriculum: Curriculum, count: int = 4_000) -> np.ndarray:
    """(24,) how often each task is drawn."""
    found = [curriculum.choose(TASKS, 104_729 * key) for key in range(count)]
    return np.bincount(found, minlength=len(TASKS)) / count


def test_self_paced_odds_are_the_variance_of_success_with_a_floor() -> None:
    curriculum = SelfPaced(rate=0.5)
    for _ in range(30):
        curriculum.observe("t0", 1.0)
        curriculum.observe("t1", 0.0)
    curriculum.observe("t2", 1.0)  # p = 0.75
    assert curriculum.weight("t0") == curriculum.weight("t1") == 0.02
    assert curriculum.weight("t2") == pytest.approx(0.1875)
    assert curriculum.weight("t3") == 0.25
    odds = draws(curriculum, 20_000)
    total = 2 * 0.02 + 0.1875 + 21 * 0.25
    assert odds[:4] == pytest.approx(
        [0.02 / total, 0.02 / total, 0.1875 / total, 0.25 / total], abs=0.004
    )
    assert min(odds[0], odds[1]) > 0  # known tasks still come back


def test_the_band_of_tasks() -> None:
    curriculum = SuccessBand(0.3, 0.8, outside=0.1)
    assert curriculum.weight("new") == 1
    for _ in range(3):
        curriculum.observe("up", 1.0)  # .5, .55, .595, .6355
    assert curriculum.success["up"] == pytest.approx(0.6355)
    assert curriculum.weight("up") == 1
    for _ in range(20):
        curriculum.observe("up", 1.0)
        curriculum.observe("down", 0.0)
    assert curriculum.weight("up") == curriculum.weight("down") == 0.1


def test_pools_have_prime_rls_bounds_and_weights() -> None:
    curriculum = DifficultyPool()
    for i, reward in enumerate((0.0, 0.25, 0.26, 0.75, 0.76, 1.0, 1.3)):
        curriculum.observe(f"t{i}", reward)
    names = [curriculum.pool(f"t{i}") for i in range(8)]
    assert names == ["hard", "hard", "normal", "normal", "easy", "easy", "easy", None]
    weights = [curriculum.weight(f"t{i}") for i in range(8)]
    assert weights == [0.2, 0.2, 1, 1, 0.2, 0.2, 0.2, 1]
    assert curriculum.metrics() == {"hard": 2, "normal": 2, "easy": 3}
    odds = draws(curriculum, 20_000)
    assert odds[0] == pytest.approx(0.2 / (5 * 0.2 + 19), abs=0.003)
    assert odds[2] == pytest.approx(1 / (5 * 0.2 + 19), abs=0.006)
    group = DifficultyPool(group=4)
    for reward in (1, 1, 1, 1, 0, 0, 0, 0):
        group.observe("t0", reward)
    assert group.pool("t0") == "hard"  # the latest group alone


def test_a_bandit_plays_where_returns_change() -> None:
    """Arm 1 is being learned, arms 0 and 2 are solved and hopeless."""
    arms = [{"hops": 1}, {"hops": 2}, {"hops": 3}]
    bandit = AxisBandit(arms, hold=10, explore=0.2, seed=3)
    pulls = Counter()
    for _ in range(3_000):
        arm = bandit.arm
        pulls[arm] += 1
        reward = (1.0, min(pulls[1] / 3_000, 1.0), 0.0)[arm]
        bandit.observe("t", reward, bandit.params())
    assert pulls[1] > 0.7 * 3_000
    assert min(pulls.values()) > 20  # the others are looked at, too
    assert bandit.value[1] > 0 == bandit.value[0] == bandit.value[2]


def test_a_bandits_numbers() -> None:
    bandit = AxisBandit([{"hops": 1}, {"hops": 2}], hold=2, rate=0.5, explore=0.0)
    seen = []
    for score in (0.0, 0.4, 0.6, 0.4, 0.9, 0.9):
        seen.append(bandit.arm)
        bandit.observe("t", score - 0.1, bandit.params())
        bandit.observe("t", score + 0.1, bandit.params())
    # each arm twice, then the larger |Q|: Q0 = .5·.6 = .3, Q1 = 0; then Q0 = .3 + .5·(.3 - .3),
    # and at last .3 + .5·(0 - .3)
    assert seen == [0, 1, 0, 1, 0, 0]
    assert bandit.value == pytest.approx([0.15, 0.0])


# --- by name ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("stagged", "unknown curriculum 'stagged'. Did you mean 'staged'"),
        ({"max_hops": [1]}, "names its object"),
        (
            {"use": "staged", "max_hop": [1]},
            "curriculum 'staged' 'max_hop'. Did you mean 'max_hops'",
        ),
        ({"use": "searchgym.curricula:Nothing"}, "cannot load"),
        (object(), "object is no curriculum: it has no choose, params"),
        ({"use": "staged", "max_hops": [2, 1]}, "max_hops must grow"),
        ({"use": "band", "levels": LEVELS, "low": 0.9}, "low < high"),
        ({"use": "bandit", "arms": [{"hops": 1}, {"hops": 1}]}, "two arms are the same"),
        ({"use": "pool", "pools": {"a": [0.5, 0]}}, "positive weights"),
        ({"use": "masksearch", "levels": [2, 2]}, "levels must grow"),
        ({"use": "staged", "min_episodes": 9, "max_episodes": 3}, "1 ≤ min_episodes"),
    ],
)
def test_wrong_curricula_are_one_clear_error(spec: Any, message: str) -> None:
    with pytest.raises(CardError, match=message):
        make_curriculum(spec)


def test_states_of_other_shapes_are_refused() -> None:
    staged = Staged((1, 2, 4), min_episodes=1)
    for _ in range(2):
        staged.observe("t", 1.0)
    with pytest.raises(CardError, match="stage 2"):
        Staged((1, 2)).load_state_dict(staged.state_dict())
    with pytest.raises(CardError, match="3 arms"):
        AxisBandit(LEVELS[:2]).load_state_dict(AxisBandit(LEVELS).state_dict())


# --- the task -------------------------------------------------------------------------------------
ADAPTIVE = {"after_success", "staged", "masksearch", "band", "bandit", "self_paced", "success_band",
            "pool", "ode", "failure_replay"}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CURRICULA))
def test_who_adapts_says_so_and_who_says_so_adapts(name: str) -> None:
    """One that does not adapt chooses alike whatever episodes were worth."""
    table = {key: value for key, value in MADE[name].items() if key != "tasks"}
    curriculum = make_curriculum({"use": name, **table})
    assert curriculum.adapts == (name in ADAPTIVE)
    behaviours = set()
    for worth in (lambda p: 0.0, lambda p: 1.0, lambda p: 0.5, lambda p: float(p > 15)):
        one = make_curriculum({"use": name, **table})
        trace = []
        for i in range(100):
            place = one.choose(TASKS, i * 7919)
            trace.append([place, dict(one.params())])
            one.observe(TASKS[place].id, worth(place), one.params())
        behaviours.add(json.dumps(trace))
    assert (len(behaviours) > 1) == curriculum.adapts


def test_a_driver_adapts_where_its_tasks_do() -> None:
    table = {"use": "zerosearch", "total": 4}
    assert not make_curriculum(table).adapts
    assert make_curriculum({**table, "tasks": "pool"}).adapts


def test_difficulty_by_task() -> None:
    """Easy tasks never get tools; hard ones get turns; others what is left."""
    curriculum = make_curriculum(
        {"use": "per_task", "levels": {1: {"tools": 0}, "4": {"turns": 9}}, "default": {"turns": 4},
         "tasks": {"use": "uniform", "params": {"noise": 0.2}}}
    )  # fmt: skip
    assert isinstance(curriculum, PerTask)
    assert curriculum.params() == {"noise": 0.2}
    pool = TaskPool(TASKS)
    for key in range(60):
        task, params = next_task(curriculum, pool, key)
        own = {1: {"tools": 0}, 4: {"turns": 9}}.get(task.hops, {"turns": 4})
        assert params == {"noise": 0.2, **own}
    _, params = next_task(curriculum, pool, 0, over={"turns": 2.0, "noise": 0}, task=TASKS[3])
    assert params == {"noise": 0, "turns": 2}
    by_masks = PerTask({3: {"top_k": 1}}, by="masks")
    assert by_masks.params(TASKS[2]) == {"top_k": 1}
    assert by_masks.params(TASKS[1]) == {}
    with pytest.raises(CardError, match="does not say its 'colour'"):
        PerTask({}, by="colour").params(TASKS[0])
    with pytest.raises(CardError, match="'hops' chooses tasks"):
        PerTask({1: {"hops": 2}})


def test_axes_that_choose_tasks_are_asked_before_and_stay() -> None:
    class Sly:
        """Names another limit once it knows the task: the limit that chose stands."""

        adapts = False
        asked: list[Any] = []  # noqa: RUF012

        def choose(self, tasks: Any, key: int) -> int:
            assert {t.hops for t in tasks} == {1, 2}
            return key % len(tasks)

        def params(self, task: Task | None = None) -> dict[str, float]:
            self.asked.append(task)
            return {"hops": 2.0, "turns": 3} if task is None else {"hops": 4, "turns": 7}

        def observe(self, task_id: str, reward: float, params: Any = None) -> None: ...
        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: Any) -> None: ...

    sly = make_curriculum(Sly())
    task, params = next_task(sly, TaskPool(TASKS), 5)
    assert Sly.asked == [None, task]
    assert params == {"hops": 2, "turns": 7}
    _, params = next_task(sly, TaskPool(TASKS), 5, task=TASKS[3])
    assert params == {"hops": 4, "turns": 7}


def test_curricula_of_another_shape_are_refused() -> None:
    class Old:
        adapts = False

        def choose(self, tasks: Any, key: int) -> int:
            return 0

        def params(self) -> dict[str, float]:
            return {}

        def observe(self, *args: Any) -> None: ...
        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: Any) -> None: ...

    with pytest.raises(CardError, match=r"def params\(self, task=None\)"):
        make_curriculum(Old())

    class Silent(Old):
        def params(self, task: Any = None) -> dict[str, float]:  # type: ignore[override]
            return {}

    del Old.adapts
    with pytest.raises(CardError, match="adapts"):
        make_curriculum(Silent())
