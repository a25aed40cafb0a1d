"""skyrl-gym, unmodified; run by ``make peers`` in an environment that has it."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import skyrl_gym

from searchgym.core import run_tools
from searchgym.envs import METRICS
from searchgym.errors import CardError, EpisodeError
from searchgym.integrations import skyrl
from tests.integrations.glue import run
from tests.integrations.scene import BrokenEngine, scene
from tests.integrations.scores import AGENTS, REWARD, expected, texts

ENV = scene()
ROWS = skyrl.rows(ENV, "searchgym")
skyrl.register("searchgym", ENV)


def make(row, name="searchgym"):
    return skyrl_gym.make(name, env_config=None, extras={"max_turns": 4, **row})


def play(row, answer=None):
    env = make(row)
    chat, _ = env.init(row["prompt"])
    assert chat[-1]["role"] == "user"
    task = ENV.task(row["task_id"])
    first = env.step(f"<search>{task.question}</search>")
    assert not first["done"]
    assert first["observations"][0]["content"].count("<information>") == 1
    last = env.step(f"<answer>{answer or task.answers[0]}</answer>")
    assert last["done"]
    assert last["observations"] == []
    assert first["postprocessed_action"] is last["postprocessed_action"] is None
    return first["reward"] + last["reward"], env.get_metrics()


def test_sixteen_threads_play_the_oracle():
    jobs = [ROWS[i % len(ROWS)] for i in range(400)]
    with ThreadPoolExecutor(16) as pool:
        played = list(pool.map(play, jobs))
    assert {reward for reward, _ in played} == {1.0}
    assert all(tuple(metrics) == METRICS for _, metrics in played)
    assert play(ROWS[0], "nothing of the kind")[0] == 0.0


@pytest.mark.parametrize("agent", AGENTS)
def test_a_reward_of_ones_own_is_the_same_float(agent):
    skyrl.register(f"paid-{agent}", scene(reward=REWARD))
    found = {}
    for row in ROWS:
        env = make(row, f"paid-{agent}")
        env.init(row["prompt"])
        steps = [env.step(text) for text in texts(agent, ENV.task(row["task_id"]))]
        assert steps[-1]["done"]
        found[row["task_id"]] = sum(step["reward"] for step in steps)
    assert found == expected(agent)


def test_steps_cost_little_more_than_the_episode_loop():
    """At least 0.7 × the steps a second of the bare loop, in processor time of one run."""
    scripts = [(row, texts("hesitant", ENV.task(row["task_id"]))) for row in ROWS] * 20

    def bare():
        for number, (row, said) in enumerate(scripts):
            episode = ENV.start(number, task=ENV.task(row["task_id"]))
            episode.requests()
            for text in said:
                episode.act(text)
                run_tools((episode,), ENV.toolbox)
                if episode.phase != "done":
                    episode.requests()

    def gym():
        for row, said in scripts:
            env = skyrl_gym.make("searchgym", env_config=None, extras=row)
            env.init(row["prompt"])
            for text in said:
                env.step(text)

    times = {bare: [], gym: []}
    for _ in range(7):
        for plays, kept in times.items():
            start = time.process_time()
            plays()
            kept.append(time.process_time() - start)
    base, ours = (statistics.median(kept) for kept in times.values())
    steps = 3 * len(scripts)
    print(f"steps/CPU s: bare loop {steps / base:.0f}, skyrl-gym {steps / ours:.0f}")
    assert base / ours >= 0.7


def test_another_number_of_turns_is_refused():
    with pytest.raises(CardError, match=r"generator\.max_turns=4"):
        make({**ROWS[0], "max_turns": 7})


def test_a_broken_engine_earns_no_reward():
    skyrl.register("broken", scene(engine=BrokenEngine()))
    env = make(ROWS[0], "broken")
    env.init(ROWS[0]["prompt"])
    with pytest.raises(EpisodeError, match="engine failed"):
        env.step("<search>x</search>")


def test_the_documented_program_runs(tmp_path):
    assert run("skyrl_env.py", tmp_path).split() == ["0.0", "True"]
