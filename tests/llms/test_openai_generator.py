"""The client of OpenAI-compatible servers: what it says of them is true, and it never waits for
ever."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from searchgym.errors import EngineError
from searchgym.llms.base import Completion, Generator, GenRequest, Message, Sampling
from searchgym.llms.openai_generator import OpenAIGenerator
from searchgym.llms.registry import Cached
from searchgym.types import Failure
from tests.llms.checks import done, largest_gap
from tests.llms.server import Server, free_port, running

Maker = Callable[..., tuple[OpenAIGenerator, Server]]
CHAT = (Message("user", "Who is the mayor of Tarsis?"),)


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[str], tuple[Server, str]]]:
    """One running server per kind, shared by the module."""
    with ExitStack() as stack:
        made: dict[str, tuple[Server, str]] = {}

        def get(kind: str) -> tuple[Server, str]:
            if kind not in made:
                server = Server(kind)
                made[kind] = (server, stack.enter_context(running(server)))
            return made[kind]

        yield get


@pytest.fixture(scope="module")
def probed() -> dict[Server, Any]:
    """What clients have found out about the running servers, and in how many requests."""
    return {}


@pytest.fixture
def connect(
    servers: Callable[[str], tuple[Server, str]], probed: dict[Server, Any]
) -> Iterator[Maker]:
    """A client of a kind of server, with the server's records empty. The first of a kind probes,
    and the others know what it has found."""
    clients: list[OpenAIGenerator] = []

    def get(kind: str = "full", **options: Any) -> tuple[OpenAIGenerator, Server]:
        server, url = servers(kind)
        client = OpenAIGenerator(url, **{"backoff_s": 0.01, **options})
        clients.append(client)
        if server in probed:
            client._model, client._facts, _ = probed[server]
        else:
            before = len(server.bodies)
            found = client.model, client.facts
            probed[server] = *found, len(server.bodies) - before
        assert client.capabilities <= frozenset({"ids", "logp", "score", "seed", "chat"})
        end = time.monotonic() + 20
        while server.at_once:  # what an earlier client has given up, the server still answers
            assert time.monotonic() < end
            time.sleep(0.01)
        server.bodies.clear()
        server.keys.clear()
        server.times.clear()
        server.faults.clear()
        server.delay, server.most_at_once = 0.0, 0
        return client, server

    yield get
    for client in clients:
        client.close()


# --- what servers can do --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "capabilities", "samples", "top_k", "stop"),
    [
        ("full", {"ids", "logp", "score", "seed", "chat"}, True, True, "keep_flag"),
        ("tempered", {"ids", "score", "seed", "chat"}, True, True, "keep_flag"),
        ("hosted", {"logp", "chat"}, True, False, "unusable"),
        ("bare", {"chat"}, False, False, "kept"),
        ("chat", {"chat"}, True, False, "unusable"),
    ],
)
def test_capabilities_are_found_out(
    connect: Maker, kind: str, capabilities: set[str], samples: bool, top_k: bool, stop: str
) -> None:
    client, _ = connect(kind)
    found = set(client.capabilities) - ({"logp"} if kind == "chat" else set())
    assert found == capabilities
    facts = client.facts["chat"]
    assert facts is not None
    assert (facts.samples, facts.top_k, facts.stop) == (samples, top_k, stop)
    assert isinstance(client, Generator)


def test_missing_capabilities_are_errors(connect: Maker) -> None:
    bare, _ = connect("bare")
    for needs in ("logp", "ids", "score", "seed", "entropy"):
        with pytest.raises(EngineError, match=f"lacks {needs}"):
            bare.run([GenRequest("x", Sampling(2, 0.0), needs=frozenset({needs}))])
    with pytest.raises(EngineError, match="ignores temperature"):
        bare.run([GenRequest("x", Sampling(2, 1.0))])
    with pytest.raises(EngineError, match="lacks ids"):
        bare.score([((1, 2), (3,))])
    with pytest.raises(EngineError, match="lacks ids"):
        bare.run([GenRequest((1, 2), Sampling(2, 0.0))])
    hosted, _ = connect("hosted")
    with pytest.raises(EngineError, match="ignores top_k"):
        hosted.run([GenRequest("x", Sampling(2, top_k=3))])
    chat, _ = connect("chat")
    with pytest.raises(EngineError, match="has no /completions"):
        chat.run([GenRequest("x")])


def test_a_server_that_is_none() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    client = OpenAIGenerator(url, "m", tries=2, backoff_s=0.01)
    (answer,) = client.run([GenRequest("x")])
    assert isinstance(answer, Failure)
    assert answer.kind == "unavailable"
    assert answer.retryable
    assert "(2 tries)" in answer.message
    with pytest.raises(EngineError, match="cannot find out"):
        _ = client.capabilities
    with pytest.raises(EngineError, match="base_url is like"):
        OpenAIGenerator("localhost:8000")
    for option in ("tries", "max_bytes"):
        with pytest.raises(EngineError, match=option):
            OpenAIGenerator(url, **{option: 0})


def test_an_address_without_endpoints(servers: Any, connect: Maker) -> None:
    connect()
    _, url = servers("full")
    with pytest.raises(EngineError, match=r"neither /completions nor .* ends in /v1"):
        _ = OpenAIGenerator(url.removesuffix("/v1"), "tiny").capabilities
    with pytest.raises(EngineError, match="refused a plain request"):
        _ = OpenAIGenerator(url, "no-such-model").capabilities


# --- what comes back ------------------------------------------------------------------------------
def test_all_of_a_full_server(connect: Maker) -> None:
    client, server = connect()
    model = server.generator
    assert client.model == "tiny"
    batch = [
        GenRequest(p, Sampling(12, heat, top_k=k), key=i)
        for i, (p, heat, k) in enumerate(
            [("The capital", 1.0, 0), ((5, 9, 40), 0.7, 20), (CHAT, 1.0, 0), ("née", 0.0, 0)]
        )
    ]
    for a, b in zip(done(client.run(batch)), done(model.run(batch)), strict=True):
        assert (a.text, a.ids, a.finish) == (b.text, b.ids, b.finish)
        np.testing.assert_allclose(a.logp, b.logp, atol=1e-4)
        if a.ends is not None:
            assert a.ends[-1] == len(a.text)
            assert list(a.ends) == sorted(a.ends)
            assert "�" in a.text or a.ends == b.ends  # who wrote which half is told otherwise
        assert a.entropy is None
    ids = [GenRequest((5, 9, 40 + i), Sampling(12, 0.9), key=i) for i in range(8)]
    assert largest_gap(client, client, ids) < 1e-4
    assert largest_gap(client, model, ids) < 1e-4
    assert client.score([((5,), ())])[0].tolist() == []  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["full", "hosted", "bare", "chat"])
def test_stop_strings_are_kept(connect: Maker, kind: str) -> None:
    """Whatever a server does with them, the text ends right after the first."""
    client, server = connect(kind)
    prompt: Any = CHAT if kind == "chat" else "The capital"
    (free,) = done(server.generator.run([GenRequest(prompt, Sampling(30, 0.0))]))
    hits = 0
    for at in range(3, 12):
        stop = free.text[at : at + 2]
        if "�" in stop:
            continue
        hits += 1
        (got,) = done(client.run([GenRequest(prompt, Sampling(30, 0.0, stop=(stop, "never")))]))
        want = server.generator.run([GenRequest(prompt, Sampling(30, 0.0, stop=(stop, "never")))])
        (same,) = done(want)
        assert (got.text, got.finish) == (same.text, "stop")
        if got.ids is not None:
            assert got.ids == same.ids
        if got.logp is not None:
            np.testing.assert_allclose(got.logp, same.logp, atol=1e-4)
    assert hits > 3


def test_how_texts_end(connect: Maker) -> None:
    client, _ = connect()
    (cut,) = done(client.run([GenRequest("The", Sampling(3, 0.0))]))
    assert (cut.finish, len(cut.ids or ())) == ("length", 3)
    for length in (505, 600):  # cut silently by the server, and refused by it
        (long,) = client.run([GenRequest((5,) * length, Sampling(20, 0.0))])
        assert isinstance(long, Failure)
        assert (long.kind, long.retryable) == ("rejected", False)


def test_seeds(connect: Maker) -> None:
    client, _ = connect()
    batch = [GenRequest("The capital", Sampling(12), key=2**62 + k) for k in range(4)]
    first = [c.text for c in done(client.run(batch))]
    assert [c.text for c in done(client.run(batch))] == first
    assert len(set(first)) > 1
    assert client.cache_key(batch[0]) is not None
    hosted, _ = connect("hosted")
    assert hosted.cache_key(batch[0]) is None, "its texts may differ each time"


def test_a_cache_makes_any_server_repeatable(connect: Maker, tmp_path: Any) -> None:
    client, server = connect("hosted")
    cached = Cached(client, tmp_path / "c.sqlite")
    batch = [GenRequest("The capital", Sampling(12), key=k) for k in range(3)]
    first = [c.text for c in done(cached.run(batch))]
    asked = len(server.bodies)
    assert [c.text for c in done(cached.run(batch))] == first
    assert len(server.bodies) == asked


# --- failures -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (429, "unavailable"),
        (500, "unavailable"),
        (503, "unavailable"),
        (2.0, "timeout"),
        ("<html>not json</html>", "bad_response"),
        ("[1, 2]", "bad_response"),
        ("[" * 200_000, "bad_response"),
    ],
)
def test_tries_are_bounded(connect: Maker, fault: Any, kind: str) -> None:
    """A server that always fails is asked exactly ``tries`` times (a peer retries for ever), one
    that recovers answers."""
    client, server = connect(tries=3, timeout_s=0.5)
    server.faults[:] = [fault] * 3
    (answer,) = client.run([GenRequest("x", Sampling(2))])
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.retryable) == (kind, True)
    assert len(server.bodies) == 3
    server.bodies.clear()
    server.faults[:] = [fault] * 2
    client.server.timeout_s = 10.0 if kind != "timeout" else 0.5
    assert isinstance(client.run([GenRequest("x", Sampling(2))])[0], Completion)
    assert len(server.bodies) == 3


@pytest.mark.parametrize("status", [400, 404, 422])
def test_refusals_are_not_tried_again(connect: Maker, status: int) -> None:
    client, server = connect()
    server.faults[:] = [status]
    (answer,) = client.run([GenRequest("x", Sampling(2))])
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.retryable) == ("rejected", False)
    assert len(server.bodies) == 1


ONE = {"tokens": ["a"], "token_logprobs": [-1.0]}


@pytest.mark.parametrize(
    "choices",
    [
        None,
        [],
        [{"text": None}],
        [{"text": "a"}],
        [{"text": "a", "token_ids": [1]}],
        [{"text": "a", "token_ids": [1, 2], "logprobs": ONE}],
        [{"text": "a", "token_ids": ["a"], "logprobs": {"token_logprobs": [None]}}],
        [{"text": "a", "token_ids": [-1], "logprobs": ONE}],
        [{"text": "a", "token_ids": [True], "logprobs": ONE}],
    ],
)
def test_answers_without_what_was_promised(connect: Maker, choices: Any) -> None:
    client, server = connect()
    server.faults[:] = [json.dumps({} if choices is None else {"choices": choices})]
    (answer,) = client.run([GenRequest("x", Sampling(2))])
    assert isinstance(answer, Failure)
    assert answer.kind == "bad_response"


def test_one_failure_leaves_its_neighbours(connect: Maker) -> None:
    client, server = connect(tries=1)
    server.faults[:] = [500]
    answers = client.run([GenRequest("x", Sampling(2), key=i) for i in range(5)])
    assert sum(isinstance(a, Failure) for a in answers) == 1
    assert sum(isinstance(a, Completion) for a in answers) == 4


def test_no_proxy_is_asked_for_a_server_on_this_machine(
    connect: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    client, _ = connect(tries=1)
    done(client.run([GenRequest("x", Sampling(2))]))


# --- keys, pools, loops ---------------------------------------------------------------------------
def test_keys_come_from_the_environment_and_stay_out_of_sight(
    connect: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret-value")
    client, server = connect(key_env="MY_KEY", tries=1)
    done(client.run([GenRequest("x", Sampling(2))]))
    assert server.keys == ["Bearer s3cret-value"]
    server.faults[:] = [500]
    (answer,) = client.run([GenRequest("x", Sampling(2))])
    assert isinstance(answer, Failure)
    assert "***" in answer.message
    assert "s3cret" not in answer.message + repr(client) + client.fingerprint
    server.faults[:] = [401]
    with pytest.raises(EngineError, match=r"variable MY_KEY$"):
        client.run([GenRequest("x", Sampling(2))])
    monkeypatch.delenv("MY_KEY")
    server.faults[:] = [401]
    with pytest.raises(EngineError, match="MY_KEY, which is not set"):
        client.run([GenRequest("x", Sampling(2))])


def test_arun_from_any_loop_and_run_within_a_loop(connect: Maker) -> None:
    client, server = connect()
    requests = [GenRequest("x", Sampling(3), key=i) for i in range(6)]
    want = [c.text for c in done(client.run(requests))]

    async def both() -> tuple[list[Any], list[Any]]:
        inside = await asyncio.gather(*(client.arun(r) for r in requests))
        return inside, client.run(requests)  # blocking, but it must not deadlock

    for _ in range(2):  # two event loops, one pool
        inside, blocking = asyncio.run(both())
        assert [c.text for c in done(inside)] == want
        assert [c.text for c in done(blocking)] == want

    async def cancelled() -> float:
        server.delay = 5.0
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.arun(requests[0]), 0.2)
        return time.monotonic() - begun

    assert asyncio.run(cancelled()) < 2
    server.delay = 0.0
    done(client.run(requests))


def test_threads_share_one_probe(servers: Any, connect: Maker, probed: dict[Server, Any]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    _, server = connect()
    client = OpenAIGenerator(servers("full")[1])
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: client.run([GenRequest("x", Sampling(2), i)]), range(8)))
    assert all(isinstance(a[0], Completion) for a in answers)
    *_, alone = probed[server]
    assert len(server.bodies) == alone + 8 > 16
    client.close()
    done(client.run([GenRequest("x", Sampling(2))]))  # a closed client starts anew
    client.close()
