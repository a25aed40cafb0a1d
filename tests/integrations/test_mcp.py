"""The official MCP client plays episodes."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client

from searchgym.errors import CardError
from searchgym.integrations.mcp import EpisodeServer
from tests.integrations.scene import BrokenEngine, scene

ENV = scene(tools=["search", "access"])


def conversation(server, *calls):
    """Names of the tools, and results of calls, which are for the last episode begun."""

    async def talk():
        async with Client(server.server) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            results, episode = [], {}
            for name, args in calls:
                told = args if name == "reset" else {**episode, **args}
                results.append(await client.call_tool(name, told))
                begun = results[-1].structured_content or {}
                episode = {"episode": begun["episode"]} if "episode" in begun else episode
            return names, results

    return anyio.run(talk)


def test_an_episode_is_played():
    server = EpisodeServer(ENV)
    for task in ENV.tasks:
        names, (begun, hits, end, more) = conversation(
            server,
            ("reset", {"task_id": task.id}),
            ("search", {"query": task.question}),
            ("answer", {"answer": task.answers[0]}),
            ("search", {"query": "more"}),
        )
        assert names == ["reset", "search", "access", "answer"]
        assert task.question in begun.content[0].text
        assert hits.content[0].text.startswith("[1]")
        assert hits.structured_content == {"done": False, "turns_left": 3}
        assert end.structured_content["reward"] == 1.0
        assert end.structured_content["metrics"]["searches"] == 1
        assert more.structured_content["done"]


def test_equal_seeds_begin_equal_episodes_and_others_differ():
    calls = [("reset", {"seed": seed}) for seed in (1, 2, 3, 4, 1)]
    _, begun = conversation(EpisodeServer(ENV), *calls)
    tasks = [one.structured_content["task_id"] for one in begun]
    assert tasks[0] == tasks[-1]
    assert len(set(tasks)) > 1


def test_episodes_are_apart():
    first, second = ENV.tasks[:2]
    server = EpisodeServer(ENV)
    begin = [("reset", {"task_id": task.id}) for task in (first, second)]
    _, begun = conversation(server, *begin)
    names = [one.structured_content["episode"] for one in begun]
    _, ends = conversation(
        server,
        ("answer", {"episode": names[0], "answer": first.answers[0]}),
        ("answer", {"episode": names[1], "answer": first.answers[0]}),
    )
    assert [one.structured_content["reward"] for one in ends] == [1.0, 0.0]


def test_mistakes_are_answered():
    _, (unknown, other, nothing) = conversation(
        EpisodeServer(ENV),
        ("reset", {"task_id": "no such task"}),
        ("reset", {"task": "x"}),
        ("search", {"query": "x"}),
    )
    assert unknown.is_error
    assert "no such task" in unknown.content[0].text
    assert other.is_error
    assert nothing.is_error
    assert "call reset" in nothing.content[0].text


def test_a_broken_engine_earns_no_reward():
    _, (_, result) = conversation(
        EpisodeServer(scene(engine=BrokenEngine())), ("reset", {}), ("search", {"query": "x"})
    )
    assert result.structured_content["reward"] is None


def test_rules_that_tools_cannot_follow_are_refused():
    with pytest.raises(CardError, match="delegate"):
        EpisodeServer(scene(delegate=True))
