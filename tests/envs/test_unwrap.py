"""What a person passes (an id, a spec, wrappers, a subclass) holds wherever episodes are played."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import (
    ClipReward,
    NormalizeReward,
    RecordEpisodeStatistics,
    TimeLimit,
    TransformAction,
    TransformObservation,
    TransformReward,
)

import searchgym as sg
from searchgym import ConstantAgent, FirstHitAgent
from searchgym.corpora import Corpus
from searchgym.curricula import Uniform
from searchgym.errors import CardError, EpisodeError, EvaluationError
from searchgym.types import Passage, Task

CORPUS = Corpus(
    "things",
    [Passage(f"p{i}", t, f"{t} is blue.", f"u{i}") for i, t in enumerate(("Aldor", "Belu"))],
)
TASKS = [
    Task(f"t{i}", f"{t}?", ("blue",), (f"p{i}",), (t,), "simple", 1)
    for i, t in enumerate(("Aldor", "Belu"))
]
OWN: dict[str, Any] = {"corpus": CORPUS, "tasks": TASKS, "k": 1}


class Shy(sg.SearchEnv):
    """Every episode is closed-book: a hook."""

    def start(self, key: int, **how: Any) -> sg.Episode:
        return super().start(key, **{**how, "search_enabled": False})


class Generous(sg.SearchEnv):
    """Pays five for whatever is done: no hook."""

    def step(self, action: str) -> Any:
        text, _, terminated, truncated, info = super().step(action)
        return text, 5.0, terminated, truncated, info


def env(**keywords: Any) -> sg.SearchEnv:
    return sg.SearchEnv(**{**OWN, **keywords})


def test_an_id_a_spec_and_an_environment_are_one():
    small = {"world": {"entities": 60}, "tasks": {"simple": 2}}
    made = gym.make("SearchQA-v0", **small)
    tasks = [task.id for task in made.unwrapped.tasks]
    assert [task.id for task in sg.search_env(made).tasks] == tasks
    assert [task.id for task in sg.search_env(made.spec).tasks] == tasks
    assert sg.search_env("searchgym/SimpleQA-v0").rules.max_turns > 1


def test_what_is_no_search_environment_is_refused():
    with pytest.raises(CardError, match=r"needs a SearchEnv.*CartPole|TimeLimit"):
        sg.evaluate(ConstantAgent("x"), gym.make("CartPole-v1"))
    with pytest.raises(CardError, match="Did you mean 'SearchQA-v0'"):
        sg.search_env("SarchQA-v0")


def test_a_reward_wrapper_is_honoured():
    doubled = TransformReward(TransformReward(env(), lambda r: 2 * r), lambda r: r + 1)
    result = doubled.reset(options={"task_id": "t0"}) and doubled.step("<answer>blue</answer>")
    assert result[1] == 3.0
    episode = sg.Session(doubled, "t0")
    assert episode.answer("blue").reward == 3.0 == episode.reward
    clipped = sg.Session(ClipReward(env(reward={"em": 7}), 0, 1), "t0")
    assert clipped.answer("blue").reward == 1.0


class Told(Uniform):
    """Remembers what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[str] = []

    def observe(self, task_id, reward, params=None):
        self.tasks.append(task_id)


@pytest.mark.parametrize("last", ["<search> Quell </search>", "<answer> Quell </answer>"])
@pytest.mark.parametrize("mode", [None, "sync", "async"])
def test_a_limit_of_steps_ends_episodes_everywhere_alike(mode, last):
    """As the single environment: the episode has an outcome and the curriculum hears of it."""
    one = Told()
    single = gym.make("SearchQA-v0", max_episode_steps=2, curriculum=one, **OWN)
    single.reset(seed=5)
    single.step("<search> Aldor </search>")
    _, reward, terminated, truncated, info = single.step(last)
    assert (terminated, truncated) == ("answer" in last, True)
    assert one.tasks == [info["outcome"]["task_id"]]
    many = Told()
    envs = gym.make_vec("SearchQA-v0", 2, vectorization_mode=mode, max_episode_steps=2,
                        curriculum=many, **OWN)  # fmt: skip
    envs.reset(seed=5)
    envs.step(["<search> Aldor </search>"] * 2)
    _, rewards, ends, cuts, infos = envs.step([last] * 2)
    assert (rewards[0], ends[0], cuts[0]) == (reward, terminated, truncated)
    assert {name: infos["outcome"][name][0] for name in info["outcome"]} == info["outcome"]
    assert len(many.tasks) == (0 if mode == "async" else 2), "processes have curricula of their own"
    envs.close()


