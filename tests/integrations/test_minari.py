"""Minari, unmodified: collected and exported episodes come back as they were."""

from __future__ import annotations

import gymnasium as gym
import minari
import pytest

from searchgym.core import Trajectory, write_jsonl
from searchgym.integrations import minari as bridge
from tests.cli.conftest import cli  # noqa: F401
from tests.integrations.scene import SCENE, scene


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def text(value):
    return value if isinstance(value, str) else str(value, "utf-8")


def test_collected_episodes_come_back(tmp_path):
    bridge.register()
    made = gym.make("searchgym/SimpleQA-v0", **SCENE)
    env = minari.DataCollector(made, record_infos=False)
    seen, said = [], ["<search>é日本</search>", "<answer>Ångström</answer>"]
    for seed in range(3):
        seen.append(env.reset(seed=seed)[0])
        for action in said:
            seen.append(env.step(action)[0])
    env.create_dataset("searchgym/simple/test-v0")
    again = minari.load_dataset("searchgym/simple/test-v0")
    assert again.observation_space == made.observation_space
    assert again.action_space == made.action_space
    episodes = list(again.iterate_episodes())
    assert [text(one) for e in episodes for one in e.observations] == seen
    assert [text(one) for e in episodes for one in e.actions] == said * 3
    assert "é日本" in seen[1]


def played(count=4):
    env = scene()
    for key in range(count):
        episode = env.start(key, task=env.tasks[key])
        episode.act(f"<answer>{episode.config.task.answers[0]}</answer>")
        yield episode


def test_saved_trajectories_are_exported(tmp_path, cli):  # noqa: F811
    episodes = list(played())
    path = tmp_path / "played.jsonl"
    write_jsonl(path, [Trajectory.of(e) for e in episodes])
    done = cli("export", path, "--to", "minari", "--out", "searchgym/simple/oracle-v0")
    assert done.code == 0, done.err
    assert "4 episodes" in done.err + done.out
    dataset = minari.load_dataset("searchgym/simple/oracle-v0")
    assert dataset.total_episodes == 4
    for ours, theirs in zip(episodes, dataset.iterate_episodes(), strict=True):
        assert text(theirs.observations[-1]) == ours.shown()
        assert theirs.rewards.tolist() == [turn.reward for turn in ours.turns]
        assert theirs.terminations.tolist() == [True]
