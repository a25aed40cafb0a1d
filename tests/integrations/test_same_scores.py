"""One reward function and two scripted agents: equal floats through gym.make, our own trainer, and
TRL by both of its doors; equal hits in every retriever. The frameworks with pins of their own are
held against the same floats in ``tests/peers``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import gymnasium as gym
import pytest
from mcp import Client

from searchgym.core import run_episodes
from searchgym.engines import Searcher
from searchgym.envs import Session
from searchgym.integrations import retrievers
from searchgym.integrations import trl as bridge
from searchgym.integrations.common import Host
from searchgym.integrations.mcp import EpisodeServer
from searchgym.rl import minimal
from searchgym.types import Search
from tests.integrations.scene import SCENE, scene
from tests.integrations.scores import AGENTS, REWARD, expected, script, texts
from tests.integrations.trl_runs import GROUP, call, rolled, trained

ENV = scene(reward=REWARD)
PAIR = 2
"""Members of a group that all say the same."""


@pytest.mark.parametrize("agent", AGENTS)
def test_episodes_and_sessions(agent: str) -> None:
    """What our trainer and evaluation play, and what other loops drive."""
    wanted = expected(agent)

    class Scripted:
        def act(self, requests: Any) -> list[str]:
            return [texts(agent, ENV.task(by_id[r.episode_id]))[r.turn] for r in requests]

    episodes = [ENV.start(i, task=task) for i, task in enumerate(ENV.tasks)]
    by_id = {e.config.episode_id: e.config.task.id for e in episodes}
    run_episodes(episodes, Scripted(), ENV.toolbox)
    assert {e.config.task.id: minimal.total(e) for e in episodes} == wanted
    for task in ENV.tasks:
        session = Session(ENV, task.id)
        for text in texts(agent, task):
            session.step(text)
        assert session.reward == wanted[task.id]


def test_a_host_begins_a_task_by_itself_and_once_for_each_seed_and_path() -> None:
    """A data set asks for the first messages alone, a loop for luck of its own."""
    host, task = Host(ENV), ENV.tasks[0].id
    seeds = [
        host.session(task, *path).episode.config.seed for path in ((), (0,), (1,), (0, "epoch", 1))
    ]
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 3


@pytest.mark.parametrize("agent", AGENTS)
def test_trl_calling_tools(agent: str, tmp_path: Path) -> None:
    """A real step of TRL's trainer, in which all tasks are played."""
    wanted, rewarded = expected(agent), []

    def said(self: Any, member: int, turn: int) -> str:
        env = self.environments[member]
        task = env.session.episode.config.task
        action = script(agent, task)[len(env.session.episode.turns)]
        text = call(action.queries[0]) if isinstance(action, Search) else f"{action.text}<|im_end|>"
        return text

    def reward(completions: Any, completion_ids: Any, environments: Any, **more: Any) -> Any:
        got = bridge.reward(completions, completion_ids, environments, **more)
        rewarded.extend(
            (e.session.episode.config.task.id, r) for e, r in zip(environments, got, strict=True)
        )
        return got

    trained(
        tmp_path, ENV, said, reward, max_steps=1, num_generations=PAIR,
        per_device_train_batch_size=len(ENV.tasks) * PAIR,
    )  # fmt: skip
    assert len(rewarded) == len(ENV.tasks) * PAIR
    assert dict(rewarded) == wanted
    assert all(reward == wanted[task] for task, reward in rewarded)


def test_trl_rolling_out(tmp_path: Path) -> None:
    """What TRL trained on, said again in ``gym.make``, earns what TRL was told."""
    ended: list[Any] = []
    env = scene(reward=REWARD, max_turns=3)
    env.on_end = (ended.append,)
    _, _, played = rolled(tmp_path, env, max_steps=1)
    told = played[0]["searchgym_return"]
    made = gym.make("SearchQA-v0", **{**SCENE, "max_turns": 3}, reward=REWARD)
    again = {}
    for episode in ended:
        made.reset(options={"task_id": episode.config.task.id})
        rewards = [float(made.step(turn.text)[1]) for turn in episode.turns]
        again[episode.config.episode_id] = sum(rewards)
    assert sorted(again.values()) == sorted(told)
    assert len(told) == 2 * GROUP


@pytest.mark.parametrize("agent", AGENTS)
def test_mcp(agent: str) -> None:
    wanted = expected(agent)

    async def talk() -> dict[str, float]:
        found = {}
        async with Client(EpisodeServer(ENV).server) as client:
            for task in ENV.tasks:
                begun = await client.call_tool("reset", {"task_id": task.id})
                told = {"episode": begun.structured_content["episode"]}
                for action in script(agent, task):
                    name, arguments = (
                        ("search", {"query": action.queries[0]})
                        if isinstance(action, Search)
                        else ("answer", {"answer": action.text})
                    )
                    last = await client.call_tool(name, {**told, **arguments})
                found[task.id] = last.structured_content["reward"]
        return found

    assert anyio.run(talk) == wanted


def test_retrievers_give_equal_hits() -> None:
    import pandas

    searcher = Searcher(ENV.corpus, ENV.engine)
    questions = [task.question for task in ENV.tasks]
    ours = [[hit.passage.id for hit in hits] for hits in searcher.search(questions, 5)]
    chain = retrievers.langchain(searcher, 5)
    assert [[d.metadata["id"] for d in chain.invoke(q)] for q in questions] == ours
    table = retrievers.pyterrier(searcher, 5).transform(
        pandas.DataFrame({"qid": [str(i) for i in range(len(questions))], "query": questions})
    )
    theirs = [table[table.qid == str(i)].docno.tolist() for i in range(len(questions))]
    assert theirs == ours


# --- several processes ----------------------------------------------------------------------------
def rank(folder: str) -> None:
    """Two steps of TRL's trainer in this process; what it was trained on, as JSON."""
    import os

    env = scene(reward=REWARD)
    share = GROUP * 2 // int(os.environ.get("WORLD_SIZE", "1"))
    trainer, _, played = rolled(
        Path(folder) / "run", env, max_steps=2, learning_rate=0.0,
        per_device_train_batch_size=share,
    )  # fmt: skip
    place = trainer.accelerator.process_index
    rows = [
        {name: rows[name] for name in ("completion_ids", "env_mask", "searchgym_return")}
        for rows in played
    ]
    (Path(folder) / f"{place}.json").write_text(json.dumps(rows))


@pytest.mark.slow
def test_two_processes_play_what_one_plays(tmp_path: Path) -> None:
    """TRL's trainer on Accelerate, two CPU processes: rewards, tokens and masks.

    torchrun starts them: ``accelerate launch`` starts several on processors through MPI alone.
    """
    import os
    import subprocess

    found = {}
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        subprocess.run(
            [
                sys.executable, "-m", "torch.distributed.run", "--standalone",
                "--nproc-per-node", str(count), "-m", "tests.integrations.test_same_scores",
                str(folder),
            ],
            cwd=Path(__file__).parents[2], check=True, timeout=500,
            env={**os.environ, "ACCELERATE_USE_CPU": "true", "ACCELERATE_MIXED_PRECISION": "no"},
        )  # fmt: skip
        parts = [json.loads((folder / f"{i}.json").read_text()) for i in range(count)]
        found[count] = [
            {name: [row for part in parts for row in part[step][name]] for name in parts[0][step]}
            for step in range(len(parts[0]))
        ]
    assert found[1] == found[2]
    assert len(found[1][0]["searchgym_return"]) == 2 * GROUP


if __name__ == "__main__":
    rank(sys.argv[1])
