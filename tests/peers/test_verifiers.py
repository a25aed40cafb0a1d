"""verifiers, unmodified: ``vf-eval`` on a file, with a scripted model behind an OpenAI-compatible
endpoint; run by ``make peers`` in an environment that has it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from searchgym.integrations import searchgym_v1
from tests.integrations.glue import PROGRAMS
from tests.integrations.scene import scene
from tests.integrations.scores import REWARD, expected
from tests.peers.endpoint import server

TASKS = scene().tasks
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def url():
    made = server({task.question: task.answers[0] for task in TASKS})
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}/v1"
    made.shutdown()


def evaluated(folder, url, rollouts=2, engine="bm25", reward="em"):
    """The episodes' records of ``vf-eval @ searchgym.toml``."""
    shutil.copy(searchgym_v1.__file__, folder)  # where the wheel puts it: beside searchgym
    path = folder / "searchgym.toml"
    path.write_text(
        f"""
model = "scripted"
num_rollouts = {rollouts}
push = false
output_dir = "{folder}"
[client]
base_url = "{url}"
api_key_var = "OPENAI_API_KEY"
[env.taskset]
id = "searchgym-v1"
env = "searchgym/SimpleQA-v0"
[env.taskset.options]
world = {{entities=60}}
tasks = {{simple=8}}
max_turns = 4
engine = "{engine}"
reward = "{reward}"
"""
    )
    told = {**os.environ, "OPENAI_API_KEY": "x", "PYTHONPATH": f"{ROOT}:{folder}"}
    command = [str(Path(sys.executable).parent / "vf-eval"), "@", str(path)]
    done = subprocess.run(command, env=told, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (traces,) = folder.glob("*/traces.jsonl")
    return traces, [json.loads(line) for line in traces.read_text().splitlines()]


def test_every_rollout_earns_its_reward(tmp_path, url):
    traces, episodes = evaluated(tmp_path, url)
    text = traces.read_text()
    assert len(episodes) == 16
    rewards = [e["traces"][0]["rewards"]["reward"]["score"] for e in episodes]
    assert rewards == [1.0] * 16
    assert {e["task"]["data"]["id"] for e in episodes} == {t.id for t in TASKS}
    assert all(e["traces"][0]["metrics"]["searches"] == 1.0 for e in episodes)
    assert "answers" not in text


def test_a_reward_of_ones_own_is_the_same_float(tmp_path, url):
    """The endpoint's model searches the question once, as the oracle searches its query."""
    _, episodes = evaluated(tmp_path, url, 1, reward=REWARD)
    found = {
        e["task"]["data"]["id"]: e["traces"][0]["rewards"]["reward"]["score"] for e in episodes
    }
    assert found == expected("oracle")


def test_a_broken_engine_is_an_error_without_reward(tmp_path, url):
    _, episodes = evaluated(tmp_path, url, 1, "tests.integrations.scene:BrokenEngine")
    assert not any(e["ok"] for e in episodes)
    assert all("reward" not in t["rewards"] for e in episodes for t in e["traces"])


def test_the_documented_file_is_read():
    """vf-eval's own settings, from the file as it stands."""
    import tomllib

    told = tomllib.loads(PROGRAMS["searchgym.toml"])["env"]["taskset"]
    config = searchgym_v1.SearchGymTasksetConfig(**told)
    assert len(list(searchgym_v1.SearchGymTaskset(config).load())) == 8


def test_the_viewer_reads_the_traces(tmp_path, url):
    traces, _ = evaluated(tmp_path, url, 1)
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "searchgym", "view", str(traces), "--export", str(page)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True, timeout=120)
    assert TASKS[0].question in page.read_text()


def test_64_rollouts_take_at_most_30_cpu_seconds(tmp_path, url):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, episodes = evaluated(tmp_path, url, 8)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(episodes) == 64
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"64 rollouts: {seconds:.1f} CPU seconds")
    assert seconds <= 30
