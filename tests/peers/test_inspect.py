"""Inspect, unmodified but for one download, evaluates a scripted model; run by ``make peers`` in an
environment that has it."""

from __future__ import annotations

import inspect_ai
import pytest
from inspect_ai.model import ModelOutput, get_model

from searchgym.envs import METRICS
from searchgym.integrations import inspect
from tests.integrations.glue import PROGRAMS
from tests.integrations.scene import BrokenEngine, scene
from tests.integrations.scores import AGENTS, REWARD, expected, texts

ENV = scene(reward=REWARD)


@pytest.fixture(autouse=True)
def no_download(monkeypatch):
    """Inspect counts tokens with a vocabulary that it fetches; words do here."""
    import tiktoken

    class Words:
        def encode(self, text, **_):
            return text.split()

    for name in ("get_encoding", "encoding_for_model"):
        monkeypatch.setattr(tiktoken, name, lambda *_, **__: Words())


def evaluated(env, agent, folder, **options):
    def said(messages, *_):
        question = next(str(m.text) for m in messages if m.role == "user")
        task = next(t for t in ENV.tasks if t.question in question)
        turn = sum(m.role == "assistant" for m in messages)
        return ModelOutput.from_content("scripted", texts(agent, task)[turn])

    (log,) = inspect_ai.eval(
        inspect.search_task(env),
        model=get_model("mockllm/model", custom_outputs=said, memoize=False),
        log_dir=str(folder), display="none", **options,
    )  # fmt: skip
    return log


@pytest.mark.parametrize("agent", AGENTS)
def test_a_reward_of_ones_own_is_the_same_float(agent, tmp_path):
    log = evaluated(ENV, agent, tmp_path)
    assert log.status == "success"
    scores = {s.id: s.scores["episode_return"].value for s in log.samples}
    assert {task: score["return"] for task, score in scores.items()} == expected(agent)
    assert all(set(score) == {"return", *METRICS} for score in scores.values())
    wanted = sum(expected(agent).values()) / len(ENV.tasks)
    found = {s.name: s.metrics["mean"].value for s in log.results.scores}
    assert found["return"] == pytest.approx(wanted)


def test_a_broken_engine_is_an_error_without_a_score(tmp_path):
    log = evaluated(scene(engine=BrokenEngine()), "oracle", tmp_path, fail_on_error=False)
    assert len(log.samples) == len(ENV.tasks)
    for sample in log.samples:
        assert "engine failed" in sample.error.message
        assert not sample.scores


def test_the_documented_program_makes_a_task():
    space = {}
    exec(PROGRAMS["searchgym_task.py"], space)
    assert len(space["search_qa"]().dataset) == 8
