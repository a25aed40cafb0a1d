"""Candidate actions for ordinary RL libraries."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import InvalidAction
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import DelayObservation, FrameStackObservation

from searchgym import CandidateActions, CurriculumWrapper, RulesAgent, VectorCandidateActions
from searchgym.curricula import make_curriculum
from searchgym.envs import SearchEnv, same
from searchgym.envs import check_env as our_check_env
from searchgym.errors import CardError
from searchgym.evaluation import evaluate
from searchgym_agents.candidate.actions import CandidateLimits
from searchgym_agents.candidate.encoder import WordEncoder
from searchgym_agents.candidate.features import FEATURE_NAMES
from tests.small import CORPUS, TASKS


def wrapped(**keywords) -> CandidateActions:
    return CandidateActions(SearchEnv(corpus=CORPUS, tasks=TASKS, max_turns=4), **keywords)


@pytest.mark.filterwarnings("ignore:.*(We recommend using the raw environment|out of date).*")
@pytest.mark.filterwarnings("error")
def test_it_is_a_sound_gymnasium_environment():
    check_env(wrapped(), skip_render_check=True)


def test_candidates_are_legal_and_masks_follow_them():
    env = wrapped(max_actions=64)
    observation, info = env.reset(seed=0, options={"task_id": "t1"})
    assert observation["features"].shape == (64, len(FEATURE_NAMES))
    n = info["candidates"]
    assert observation["mask"].sum() == n == env.action_masks().sum()
    assert not observation["features"][n:].any()
    rng = np.random.default_rng(0)
    over = False
    while not over:
        action = int(rng.choice(np.flatnonzero(env.action_masks())))
        observation, _, terminated, truncated, info = env.step(action)
        assert info["valid"]
        over = terminated or truncated
    assert not env.action_masks().any()


def test_a_masked_action_is_invalid_not_an_error():
    env = wrapped(max_actions=64)
    env.reset(seed=0)
    info = env.step(63)[-1]
    assert not info["valid"]


def test_too_many_candidates_keep_the_refusal():
    env = wrapped(max_actions=3)
    env.reset(seed=0)
    assert "abstain" not in [c.form for c in env.candidates]  # nothing was looked for yet
    env.step(0)
    assert [c.form for c in env.candidates][-1] == "abstain"
    assert len(env.candidates) == 3


def test_other_environments_are_refused():
    with pytest.raises(CardError, match=r"gym\.make"):
        CandidateActions(gym.make("CartPole-v1"))


KEYWORDS: dict = {"world": {"entities": 300}, "tasks": {"simple": 20}, "max_turns": 3}


def test_wrappers_are_there_without_an_import_of_their_own():
    import searchgym as sg

    assert sg.CandidateActions is CandidateActions


def test_a_number_beyond_the_space_is_an_error_and_costs_nothing():
    env = wrapped(max_actions=64)
    env.reset(seed=0)
    for action in (64, 1000, -1):
        with pytest.raises(InvalidAction, match=rf"{action} is no action of Discrete\(64\)"):
            env.step(action)
    assert len(env.unwrapped.episode.turns) == 0


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: CandidateActions(env, max_actions=40, limits={"answers": 20}),
        lambda env: CurriculumWrapper(env, {"use": "scheduled", "params": {"turns": 2}}),
        lambda env: CandidateActions(CurriculumWrapper(env, "self_paced"), max_actions=40),
    ],
    ids=["candidates", "curriculum", "both"],
)
def test_a_wrapped_environment_is_made_again_from_its_spec(wrap):
    env = wrap(gym.make("SearchQA-v0", **KEYWORDS))
    for spec in (env.spec, EnvSpec.from_json(env.spec.to_json())):
        twin = gym.make(spec)
        assert str(twin) == str(env)
        (mine, _), (theirs, _) = env.reset(seed=3), twin.reset(seed=3)
        assert same(mine, theirs)
        assert twin.spec.to_json() == env.spec.to_json()
    assert twin.action_space == env.action_space


def test_a_spec_with_an_object_makes_the_environment_but_no_json():
    curriculum = make_curriculum("self_paced")
    env = CurriculumWrapper(gym.make("SearchQA-v0", **KEYWORDS), curriculum)
    assert gym.make(env.spec).get_wrapper_attr("curriculum") is not None
    with pytest.raises(CardError, match=r"SelfPaced.*give .* names"):
        env.spec.to_json()
    around = gym.wrappers.TimeLimit(env, 2)  # a wrapper of others around it changes nothing
    with pytest.raises(CardError, match="SelfPaced"):
        around.spec.to_json()


@pytest.mark.filterwarnings("ignore:.*(We recommend using the raw environment|out of date).*")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("curriculum", [None, "self_paced"])
def test_a_wrapped_environment_passes_both_checkers(curriculum):
    inner = gym.make("SearchQA-v0", **KEYWORDS)
    outer = CandidateActions(CurriculumWrapper(inner, curriculum), max_actions=40)
    check_env(outer, skip_render_check=True)
    our_check_env(outer, seeds=1)
    our_check_env(CurriculumWrapper(inner, curriculum), seeds=1)


def test_limits_and_encoders_by_plain_values():
    assert wrapped(limits={"answers": 7}).builder.limits == CandidateLimits(answers=7)
    with pytest.raises(CardError, match=r"unknown limit 'answer'. Did you mean 'answers'"):
        wrapped(limits={"answer": 3})
    with pytest.raises(CardError, match="max_actions"):
        wrapped(max_actions=0)
    assert wrapped(encoder=False).builder.encoder is None
    bundled = wrapped(encoder={"dtype": "float32"}, max_actions=30)
    assert isinstance(bundled.builder.encoder, WordEncoder)
    soft, hard = bundled, wrapped(max_actions=30)
    for env in (soft, hard):
        env.reset(seed=0, options={"task_id": "t1"})
    rows = [env.step(0)[0]["features"] for env in (soft, hard)]
    assert rows[0].shape == rows[1].shape
    assert not np.array_equal(*rows)


def test_evaluation_says_what_to_do_instead():
    with pytest.raises(CardError, match="searchgym train candidate"):
        evaluate(RulesAgent(), wrapped())


def test_a_vector_of_them():
    envs = gym.make_vec(
        "SearchQA-v0", 2, vectorization_mode="sync", wrappers=[CandidateActions], **KEYWORDS
    )
    observations, _ = envs.reset(seed=1)
    assert observations["features"].shape == (2, 200, len(FEATURE_NAMES))
    assert envs.step(np.zeros(2, dtype=int))[1].shape == (2,)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_vector_form_gives_what_single_environments_give(mode):
    """Against Gymnasium's own vector of wrapped environments, infos of ours included."""
    ours = VectorCandidateActions(
        gym.make_vec("SearchQA-v0", 3, autoreset_mode=mode, **KEYWORDS),
        max_actions=40,
    )
    theirs = gym.vector.SyncVectorEnv(
        [lambda: CandidateActions(gym.make("SearchQA-v0", **KEYWORDS), max_actions=40)] * 3,
        autoreset_mode=mode,
    )
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    pairs = [ours.reset(seed=1), theirs.reset(seed=1)]
    rng = np.random.default_rng(0)
    for _ in range(30):
        (mine, *rest, infos), (other, *expected, others) = pairs
        assert mine in ours.observation_space
        assert same(mine, other)
        assert all(np.array_equal(a, b) for a, b in zip(rest, expected, strict=True))
        for name in ("candidates", "text_observation", "task_id"):
            assert list(infos[name]) == list(others[name])
        if "final_obs" in others:
            for a, b in zip(infos["final_obs"], others["final_obs"], strict=True):
                assert (a is None and b is None) or same(a, b)
        masks = ours.action_masks()
        actions = np.asarray(
            [rng.choice(np.flatnonzero(m)) if m.any() else 0 for m in masks], dtype=np.int64
        )
        pairs = [ours.step(actions), theirs.step(actions)]


