"""``Session``: the same bytes and rewards as stepping, whoever drives."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import searchgym as sg
from searchgym.dialects import SearchR1
from searchgym.envs.session import METRICS
from searchgym.errors import CardError, EpisodeError
from searchgym.types import Answer, Call, Failure, Invalid, Query

WORLD: dict[str, Any] = {"world": {"entities": 60}, "tasks": {"simple": 8}, "max_turns": 4}


class Down:
    """An engine that cannot be reached."""

    needs_task = False
    fingerprint = "down"

    def cache_key(self, request: Query) -> None:
        return None

    def run(self, batch: Any) -> list[Failure]:
        return [Failure("unavailable", "down", retryable=False) for _ in batch]


def scripts(count: int) -> list[list[str]]:
    draw = np.random.default_rng(0)
    texts = ["<search>river</search>", "<search>a b</search>", "<answer>x</answer>", "nonsense", "",
             "<search></search>", "<answer>1987"]  # fmt: skip
    return [[texts[i] for i in draw.integers(0, len(texts), 4)] for _ in range(count)]


def test_the_same_bytes_and_rewards_as_stepping():
    env = gym.make("SearchQA-v0", **WORLD)
    tasks = env.unwrapped.tasks
    for number, script in enumerate(scripts(200)):
        task = tasks[number % len(tasks)].id
        text, _ = env.reset(seed=number, options={"task_id": task})
        key = env.unwrapped.episode.config.seed
        session = sg.Session(env, task, key=key)
        assert session.prompt == text
        rewards = 0.0
        for action in script:
            observation, reward, terminated, truncated, _ = env.step(action)
            rewards += reward
            step = session.step(action)
            assert (step.reward, step.done) == (reward, terminated or truncated)
            assert session.prompt == observation
            if step.done:
                break
        assert session.reward == rewards


def test_metrics_have_the_same_keys_however_it_ends():
    env = sg.SearchEnv(**WORLD)
    answered, cut, broken = (
        sg.Session(env),
        sg.Session(env),
        sg.Session(sg.SearchEnv(**WORLD, engine=Down())),
    )
    answered.answer("x")
    while not cut.done:
        cut.step("<search>x</search>")
    broken.step("<search>x</search>")
    assert [tuple(s.metrics) for s in (answered, cut, broken)] == [METRICS] * 3
    names = ("answered", "truncated", "infra_error")
    ends = [[s.metrics[name] for name in names] for s in (answered, cut, broken)]
    assert ends == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert (answered.reward, cut.reward, broken.reward) == (0.0, 0.0, None)


def test_it_pickles_in_the_middle_of_an_episode():
    session = sg.Session(sg.SearchEnv(**WORLD), key=3)
    session.step("<search>river</search>")
    copy = pickle.loads(pickle.dumps(session))
    ends = [s.step("<answer>x</answer>") for s in (session, copy)]
    assert ends[0] == ends[1]
    assert session.prompt == copy.prompt
    assert session.metrics == copy.metrics


def test_nothing_changes_after_the_end():
    session = sg.Session(sg.SearchEnv(**WORLD))
    session.answer("x")
    before = session.snapshot()
    assert session.step("<search>x</search>").done
    assert session.answer("y").done
    assert session.call("search", {"query": "x"}) == ""
    assert session.snapshot() == before


def test_calls_give_results_without_the_dialects_wrapper():
    session = sg.Session(sg.SearchEnv(**WORLD, dialect="json_tools", tools=("search", "access")))
    task = session.episode.config.task
    text = session.call("search", {"query": task.queries[0]})
    assert text.startswith("[1] ")
    assert "tool_response" not in text
    assert session.metrics["evidence_recall"] > 0
    page = session.call("access", {"url": text.splitlines()[0].removeprefix("[1] ")})
    assert len(page) > 20
    assert "unknown tool 'fly'. Known: access, search" in session.call("fly", {})
    session.answer(task.answers[0])
    assert session.reward == 1.0


@pytest.mark.parametrize("dialect", ["search_r1", "plain", "json_tools", "agentgl"])
@pytest.mark.parametrize(
    ("tool", "args", "said"),
    [
        ("search", {"qury": "x"}, "search: the argument 'query' is missing"),
        ("search", {"query": 3}, "search: 'query' must be a text, got 3"),
        ("search", {"query": " "}, "a search needs a query that is not empty"),
        ("fly", {"to": "<search>x</search>"}, "unknown tool 'fly'. Known: search"),
    ],
)
def test_a_models_faulty_call_takes_a_turn_and_is_told(dialect, tool, args, said):
    session = sg.Session(sg.SearchEnv(**WORLD, dialect=dialect))
    assert session.call(tool, args) == said
    assert [type(turn.action) for turn in session.episode.turns] == [Invalid]
    assert session.metrics["searches"] == 0


@pytest.mark.parametrize("dialect", ["search_r1", "plain", "json_tools", "json_tools+native"])
def test_a_call_that_is_refused_is_told_without_the_dialects_wrapper(dialect):
    tools = ("search", "calculator")
    session = sg.Session(sg.SearchEnv(**WORLD, dialect=dialect, tools=tools, max_queries=1))
    missing = session.call("calculator", {"x": "1+1"})
    assert missing == "calculator: the argument 'expression' is missing"
    assert session.call("calculator", {"expression": "1+1"}) == "2"
    assert session.call("search", {"query": "x"}) == "the query budget allows 0 more"
    assert [turn.action.__class__ for turn in session.episode.turns] == [Invalid, Call, Invalid]


def test_what_is_no_action_at_all_is_the_callers_error():
    session = sg.Session(sg.SearchEnv(**WORLD))
    with pytest.raises(TypeError, match="an action is a string, got NoneType"):
        session.step(None)
    with pytest.raises(TypeError, match=r"a mapping, e\.g\. \{'query': 'river'\}, got NoneType"):
        session.call("search", None)
    for answer in (None, 7):
        with pytest.raises(TypeError, match=f"an answer is a string, got .*{answer}"):
            session.answer(answer)
    assert not session.episode.turns


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key": "a"}, "key must be a whole number, got 'a'"),
        ({"key": 1.5}, r"key must be a whole number, got 1\.5"),
        ({"params": "k"}, "params is a table of names and numbers"),
        ({"search_enabled": "no"}, "search_enabled must be true or false, got 'no'"),
        ({"task_id": 0}, "a task is named by its id, a text, got int: 0"),
    ],
)
def test_an_argument_of_another_kind_is_named(arguments, said):
    with pytest.raises(CardError, match=said):
        sg.Session(sg.SearchEnv(**WORLD), **arguments)


@pytest.mark.parametrize("snapshot", [None, "x", []])
def test_what_is_no_snapshot_is_told(snapshot):
    session = sg.Session(sg.SearchEnv(**WORLD))
    with pytest.raises(EpisodeError, match=f"a snapshot is a table.*{type(snapshot).__name__}"):
        session.restore(snapshot)


def test_a_dialect_without_calls_is_named():
    class Mute(SearchR1):
        def __init__(self) -> None:
            super().__init__()
            self.renders = frozenset({Answer})

    session = sg.Session(sg.SearchEnv(**WORLD, dialect=Mute()))
    with pytest.raises(EpisodeError, match=r"cannot say Search.*json_tools"):
        session.call("search", {"query": "x"})


def test_messages_are_instructions_and_question():
    session = sg.Session(sg.SearchEnv(**WORLD))
    system, user = session.messages
    assert (system["role"], user["role"]) == ("system", "user")
    assert session.episode.config.task.question in user["content"]
    assert [tool.name for tool in session.tools] == ["search"]


@pytest.mark.parametrize("prompt", ["Answer in a word. {question} Begin.", "search_r1"])
def test_a_whole_prompt_is_one_message_of_the_users(prompt):
    session = sg.Session(sg.SearchEnv(**WORLD, instructions=prompt))
    (user,) = session.messages
    assert user == {"role": "user", "content": session.prompt.strip()}
    session.step("<search>river</search>")
    assert session.messages == [user]


def test_a_searcher_finds_what_environments_find():
    env = sg.SearchEnv(**WORLD)
    searcher = sg.Searcher(env.corpus)
    queries = [task.queries[0] for task in env.tasks]
    for query, hits in zip(queries, searcher.search(queries, 3), strict=True):
        session = sg.Session(env)
        session.step(f"<search>{query}</search>")
        assert session.episode.turns[0].results[0].hits == hits  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="list of texts"):
        searcher.search("one")
