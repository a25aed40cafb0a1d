"""Snapshots and trajectories say which reward it was, and run nothing on their own account."""

from __future__ import annotations

import importlib
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from searchgym.core import Episode, Trajectory
from searchgym.envs import SearchEnv
from searchgym.errors import CardError
from searchgym.rewards import Reward
from searchgym.rewards.registry import source_digest

from ..small import CORPUS, TASKS, episode, play
from . import own

PATH = "tests.rewards.own:"
SPEC: dict[str, Any] = {
    "em": 1,
    f"{PATH}brevity": 0.5,
    "thrift": {"use": f"{PATH}Thrift", "most": 3},
}
OWN: dict[str, Any] = {"corpus": CORPUS, "tasks": list(TASKS), "max_turns": 4}


def saved(reward: Any) -> dict[str, Any]:
    e = play(episode(reward=Reward.of(reward)), "<search>Aldor</search>", "<answer>Quell</answer>")
    return dict(json.loads(json.dumps(e.snapshot())))


def test_registered_parts_need_no_word_of_the_caller() -> None:
    spec = {"f1": 1, "search": -0.1, "exact": {"use": "em", "weight": 2}, "cover_em": "gate"}
    snapshot = saved(spec)
    assert snapshot["config"]["rules"]["reward"] == {
        "f1": 1.0, "search": -0.1, "exact": {"use": "em", "weight": 2.0}, "cover_em": "gate",
    }  # fmt: skip
    assert Episode.restore(snapshot).config.rules.reward == Reward.of(spec)


def test_own_parts_are_recorded_by_path_and_digest_and_need_consent() -> None:
    snapshot = saved(SPEC)
    record = snapshot["config"]["rules"]["reward"]
    assert record["brevity"] == {
        "use": f"{PATH}brevity", "weight": 0.5, "digest": source_digest(own.brevity),
    }  # fmt: skip
    assert record["thrift"]["digest"] == source_digest(own.Thrift)
    assert record["thrift"]["digest"].startswith("sha256:")
    with pytest.raises(CardError, match=r"'brevity' is code of its own .*reward=.*trust=True"):
        Episode.restore(snapshot)
    original = play(
        episode(reward=Reward.of(SPEC)), "<search>Aldor</search>", "<answer>Quell</answer>"
    )
    for again in (Episode.restore(snapshot, trust=True), Episode.restore(snapshot, reward=SPEC)):
        assert again.turns == original.turns
        assert again.outcome() == original.outcome()
        assert again.config.rules.reward == original.config.rules.reward
    without = Episode.restore(snapshot, scored=False)
    assert without.observation() == original.observation()
    assert without.turns[-1].reward == 1.0, "em alone"


def test_a_record_cannot_smuggle_a_path_in_as_a_name() -> None:
    snapshot = saved("em")
    rules = snapshot["config"]["rules"]
    for record in ({"os:getcwd": 1.0}, {"x": {"use": "os:getcwd"}}, {"x": {"use": "os:getcwd",
                   "digest": "sha256:0"}}, {"em": {"use": f"{PATH}brevity"}}):  # fmt: skip
        rules["reward"] = record
        with pytest.raises(CardError, match=r"unknown reward part|code of its own"):
            Episode.restore(snapshot)


def test_a_changed_source_is_refused_by_name(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "changing_reward.py"
    module.write_text("def pay(outcome):\n    return 0.5\n")
    try:
        snapshot = saved("changing_reward:pay")
        assert Episode.restore(snapshot, trust=True).turns[-1].reward == 0.5
        module.write_text("def pay(outcome):\n    return 0.25  # other\n")
        del sys.modules["changing_reward"]
        importlib.invalidate_caches()
        message = r"'pay' \(changing_reward:pay\) is not the one that was recorded: its source has"
        for consent in ({"trust": True}, {"reward": "changing_reward:pay"}):
            with pytest.raises(CardError, match=message):
                Episode.restore(snapshot, **consent)  # type: ignore[arg-type]
    finally:
        sys.modules.pop("changing_reward", None)


def test_another_object_under_the_same_name_is_refused() -> None:
    snapshot = saved({"mine": own.brevity})
    with pytest.raises(
        CardError, match=r"'mine' was recorded as .*own:brevity', and the one given"
    ):
        Episode.restore(snapshot, reward={"mine": own.novelty})


def test_a_function_without_a_name_works_here_and_says_what_it_cannot() -> None:
    halves = {"em": 1, "half": lambda outcome: 0.5 * outcome.answered}
    snapshot = saved(halves)
    record = snapshot["config"]["rules"]["reward"]["half"]
    assert set(record) == {"unnamed", "weight"}
    for consent in ({}, {"trust": True}):
        with pytest.raises(CardError, match=r"'half' .*<lambda>.* has no import path.*reward="):
            Episode.restore(snapshot, **consent)  # type: ignore[arg-type]
    assert Episode.restore(snapshot, reward=halves).turns[-1].reward == 1.5
    e = play(episode(reward=Reward.of(halves)), "<search>Aldor</search>")
    assert play(e.fork(), "<answer>x</answer>").turns[-1].reward == 0.5, "forks need no record"


def test_pickling() -> None:
    reward = Reward.of(SPEC)
    again = pickle.loads(pickle.dumps(reward))
    assert again == reward
    assert again.to_json() == reward.to_json()
    with pytest.raises(CardError, match="cannot be sent to another process: no import path leads"):
        pickle.dumps(Reward.of(lambda outcome: 1.0))


@pytest.mark.parametrize("reward", ["f1", SPEC, own.brevity, own.Thrift(3), [own.correct, "f1"]])
def test_environments_pickle_with_what_has_a_name(reward: Any) -> None:
    env = SearchEnv(**OWN, reward=reward)
    env.reset(options={"task_id": "t1"})
    env.step("<search>Aldor founder</search>")
    twin = pickle.loads(pickle.dumps(env))
    assert twin.rules.reward == env.rules.reward
    for text in ("<search>Mira Venn born</search>", "<answer>Quell</answer>"):
        assert twin.step(text)[1] == env.step(text)[1]


def test_an_environment_with_a_nameless_reward_says_why_it_does_not_pickle() -> None:
    env = SearchEnv(**OWN, reward=lambda outcome: 1.0)
    env.reset(seed=0)
    with pytest.raises(CardError, match="define it with def at the top level of a module"):
        pickle.dumps(env)
    snapshot = env.snapshot()
    assert env.restore(snapshot)[0] == env.episode.observation(), "its own it knows"


def test_a_function_makes_no_second_world() -> None:
    plain = SearchEnv(world={"entities": 60}, tasks={"simple": 4})
    own_env = SearchEnv(world={"entities": 60}, tasks={"simple": 4}, reward=own.brevity)
    assert own_env.corpus is plain.corpus
    assert own_env.engine is plain.engine


def test_trajectories_carry_reward_and_scoring_version(tmp_path: Path) -> None:
    from searchgym.scoring import SCORING_VERSION

    e = play(episode(reward=Reward.of(SPEC)), "<answer>Quell</answer>")
    line = json.loads(json.dumps(Trajectory.of(e).to_json(), allow_nan=False))
    assert line["scoring_version"] == SCORING_VERSION
    back = Trajectory.from_json(line)
    assert back.parts == e.parts
    assert back.replay(reward=SPEC).turns == e.turns
    older = {k: v for k, v in line.items() if k != "scoring_version"}
    assert Trajectory.from_json(older).scoring_version == 1