def test_the_layout_of_rllib_holds_the_same_numbers():
    rows, flat = (wrapped(max_actions=30, layout=name) for name in ("rows", "rllib"))
    (mine, _), (theirs, _) = rows.reset(seed=0), flat.reset(seed=0)
    assert theirs in flat.observation_space
    assert set(theirs) == {"observations", "action_mask"}
    assert np.array_equal(mine["features"].ravel(), theirs["observations"])
    assert np.array_equal(mine["mask"], theirs["action_mask"])
    assert theirs["action_mask"].dtype == np.float32
    with pytest.raises(CardError, match=r"unknown layout 'row'\. Did you mean 'rows'"):
        wrapped(layout="row")


@pytest.mark.parametrize("observation", ["text", "messages"])
def test_observations_can_be_stacked_and_delayed(observation: str) -> None:
    env = SearchEnv(corpus=CORPUS, tasks=TASKS, observation=observation)
    stacked, delayed = FrameStackObservation(env, 2), DelayObservation(env, 1)
    nothing = "" if observation == "text" else {"messages": [], "tools": []}
    first, _ = env.reset(seed=1)
    assert [*FrameStackObservation(env, 2, padding_type="zero").reset(seed=1)[0]] == [
        nothing,
        first,
    ]
    assert [*stacked.reset(seed=1)[0]] == [first, first]
    second = stacked.step("<search> Aldor </search>")[0]
    assert second[0] == first != second[1]
    assert delayed.reset(seed=1)[0] == nothing
    assert delayed.step("<search> Aldor </search>")[0] == first
