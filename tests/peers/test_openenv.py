"""OpenEnv, unmodified, over the wire; run by ``make peers`` in an environment that has it."""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import uvicorn
from openenv.core import GenericEnvClient
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from searchgym.integrations import openenv
from searchgym.integrations.openenv import SearchAction, SearchClient
from tests.integrations.glue import ROOT, run
from tests.integrations.scene import BrokenEngine, scene
from tests.integrations.scores import AGENTS, REWARD, expected, texts

ENV = scene()


class Nothing(Action):
    text: str


class Empty(Environment):
    """The least an OpenEnv environment can do."""

    def reset(self, seed=None, episode_id=None, **_):
        return Observation(done=False)

    def step(self, action, timeout_s=None, **_):
        return Observation(done=False, reward=0.0)

    @property
    def state(self):
        return State()


def served(env):
    return serving(openenv.app(env))


def serving(app):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(app, port=port, log_level="warning")
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.02)
    return server, f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def url():
    server, url = served(ENV)
    yield url
    server.should_exit = True


def client(url):
    return SearchClient(base_url=url).sync()


def oracle(env, task):
    result = env.step(SearchAction(text=f"<search>{task.question}</search>"))
    assert not result.done
    return env.step(SearchAction(text=f"<answer>{task.answers[0]}</answer>"))


def test_a_typed_client_plays(url):
    with client(url) as env:
        for place, task in enumerate(ENV.tasks):
            for options in ({"task_id": task.id}, {"split": "train", "index": place}):
                info = env.reset(**options).observation.info
                assert ENV.task(info["task_id"]).id == task.id
            last = oracle(env, task)
            assert (last.reward, last.done) == (1.0, True)
            assert last.observation.terminated
            again = env.step(SearchAction(text="more"))
            assert again.done
            assert again.observation.text == last.observation.text


def test_equal_seeds_begin_equal_episodes(url):
    with client(url) as env:
        texts = [env.reset(seed=seed).observation.text for seed in (3, 4, 5, 6, 3)]
        assert texts[0] == texts[-1]
        assert len(set(texts)) > 1
        state = env.state()
        assert state.step_count == 0
        assert state.turns_left == 4


def test_sessions_without_seeds_begin_other_episodes(url):
    begun = []
    for _ in range(2):
        with client(url) as env:
            begun.append([env.reset().observation.text for _ in range(4)])
    assert begun[0] != begun[1]
    assert len({text for one in begun for text in one}) > 1


def test_no_answer_is_told_before_the_end(url):
    with client(url) as env:
        for task in ENV.tasks:
            told = env.reset(task_id=task.id).observation
            first = env.step(SearchAction(text="<search>zzz</search>")).observation
            for seen in (told, first):
                assert "outcome" not in seen.info
                assert task.answers[0] not in seen.model_dump_json()


def test_the_generic_client_plays(url):
    with GenericEnvClient(base_url=url).sync() as env:
        env.reset(task_id=ENV.tasks[0].id)
        result = env.step({"text": f"<answer>{ENV.tasks[0].answers[0]}</answer>"})
        assert result.reward == 1.0
        assert result.done


def test_tasks_are_listed_without_answers(url):
    splits = httpx.get(f"{url}/searchgym/splits").json()
    assert {split["name"] for split in splits} == {"train", "dev", "test"}


def test_eight_clients_at_once(url):
    def session(seed):
        with client(url) as env:
            total = 0.0
            for place in range(60):
                task = ENV.tasks[(seed + place) % len(ENV.tasks)]
                env.reset(task_id=task.id)
                total += oracle(env, task).reward
            return total

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(session, range(8))) == [60.0] * 8


@pytest.mark.parametrize("agent", AGENTS)
def test_a_reward_of_ones_own_is_the_same_float_over_the_wire(agent):
    server, url = served(scene(reward=REWARD))
    found = {}
    with client(url) as env:
        for task in ENV.tasks:
            env.reset(task_id=task.id)
            steps = [env.step(SearchAction(text=text)) for text in texts(agent, task)]
            assert steps[-1].done
            found[task.id] = sum(step.reward for step in steps)
    server.should_exit = True
    assert found == expected(agent)


