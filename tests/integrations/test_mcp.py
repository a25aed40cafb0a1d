"""The official MCP client plays episodes."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client

from searchgym.errors import CardError
from searchgym.integrations.mcp import EpisodeServer
from tests.cli.conftest import cli  # noqa: F401
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


def test_arguments_of_reset_that_cannot_be_are_named():
    calls = [("reset", {"seed": "abc"}), ("reset", {"seed": 1.5}), ("reset", {"sed": 1})]
    _, (*told, text) = conversation(EpisodeServer(ENV), *calls, ("reset", {"seed": "7"}))
    assert [one.content[0].text for one in told] == [
        "seed must be a whole number, got 'abc'",
        "seed must be a whole number, got 1.5",
        "unknown argument of reset 'sed'. Did you mean 'seed'? Known: seed, task_id",
    ]
    assert all(one.is_error for one in told)
    assert text.structured_content["done"] is False


def test_instructions_of_ones_own_are_left_out_with_a_warning():
    with pytest.warns(UserWarning, match="own instructions are not used .*: 'Be brief.'; write"):
        EpisodeServer(scene(instructions="Be brief."))


def test_closed_book_episodes_offer_no_tools():
    names, _ = conversation(EpisodeServer(scene(search_enabled=False)), ("reset", {}))
    assert names == ["reset", "answer"]


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


def test_the_command_line_serves_episodes(tmp_path):
    import socket
    import subprocess
    import sys
    import time

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    small = ("-s", "world.entities=60", "-s", 'tasks={"simple": 8}')
    command = [sys.executable, "-m", "searchgym", "serve", "SimpleQA-v0", "--mcp", *small]
    command += ["--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    async def talk():
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            return await client.call_tool("reset", {"task_id": ENV.tasks[0].id})

    try:
        assert process.stdout is not None
        assert "/mcp" in process.stdout.readline()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        assert ENV.tasks[0].question in anyio.run(talk).content[0].text
    finally:
        process.terminate()
        process.wait(20)


def test_options_of_searches_are_refused(cli):  # noqa: F811
    done = cli("serve", "SearchQA-v0", "--mcp", "--max-k", 5)
    assert done.code == 2
    assert "--max-k is about searches" in done.err
