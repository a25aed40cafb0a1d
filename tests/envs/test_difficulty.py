"""Each axis of the difficulty vector acts, in single and vector environments, or says why not."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from searchgym import CandidateActions, CurriculumWrapper, VectorCurriculumWrapper
from searchgym.curricula import AXES, LevelBand, blur
from searchgym.envs.difficulty import apply_difficulty
from searchgym.envs.search import SearchEnv
from searchgym.envs.vector import SearchVectorEnv
from searchgym.errors import CardError, EngineError
from searchgym.tools import SearchTool
from searchgym.types import CallContext, Failure, Task, ToolCall
from tests.small import CORPUS, TASKS

WORLD: dict[str, Any] = {
    "corpus": "encyclopedia", "world": {"entities": 200}, "engine": {"name": "degraded"},
    "tasks": {"simple": 12, "chain-2": 12, "chain-3": 12, "parallel": 12},
    "tools": ["search", "access"],
}  # fmt: skip
SMALL: dict[str, Any] = {"corpus": CORPUS, "tasks": TASKS}


def world(**more: Any) -> SearchEnv:
    return SearchEnv(**WORLD, **more)


def begin(env: gym.Env[str, str], seed: int, **difficulty: float) -> dict[str, Any]:
    return env.reset(seed=seed, options={"difficulty": difficulty})[1]


def found(env: SearchEnv, query: str = "of the city") -> dict[str, Any]:
    return env.step(f"<search>{query}</search>")[-1]


# --- each axis --------------------------------------------------------------------------------
def test_the_drawn_tasks_are_within_the_vector() -> None:
    env = world()
    for axis, measure, values in (
        ("hops", lambda t: t.hops, (1, 2, 3)),
        ("branches", lambda t: t.difficulty.branches, (1, 2)),
        ("blur", blur, (0.0, 0.5, 1.0)),
    ):
        largest = []
        for value in values:
            ids = {begin(env, seed, **{axis: value})["task_id"] for seed in range(60)}
            assert all(measure(env.task(i)) <= value for i in ids)
            assert len(ids) > 5
            largest.append(max(measure(env.task(i)) for i in ids))
        assert largest == sorted(largest)
        assert largest[-1] > largest[0]


def test_noise_acts_and_is_told() -> None:
    env = world()
    shown = {}
    for noise in (0.0, 1.0):
        begin(env, 3, noise=noise)
        shown[noise] = found(env)["hits"]
    assert len(shown[0.0]) == len(shown[1.0]) == 3
    assert not set(shown[0.0]) & set(shown[1.0])


def test_distractors_stand_among_the_hits_and_take_no_place() -> None:
    env = world()
    places = set()
    for seed in range(12):
        begin(env, seed)
        plain = found(env)["hits"]
        info = begin(env, seed, distractors=4)
        assert info["params"]["distractors"] == 4
        info = found(env)
        told = info["degraded"]["distractors"]
        assert len(info["hits"]) == len(plain) + 4 == len(set(info["hits"]))
        assert tuple(h for h in info["hits"] if h not in told) == plain
        places |= {info["hits"].index(h) for h in told}
        hits = env.episode.turns[-1].results[0].hits
        assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    assert places == set(range(7))
    assert env.episode.config.rules.k == 7


def test_a_small_corpus_has_only_so_many_distractors_and_some_tools_none() -> None:
    env = SearchEnv(**SMALL)
    begin(env, 0, distractors=100)
    info = found(env, "Quell town")
    assert sorted(info["hits"]) == ["p1", "p2", "p3", "p4", "p5"]
    assert not begin(env, 0, distractors=3)["params"].get("degraded")
    assert found(env, "zzzz")["hits"] == ()
    bare = SearchTool(env.engine)
    call = ToolCall("search", {"query": "Quell"}, 0, CallContext(1, "e", {"distractors": 1}))
    with pytest.raises(EngineError, match="SearchTool\\(engine, k, corpus\\)"):
        bare.run([call])


def test_distractors_leave_failures_and_other_calls_alone() -> None:
    env = SearchEnv(corpus=CORPUS, tasks=TASKS, engine={"name": "degraded"})
    tool = env.toolbox.tools["search"]
    hard = CallContext(5, "e", {"distractors": 2, "outage": 1.0})
    plain = CallContext(6, "f", {})
    failed, fine = tool.run(
        [ToolCall("search", {"query": "Quell"}, 0, ctx) for ctx in (hard, plain)]
    )
    assert isinstance(failed, Failure)
    assert not isinstance(fine, Failure)
    assert len(fine.hits) <= 3


def test_top_k_truncation_and_turns() -> None:
    env = world()
    begin(env, 1, top_k=1, truncation=20, turns=2)
    info = found(env)
    assert len(info["hits"]) == 1
    (hit,) = env.requests()[0].segments[-1].hits
    assert len(hit.passage.text) == 20
    assert info["turns_left"] == 1
    _, _, terminated, truncated, _ = env.step("<search>again</search>")
    assert (terminated, truncated) == (False, True)
    begin(env, 1, top_k=7)
    assert len(found(env)["hits"]) == 7
    env.reset(seed=1)  # and the next episode is as the environment says
    assert (len(found(env)["hits"]), env.episode.turns_left) == (3, 5)


def test_tools_are_the_first_of_the_list() -> None:
    env = world()
    for count, names in ((0, ()), (1, ("search",)), (2, ("search", "access"))):
        begin(env, 1, tools=count)
        assert tuple(t.name for t in env.requests()[0].tools) == names
    begin(env, 1, tools=1)
    assert not env.step("<access>https://world.example/wiki/X</access>")[-1]["valid"]
    with pytest.raises(CardError, match=r"'tools' is at most 2 here \(search, access\), got 3"):
        begin(env, 1, tools=3)


def test_cost_is_charged_for_each_query() -> None:
    env = world()
    begin(env, 1, cost=0.25)
    assert env.step("<search>a city</search>")[1] == -0.25
    env.reset(seed=1)
    assert env.step("<search>a city</search>")[1] == 0
    with pytest.raises(CardError, match="w_search = -cost"):
        env.reset(options={"difficulty": {"cost": 0.1}, "params": {"w_search": -0.5}})


def test_one_axis_leaves_the_others_and_the_task_alone() -> None:
    env = world()
    for seed in range(20):
        plain = env.reset(seed=seed)[1]["task_id"]
        for axis, value in (
            ("noise", 0.4), ("distractors", 2), ("top_k", 5), ("truncation", 99), ("turns", 4),
            ("tools", 1), ("cost", 0.1), ("hops", 100), ("branches", 100), ("blur", 1),
        ):  # fmt: skip
            info = begin(env, seed, **{axis: value})
            assert info["task_id"] == plain
            assert info["params"].pop(axis) == value
            assert info["params"] == ({"w_search": -0.1} if axis == "cost" else {})


def test_difficulty_survives_a_snapshot() -> None:
    env = world()
    begin(env, 4, top_k=2, turns=3, distractors=1, noise=0.5)
    found(env)
    other = world()
    other.restore(env.snapshot())
    assert other.episode.config == env.episode.config
    action = "<search>a species</search>"
    assert env.step(action)[0] == other.step(action)[0]


# --- where it cannot act ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("keywords", "difficulty", "message"),
    [
        (SMALL, {"nois": 1}, "unknown difficulty axis 'nois'. Did you mean 'noise'"),
        (SMALL, {"noise": 2}, r"'noise' is a number in \[0, 1\], a probability; got 2"),
        (SMALL, {"noise": 0.1}, "BM25Engine gives no noisy results; use engine={'name': 'degra"),
        (SMALL, {"branches": 1}, "'branches' cannot act here: the task 't1' does not say"),
        (SMALL, {"blur": 0.5}, "'blur' cannot act here: the task 't1' does not say"),
        ({**SMALL, "tools": ["access"]}, {"top_k": 2}, "acts on searches, and the tools are acce"),
        ({**SMALL, "tools": ["access"]}, {"cost": 0.1}, "acts on searches"),
        ({**SMALL, "engine": "self"}, {"turns": 2}, "in self-search there are no tools"),
        ({**SMALL, "tasks": TASKS[:1]}, {"hops": 1}, "the easiest have hops 2"),
    ],
)
def test_an_axis_that_cannot_act_says_why(
    keywords: dict[str, Any], difficulty: dict[str, float], message: str
) -> None:
    env = SearchEnv(**keywords)
    with pytest.raises(CardError, match=message):
        env.reset(seed=0, options={"difficulty": difficulty})
    env.reset(seed=0)
    vector = SearchVectorEnv(2, **keywords)
    with pytest.raises(CardError, match=message):
        vector.reset(seed=0, options={"difficulty": difficulty})


@pytest.mark.parametrize(("name", "axis"), [("topk", "top_k"), ("turn", "turns"), ("hop", "hops")])
def test_a_name_that_is_nearly_an_axis_is_refused(name: str, axis: str) -> None:
    """It would change nothing; other names are for engines and rewards."""
    with pytest.raises(CardError, match=f"{name}.*did you mean '{axis}'"):
        SearchEnv(**SMALL, params={name: 1}).reset(seed=0)
    assert SearchEnv(**SMALL, params={"dead": 0.5}).reset(seed=0)[1]["params"] == {"dead": 0.5}


def test_every_axis_acts_somewhere() -> None:
    shared = SearchEnv(**WORLD)
    middle = {
        name: max(1, axis.low) if axis.whole else axis.high / 2 for name, axis in AXES.items()
    }
    played = apply_difficulty(shared.setup, middle)
    assert set(AXES) <= set(played.params)
    assert (played.rules.k, played.rules.max_turns, played.rules.snippet_chars) == (2, 1, 1)
    assert apply_difficulty(shared.setup, {"noise": 0.1}).rules is shared.rules


def test_a_named_task_is_played_whatever_the_axes() -> None:
    env = SearchEnv(**SMALL)
    info = env.reset(options={"task_id": "t1", "difficulty": {"hops": 1}})[1]
    assert env.task(info["task_id"]).id == "t1"


# --- around environments ----------------------------------------------------------------------
STAGES = {
    "use": "staged", "max_hops": [1, 2], "min_episodes": 4, "max_episodes": 50,
    "params": [{"turns": 2}, {"turns": 4, "hops": 2}],
}  # fmt: skip
RIGHT = {"t1": "<answer>Quell</answer>", "t2": "<answer>Mira Venn</answer>"}


def test_the_wrapper_drives_resets_without_options() -> None:
    env = CurriculumWrapper(gym.make("SearchQA-v0", **SMALL), STAGES)
    seen = []
    for seed in range(12):
        info = env.reset(seed=seed)[1]
        task = env.unwrapped.task(info["task_id"]).id
        seen.append((info["params"]["turns"], info["turns_left"], task))
        env.step(RIGHT[task])
    assert seen[:4] == [(2, 2, "t2")] * 4
    assert {turns for turns, _, _ in seen[4:]} == {left for _, left, _ in seen[4:]} == {4}
    assert {task for _, _, task in seen[4:]} == {"t1", "t2"}
    copy = CurriculumWrapper(SearchEnv(**SMALL), STAGES)
    copy.load_state_dict(env.state_dict())
    assert copy.reset(seed=0)[1]["params"] == {"turns": 4, "hops": 2}
    assert begin(env, 0, turns=9)["turns_left"] == 9  # options come first
    with pytest.raises(CardError, match=r"gym\.make"):
        CurriculumWrapper(gym.make("CartPole-v1"), None)
    with pytest.raises(CardError, match="unknown curriculum"):
        CurriculumWrapper(SearchEnv(**SMALL), "stagged")


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_the_vector_wrapper_acts_through_autoreset(mode: str) -> None:
    inner = SearchVectorEnv(4, autoreset_mode=mode, **SMALL)
    envs = VectorCurriculumWrapper(inner, STAGES)
    info = envs.reset(seed=0)[1]
    turns = [info["params"]["turns"].tolist()]
    for _ in range(6):
        texts = [RIGHT[e.config.task.id] for e in inner.episodes]
        info = envs.step(texts)[-1]
        turns.append([e.config.rules.max_turns for e in inner.episodes])
    assert turns[0] == [2] * 4
    assert turns[-1] == [4] * 4
    assert envs.curriculum.stage == 1
    assert envs.state_dict()["stage"] == 1
    again = VectorCurriculumWrapper(SearchVectorEnv(2, **SMALL), STAGES)
    again.load_state_dict(envs.state_dict())
    assert again.reset(seed=0)[1]["params"]["turns"].tolist() == [4, 4]


def test_gymnasiums_vector_environments() -> None:
    """One curriculum around the slots of a SyncVectorEnv; processes cannot share one."""
    envs = VectorCurriculumWrapper(
        SyncVectorEnv([lambda: SearchEnv(**SMALL)] * 2, autoreset_mode=AutoresetMode.NEXT_STEP),
        STAGES,
    )
    envs.reset(seed=0)
    for _ in range(8):
        info = envs.step(["<answer>Mira Venn</answer>"] * 2)[-1]
    assert envs.curriculum.stages.stage == 1
    assert info["params"]["turns"].tolist() == [4, 4]
    envs.close()
    apart = AsyncVectorEnv([lambda: SearchEnv(**SMALL)], shared_memory=False)
    with pytest.raises(CardError, match="SearchVectorEnv"):
        VectorCurriculumWrapper(apart, STAGES)
    apart.close()


def test_slots_of_an_older_level_do_not_count() -> None:
    levels = [{"turns": 2}, {"turns": 3}, {"turns": 4}]
    inner = SearchVectorEnv(4, autoreset_mode="SAME_STEP", corpus=CORPUS, tasks=TASKS[1:])
    envs = VectorCurriculumWrapper(inner, LevelBand(levels, episodes=2))
    envs.reset(seed=0)
    envs.step([RIGHT["t2"]] * 4)
    # two successes at the first level, then two of episodes that had begun there
    assert (envs.curriculum.level, envs.curriculum.seen) == (1, 0)


class Broken:
    """An engine that is never there."""

    needs_task, fingerprint = False, "broken"

    def cache_key(self, request: Any, /) -> None:
        return None

    def run(self, batch: Any, /) -> list[Failure]:
        return [Failure("unavailable", "gone") for _ in batch]


def test_broken_episodes_are_not_observed() -> None:
    pool = {"use": "pool"}
    for env in (SearchEnv(**SMALL, engine=Broken(), curriculum=pool),):
        env.reset(seed=0)
        assert env.step("<search>x</search>")[3]
        assert not env.curriculum.returns
    vector = SearchVectorEnv(1, **SMALL, engine=Broken(), curriculum=pool)
    vector.reset(seed=0)
    vector.step(["<search>x</search>"])
    assert not vector.curriculum.returns
    vector.reset(seed=0)
    vector.step(["<answer>x</answer>"])
    assert vector.curriculum.returns


@pytest.mark.contract
def test_maskable_ppo_trains_through_a_curriculum_it_does_not_know() -> None:
    """Stages by success: Stable-Baselines3-contrib learns the first one and is led to the next."""
    import sb3_contrib as sb3

    tasks = (Task("t2", "Who founded Aldor?", ("Mira Venn",), ("p1",), ("Aldor founder",)),)
    inner = SearchEnv(corpus=CORPUS, tasks=tasks, max_turns=6, reward={"f1": 1.0},
                      engine={"name": "degraded"})  # fmt: skip
    stages = {
        "use": "staged", "max_hops": [1, 1], "threshold": 0.8, "min_episodes": 50,
        "params": [{"turns": 3, "noise": 0.0}, {"turns": 4, "noise": 0.1}],
    }  # fmt: skip
    env = CurriculumWrapper(CandidateActions(inner, max_actions=24), stages)
    model = sb3.MaskablePPO(
        "MultiInputPolicy", env, seed=0, n_steps=128, batch_size=64, learning_rate=3e-3, n_epochs=8,
        gamma=1.0, device="cpu",
    )  # fmt: skip
    assert env.curriculum.stage == 0
    model.learn(900)
    assert env.curriculum.stage == 1, "the stage was not learned"
    assert env.curriculum.stages.ema > 0.5
    info = env.reset(seed=np.random.default_rng(0).integers(99).item())[1]
    assert info["params"] == {"turns": 4, "noise": 0.1}
    assert info["turns_left"] == 4