def test_a_time_limit_truncates_and_is_not_announced():
    limited = TimeLimit(env(max_turns=4), 1)
    text, _ = limited.reset(seed=0)
    step = limited.step("<search>Aldor</search>")
    session = sg.Session(limited, "t0")
    assert (
        session.prompt.splitlines()[0] == sg.Session(env(max_turns=4), "t0").prompt.splitlines()[0]
    )
    taken = session.step("<search>Aldor</search>")
    assert (taken.done, session.episode.truncated, step[3]) == (True, True, True)
    assert "is blue" in taken.text, "tools run in the last turn, as with Gymnasium's wrapper"
    assert text


def test_statistics_are_recorded_by_whoever_plays():
    recorded = RecordEpisodeStatistics(env())
    result = sg.evaluate(FirstHitAgent(), recorded)
    assert len(result.rows) == 2
    assert list(recorded.length_queue) == [row.turns for row in result.rows]
    assert list(recorded.return_queue) == [row.em for row in result.rows]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda e: TransformObservation(e, str.upper, None),
        lambda e: TransformAction(e, str.upper, None),
        NormalizeReward,
        sg.CandidateActions,
    ],
)
def test_a_wrapper_that_acts_in_step_is_refused_where_nothing_steps(wrap: Any):
    for use in (sg.Session, lambda e: sg.SearchVectorEnv(2, env=e)):
        with pytest.raises(CardError, match=r"acts in step and reset.*step the environment"):
            use(wrap(env()))


def test_a_wrapper_that_takes_no_texts_is_refused_with_what_to_do():
    with pytest.raises(CardError, match=r"agents write texts.*train candidate"):
        sg.evaluate(ConstantAgent("x"), sg.CandidateActions(env()))


def test_a_subclass_with_a_hook_is_honoured_everywhere():
    shy = Shy(**OWN)
    assert "search is not available" in shy.reset(seed=0)[0] + shy.step("<search>Aldor</search>")[0]
    vector = sg.SearchVectorEnv(2, env=shy)
    vector.reset(seed=0)
    assert all(not e.config.search_enabled for e in vector.episodes)
    assert not sg.Session(shy).tools
    assert sg.evaluate(FirstHitAgent(), shy).means["searches"].mean == 0
    assert sg.evaluate(FirstHitAgent(), env()).means["searches"].mean > 0
    assert sg.evaluate(FirstHitAgent(), shy).settings["class"].endswith(":Shy")
    table = sg.transfer(FirstHitAgent(), [shy, env()])
    searches = [
        cell.mean for r in table.rungs if (cell := table.cell(r, "FirstHitAgent", "searches"))
    ]
    assert searches[0] == 0 < searches[1]


def test_a_subclass_that_overrides_step_is_refused_where_nothing_steps():
    with pytest.raises(CardError, match=r"Generous overrides step.*start.*reward.*SyncVectorEnv"):
        sg.SearchVectorEnv(2, env=Generous(**OWN))


def test_use_implies_the_vector_form():
    gym.register(
        "Shy-v0", f"{__name__}:Shy", vector_entry_point=f"searchgym.envs.vector:{__name__}.Shy"
    )
    gym.register(
        "Generous-v0", f"{__name__}:Generous",
        vector_entry_point=f"searchgym.envs.vector:{__name__}.Generous",
    )  # fmt: skip
    shy = gym.make_vec("Shy-v0", 2, **OWN)
    assert isinstance(shy, sg.SearchVectorEnv)
    shy.reset(seed=1)
    assert all(not e.config.search_enabled for e in shy.episodes)
    generous = gym.make_vec("Generous-v0", 2, **OWN)
    assert isinstance(generous, SyncVectorEnv)
    generous.reset(seed=1)
    assert generous.step(["a", "b"])[1].tolist() == [5.0, 5.0]
    assert gym.spec("Shy-v0").to_json()