def test_calls_cost_little_more_than_an_empty_environments():
    """At least 0.7 × the calls a CPU second, server and client together: the median over pairs of
    episodes, one after the other, which other programs' load meets alike.

    The clock on the wall is printed, not tested: it counts those programs, too, and the waits of
    the empty environment's threads, which an adapter that answers at once does not have.
    """
    bare = create_app(Empty, Nothing, Observation, env_name="empty")
    servers = [served(ENV), serving(bare)]
    task = ENV.tasks[0]
    said = texts("hesitant", task)
    clients = [GenericEnvClient(base_url=url).sync() for _, url in servers]
    cpu, wall = [[], []], [[], []]
    for env in clients:
        env.__enter__()
    for _ in range(300):
        for env, seconds, passed in zip(clients, cpu, wall, strict=True):
            start, began = time.process_time(), time.perf_counter()
            env.reset(task_id=task.id)
            for text in said:
                env.step({"text": text})
            seconds.append((time.process_time() - start) / (1 + len(said)))
            passed.append((time.perf_counter() - began) / (1 + len(said)))
    for env, (server, _) in zip(clients, servers, strict=True):
        env.__exit__(None, None, None)
        server.should_exit = True
    for what, measured in (("second", wall), ("CPU second", cpu)):
        ours, empty = (kept[20:] for kept in measured)
        ratio = statistics.median(e / o for o, e in zip(ours, empty, strict=True))
        rates = [1 / statistics.median(kept) for kept in (ours, empty)]
        print(f"calls a {what}: {rates[0]:.0f}, empty environment {rates[1]:.0f}: {ratio:.2f} x")
    assert ratio >= 0.7


class Noting(openenv.OpenEnvEnvironment):
    """Knows the thread of its last step."""

    def step(self, action, timeout_s=None, **_):
        self.thread = threading.get_ident()
        return super().step(action)


@pytest.mark.parametrize(
    ("options", "split", "at_once"),
    [
        ({}, "train", True),
        ({}, "dev", False),  # whose engine was not timed
        ({"reward": REWARD}, "train", False),
        ({"engine": BrokenEngine()}, "train", False),
    ],
)
def test_only_what_takes_microseconds_keeps_other_sessions_waiting(options, split, at_once):
    env = scene(**options)
    session = Noting(env, seconds=openenv.seconds_per_query(env))
    asyncio.run(session.reset_async(seed=0, split=split))
    asyncio.run(session.step_async(SearchAction(text="<search>x</search>")))
    assert (session.thread == threading.get_ident()) is at_once


def test_a_broken_engine_earns_no_reward():
    server, url = served(scene(engine=BrokenEngine()))
    with client(url) as env:
        env.reset(seed=0)
        result = env.step(SearchAction(text="<search>x</search>"))
        assert result.done
        assert result.reward is None
        assert result.observation.truncated
    server.should_exit = True


def test_the_command_line_serves_episodes(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    small = ("-s", "world.entities=60", "-s", 'tasks={"simple": 8}')
    command = [sys.executable, "-m", "searchgym", "serve", "SimpleQA-v0", "--openenv", *small]
    process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True)
    try:
        assert "serving episodes" in process.stdout.readline()
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        address = f"http://127.0.0.1:{port}"
        with client(address) as env:
            info = env.reset(task_id=ENV.tasks[0].id).observation.info
            assert ENV.task(info["task_id"]).id == ENV.tasks[0].id
        reset = f"{address}/reset"
        assert (
            httpx.post(reset, json={"seed": 1}, headers={"host": "evil.example"}).status_code == 421
        )
        for origin in ("http://evil.example", "null"):  # any page that the user visits
            assert httpx.post(reset, json={}, headers={"origin": origin}).status_code == 403
            with pytest.raises(InvalidStatus, match="403"):
                connect(f"ws://127.0.0.1:{port}/ws", origin=origin)
        for wrong in (
            '{"seed": 1e400}', '{"task_id": "x"}', '{"split": "x"}', '{"index": -1}',
            '{"index": 1.5}', '{"index": "0"}', '{"split": "x", "index": 0}',
            '{"difficulty": {"hops": 1e308}}', '{"difficulty": 7}',
        ):  # fmt: skip
            assert httpx.post(reset, content=wrong).status_code == 422, wrong
        assert httpx.post(reset, content="[" * 50_000).status_code in (400, 422)
        assert httpx.post(reset, content=" " * (2 << 20)).status_code == 413
        step = {"action": {"text": "<answer>x</answer>"}}
        assert httpx.post(f"{address}/step", json=step).status_code == 422
    finally:
        process.terminate()
    assert process.wait(20) == 0


def test_the_documented_program_runs(url, tmp_path):
    assert run("openenv_client.py", tmp_path, URL=url).splitlines()[-1] == "0.0"


def validated(*arguments):
    command = [str(Path(sys.executable).parent / "openenv"), "validate", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_openenvs_own_check_passes(url):
    """Of the running server, and of the package for its container, but for the image's build."""
    assert "Verdict: PASS" in validated("--url", url)
    package = ROOT / "searchgym" / "integrations" / "openenv_package"
    assert "FAIL" not in validated(str(package), "--level", "static", "--skip-build")