def test_evaluation_plays_params_and_schedules_and_refuses_what_adapts():
    degraded = {"name": "degraded"}
    fixed = env(engine=degraded, params={"noise": 0.25})
    result = sg.evaluate(FirstHitAgent(), fixed)
    assert result.settings["params"] == {"noise": 0.25}
    schedule = {
        "use": "scheduled",
        "params": {"noise": {"kind": "linear", "start": 0, "end": 1, "total": 1}},
    }
    played = env(engine=degraded, curriculum=schedule)
    noise: list[float] = []
    played.on_end = (lambda episode: noise.append(episode.config.params["noise"]),)
    sg.evaluate(FirstHitAgent(), played)
    assert noise == [0.0, 1.0]
    staged = {"use": "staged", "max_hops": [1, 2], "min_episodes": 2}
    with pytest.raises(EvaluationError, match="Staged adapts"):
        sg.evaluate(FirstHitAgent(), env(curriculum=staged))


def test_closed_book_environments_are_evaluated_so():
    result = sg.evaluate(FirstHitAgent(), env(search_enabled=False))
    assert result.means["searches"].mean == 0
    assert result.settings["search_enabled"] is False


def test_resets_by_slot_and_by_split():
    vector = sg.SearchVectorEnv(3, **OWN)
    _, infos = vector.reset(seed=0, options={"task_id": ["t1", "t0", None]})
    ids = [vector.env.task(name).id for name in infos["task_id"]]
    assert ids[:2] == ["t1", "t0"]
    _, infos = vector.reset(seed=0, options={"task_id": "t1"})
    assert [vector.env.task(name).id for name in infos["task_id"]] == ["t1"] * 3
    with pytest.raises(CardError, match="2 values for 3"):
        vector.reset(options={"task_id": ["t1", "t0"]})
    world = {"world": {"entities": 60}, "tasks": {"simple": 2}}
    single = sg.SearchEnv(**world)
    ids = {split: {t.id for t in single.of_split(split).tasks} for split in ("train", "test")}
    single.reset(seed=3, options={"split": "test"})
    assert single.episode.config.task.id in ids["test"]
    assert len(single.oracle()) >= 1
    for text in single.oracle():
        _, reward, *_ = single.step(text)
    assert reward == 1.0, "the other split's tools are called"
    single.reset(seed=3)
    assert single.episode.config.task.id in ids["train"]
    pair = sg.SearchVectorEnv(2, **world)
    pair.reset(seed=5, options={"split": ["test", None]})
    plans = pair.oracle()
    for texts in zip(*plans, strict=True):
        rewards = pair.step(list(texts))[1]
    assert rewards.tolist() == [1.0, 1.0]


def test_vector_environments_pickle_and_answer_calls():
    vector = sg.SearchVectorEnv(2, world={"entities": 60}, tasks={"simple": 2})
    vector.reset(seed=0)
    vector.step(["<search>x</search>"] * 2)
    copy = pickle.loads(pickle.dumps(vector))
    actions = ["<answer>y</answer>"] * 2
    ours, theirs = vector.step(actions), copy.step(actions)
    assert ours[0] == theirs[0]
    assert np.array_equal(ours[1], theirs[1])
    assert vector.get_attr("search_enabled") == (True, True)
    vector.set_attr("search_enabled", [False, False])
    assert vector.call("search_enabled") == (False, False)
    with pytest.raises(CardError, match="one value"):
        vector.set_attr("search_enabled", [False, True])


def test_an_unknown_keyword_suggests_the_environments_own():
    with pytest.raises(CardError, match="Did you mean 'search_enabled'"):
        sg.SearchEnv(serch_enabled=False)


def double(reward):
    return 2 * reward


def tenfold(reward):
    return 10 * reward


def test_records_tell_reward_transforms_apart():
    from searchgym.envs.unwrap import search_env

    episode = search_env(TransformReward(env(), double)).start(0)
    (name,) = episode.config.to_json()["reward_transforms"]
    assert name.endswith("double")
    saved = episode.snapshot()
    restored = type(episode).restore(saved, reward_transforms=[double])
    assert restored.config.reward_transforms == (double,)
    with pytest.raises(EpisodeError, match="double"):
        type(episode).restore(saved, reward_transforms=[tenfold])


def test_statistics_outside_a_reward_wrapper_are_of_its_rewards():
    outside = RecordEpisodeStatistics(TransformReward(env(), double))
    result = sg.evaluate(FirstHitAgent(), outside)
    assert list(outside.return_queue) == [2 * row.em for row in result.rows]
