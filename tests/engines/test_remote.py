"""Clients of every ``/retrieve`` dialect, and of servers that are slow, broken or hostile."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from searchgym.engines import build_engine
from searchgym.engines.pages import CorpusPages
from searchgym.engines.remote import DIALECTS, RemoteEngine
from searchgym.engines.remote.formats import Malformed, is_web_url
from searchgym.engines.remote.mcp import _message
from searchgym.envs import SearchEnv, SearchVectorEnv
from searchgym.errors import EngineError, MissingExtraError
from searchgym.types import CallContext, Failure, PageRequest, Passage, Query, Ranking, ToolCall
from searchgym.utils.http import HttpResponse, may_pass, retry_after

from ..small import CORPUS, PASSAGES, TASKS, lookup
from .loopback import Got, Loopback, Say, serving

CONTEXT = CallContext(0, "e", {})
FAST: dict[str, Any] = {"timeout_s": 2.0, "backoff_s": 0.01}


def query(text: str, k: int = 3) -> Query:
    return Query(text, k, CONTEXT)


def local(text: str) -> Ranking:
    """What the server's own engine finds."""
    (found,) = lookup([ToolCall("search", {"query": text}, 0, CONTEXT)])
    assert not isinstance(found, Failure)
    return found.hits


def doc(p: Passage) -> dict[str, str]:
    """A document as in wiki-18."""
    return {"id": p.id, "contents": f'"{p.title}"\n{p.text}'}


def packed(value: Any) -> Say:
    return Say(body=json.dumps(value).encode())


# --- the dialects, as their projects' servers speak -------------------------------------------
def search_r1(got: Got) -> Say:
    asked = json.loads(got.body)
    assert set(asked) == {"queries", "topk", "return_scores"}
    assert asked["return_scores"] is True
    lists = [[{"document": doc(h.passage), "score": h.score} for h in local(q)[: asked["topk"]]]
             for q in asked["queries"]]  # fmt: skip
    return packed({"result": lists})


def flat(got: Got) -> Say:
    asked = json.loads(got.body)
    assert asked["return_scores"] is False
    return packed({"result": [[doc(h.passage) for h in local(q)] for q in asked["queries"]]})


def skyrl(got: Got) -> Say:
    asked = json.loads(got.body)
    assert isinstance(asked["query"], str)
    assert asked["return_scores"] is True
    hits = [{"document": doc(h.passage), "score": h.score} for h in local(asked["query"])]
    return packed({"result": [hits]})


def gem(got: Got) -> Say:
    asked = msgpack.unpackb(got.body)
    assert got.headers["content-type"] == "application/msgpack"
    assert set(asked) == {"query", "topk", "return_scores"}
    hits = [{"document": doc(h.passage), "score": h.score} for h in local(asked["query"])]
    return Say(body=msgpack.packb({"result": hits}), media="application/msgpack")


def browsecomp(got: Got) -> Say:
    asked = json.loads(got.body)
    assert set(asked) == {"query"}
    return packed({"result": [
        {"docid": h.passage.id, "document": {"title": h.passage.title, "text": h.passage.text}}
        for h in local(asked["query"])
    ]})  # fmt: skip


def serpapi_server(got: Got) -> Say:
    asked = json.loads(got.body)
    assert set(asked) == {"queries"}
    return packed({"result": [[{"document": doc(h.passage)} for h in local(q)]
                              for q in asked["queries"]]})  # fmt: skip


def zerosearch(got: Got) -> Say:
    asked = json.loads(got.body)
    assert set(asked) == {"query", "top_k"}
    return packed([{"text": doc(h.passage)["contents"]} for h in local(asked["query"])])


def rllm(got: Got) -> Say:
    asked = json.loads(got.body)
    hits = local(asked["query"])[: asked["top_k"]]
    return packed({
        "query": asked["query"], "method": "dense", "num_results": len(hits),
        "results": [{"id": h.passage.id, "content": doc(h.passage)["contents"], "score": h.score}
                    for h in hits],
    })  # fmt: skip


def asearcher(got: Got) -> Say:
    asked = json.loads(got.body)
    if got.path == "/access":
        pages = [CORPUS.page(url) for url in asked["urls"]]
        return packed({"result": [p and p.text for p in pages]})
    lists = [[{"document": {**doc(h.passage), "url": h.passage.url}, "score": h.score}
              for h in local(q)] for q in asked["queries"]]  # fmt: skip
    return packed({"result": lists})


SERVERS: dict[str, Callable[[Got], Say]] = {
    "search-r1": search_r1, "agent-lightning": search_r1, "flat": flat, "skyrl": skyrl, "gem": gem,
    "browsecomp-plus": browsecomp, "search-r1-web": serpapi_server, "zerosearch": zerosearch,
    "rllm": rllm, "asearcher": asearcher,
}  # fmt: skip
SCORED = {"search-r1", "agent-lightning", "skyrl", "gem", "rllm", "asearcher"}
ASKED = ("Aldor founder", "Quell town river", "painter", "no such words", "東京 \ud800")


def test_every_dialect_has_a_server_here() -> None:
    assert set(SERVERS) == set(DIALECTS)


@pytest.mark.parametrize("name", SERVERS)
def test_every_dialect_finds_what_the_server_finds(name: str) -> None:
    with serving(SERVERS[name]) as server:
        engine = RemoteEngine(server.url, dialect=name, **FAST)
        answers = engine.run([query(text) for text in ASKED])
        paths = {got.path for got in server.got}
        engine.close()
    assert paths == {"/retrieve"}
    assert len(server.got) == (1 if DIALECTS[name].many else len(ASKED))
    for text, answer in zip(ASKED, answers, strict=True):
        assert not isinstance(answer, Failure), answer
        expected = local(text.replace("\ud800", "?"))
        assert [h.passage.text for h in answer] == [h.passage.text for h in expected]
        assert [h.passage.title for h in answer] == [h.passage.title for h in expected]
        if name != "zerosearch":  # its documents have no ids
            assert [h.passage.id for h in answer] == [h.passage.id for h in expected]
        scores = [h.score for h in answer]
        if name in SCORED:
            assert scores == [h.score for h in expected]
        assert scores == sorted(scores, reverse=True)


def test_the_contract_holds_whatever_a_server_sends() -> None:
    """More than k hits, twice the same, rising scores, ties out of order."""
    items = [("b", 1.0), ("a", 1.0), ("c", 3), ("a", 9.0), ("d", 0.5), ("e", 3.0)]

    def answer(got: Got) -> Say:
        asked = json.loads(got.body)
        hits = [{"document": {"id": i, "contents": f"T\n{i}"}, "score": s} for i, s in items]
        return packed({"result": [hits for _ in asked["queries"]]})

    with serving(answer) as server:
        engine = RemoteEngine(server.url, **FAST)
        batch = [query("x", k) for k in (0, 1, 3, 100)] + [query("", 3), query("  ", 3)]
        found = engine.run(batch)
        ids = [[h.passage.id for h in r] for r in found]  # type: ignore[union-attr]
        assert ids == [[], ["c"], ["c", "e", "a"], ["c", "e", "a", "b", "d"], [], []]
        assert [engine.run([q])[0] for q in batch] == found, "batch or one by one"
        bodies = [json.loads(got.body) for got in server.got[:3]]
    assert sorted((b["topk"], len(b["queries"])) for b in bodies) == [(1, 1), (3, 1), (100, 1)]


def test_documents_in_all_conventions_and_without_ids() -> None:
    documents: list[Any] = [
        {"id": 7, "contents": '"A title"\nline one\nline two'},
        {"id": "8", "title": "Given", "text": "body", "contents": '"Other"\nbody', "url": "https://x.example/"},
        {"docid": "9", "contents": "no title here"},
        "plain\ntext",
        {"contents": "no id"},
        {"title": None, "text": "untitled", "id": "11"},
    ]  # fmt: skip
    with serving(lambda got: packed({"result": [documents]})) as server:
        (found,) = RemoteEngine(server.url, dialect="flat", **FAST).run([query("x", 10)])
    assert not isinstance(found, Failure)
    passages = [h.passage for h in found]
    assert passages[0] == Passage("7", "A title", "line one\nline two", "")
    assert passages[1] == Passage("8", "Given", "body", "https://x.example/")
    assert passages[2] == Passage("9", "", "no title here", "")
    assert (passages[3].title, passages[3].text) == ("plain", "text")
    assert passages[4].id.startswith("r-")
    assert passages[5] == Passage("11", "", "untitled", "")


# --- servers that misbehave -------------------------------------------------------------------
def one(answer: Callable[[Got], Say], **options: Any) -> tuple[Any, Loopback, RemoteEngine]:
    """The outcome of one query, the server's log, and the engine."""
    with serving(answer) as server:
        engine = RemoteEngine(server.url, **{**FAST, **options})
        return engine.run([query("Aldor founder")])[0], server, engine


def test_busy_servers_are_asked_again_as_they_say() -> None:
    calls = []

    def answer(got: Got) -> Say:
        calls.append(time.monotonic())
        if len(calls) == 1:
            return Say(429, b"slow down", headers=(("Retry-After", "0.3"),))
        return Say(503, b"") if len(calls) == 2 else search_r1(got)

    found, _, engine = one(answer)
    assert [h.passage.id for h in found] == [h.passage.id for h in local("Aldor founder")]
    assert calls[1] - calls[0] >= 0.3
    stats = engine.stats()
    assert (stats["requests"], stats["retries"], stats["failures"]) == (3, 2, 2)


def test_retries_are_bounded_and_then_a_typed_failure() -> None:
    for status, kind in ((500, "unavailable"), (503, "unavailable"), (429, "unavailable")):
        failure, server, _ = one(lambda got, s=status: Say(s, b"out of order"))
        assert failure.kind == kind
        assert failure.retryable
        assert f"answered {status}: out of order (3 tries)" in failure.message
        assert len(server.got) == 3
    failure, server, _ = one(lambda got: Say(429, headers=(("Retry-After", "3600"),)))
    assert len(server.got) == 1, "an hour is not waited for"
    assert "asks to wait 3600 s, the limit is max_wait_s=30" in failure.message


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 302])
def test_what_is_rejected_is_not_asked_again(status: int) -> None:
    failure, server, _ = one(lambda got: Say(status, b"no", headers=(("Location", "http://x/"),)))
    assert failure.kind == "rejected"
    assert not failure.retryable
    assert len(server.got) == 1


def test_timeouts_are_per_try_and_typed() -> None:
    start = time.monotonic()
    failure, _, engine = one(lambda got: Say(pause=5), timeout_s=0.2, retries=1)
    assert failure.kind == "timeout"
    assert failure.retryable
    assert "did not answer within 0.2 s (2 tries)" in failure.message
    assert time.monotonic() - start < 4
    assert engine.stats()["timeouts"] == 2
    drip = tuple(b" " for _ in range(50))  # each byte in time, the whole never
    failure, _, _ = one(lambda got: Say(parts=drip, pause=0.1), timeout_s=0.4, retries=0)
    assert failure.kind == "timeout"


def test_no_server_is_an_outage() -> None:
    with serving(search_r1) as server:
        pass
    engine = RemoteEngine(server.url, **FAST)
    (failure,) = engine.run([query("x")])
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.retryable) == ("unavailable", True)
    gone, _, _ = one(lambda got: Say(hang_up=True))
    assert gone.kind == "unavailable"
    cut, _, _ = one(lambda got: Say(body=b'{"result": ', length=100), timeout_s=0.5, retries=0)
    assert cut.kind in ("unavailable", "timeout")


NESTED = b"[" * 200_000
GARBAGE: dict[str, bytes] = {
    "no json": b"<html>Bad gateway</html>",
    "empty": b"",
    "cut": b'{"result": [[{"docu',
    "binary": b"\xff\xfe\x00",
    "deep": NESTED,
    "null": b"null",
    "no result": b'{"error": "x"}',
    "wrong number": b'{"result": [[], []]}',
    "not nested": b'{"result": [{"document": {"id": "1", "contents": "T"}, "score": 1}]}',
    "score text": b'{"result": [[{"document": {"id": "1", "contents": "T"}, "score": "1"}]]}',
    "score nan": b'{"result": [[{"document": {"id": "1", "contents": "T"}, "score": NaN}]]}',
    "score true": b'{"result": [[{"document": {"id": "1", "contents": "T"}, "score": true}]]}',
    "document number": b'{"result": [[{"document": 3, "score": 1}]]}',
    "contents list": b'{"result": [[{"document": {"id": "1", "contents": ["T"]}, "score": 1}]]}',
    "id list": b'{"result": [[{"document": {"id": [1], "contents": "T"}, "score": 1}]]}',
    "hit null": b'{"result": [[null]]}',
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_a_bad_response(name: str) -> None:
    failure, _, _ = one(lambda got: Say(body=GARBAGE[name]))
    assert isinstance(failure, Failure)
    assert failure.kind == "bad_response"
    assert len(failure.message) < 400, "a message, not the whole response"


def test_garbage_in_the_packed_dialect_is_a_bad_response() -> None:
    for body in (b"", b"\xc1", b"\x81\xa6result\xc0", b'{"result": []}', msgpack.packb([1])):
        failure, _, _ = one(lambda got, b=body: Say(body=b), dialect="gem")
        assert failure.kind == "bad_response"


def test_responses_are_bounded_also_when_compressed() -> None:
    failure, _, _ = one(lambda got: Say(body=b" " * 70_000), max_bytes=65_536)
    assert (failure.kind, failure.retryable) == ("bad_response", False)
    assert "more than 65,536 bytes (max_bytes)" in failure.message
    bomb = gzip.compress(b" " * 50_000_000)
    zipped = (("Content-Encoding", "gzip"),)
    failure, _, _ = one(lambda got: Say(body=bomb, headers=zipped), max_bytes=1 << 20)
    assert (failure.kind, failure.retryable) == ("bad_response", False)
    for body, encoding in ((b"not zipped", "gzip"), (b"x", "br")):
        odd = (("Content-Encoding", encoding),)
        failure, _, _ = one(lambda got, b=body, o=odd: Say(body=b, headers=o), retries=0)
        assert failure.kind == "unavailable"


def test_compressed_replies_are_read() -> None:
    def answer(got: Got) -> Say:
        assert got.headers["accept-encoding"] == "gzip"
        body = gzip.compress(search_r1(got).body)
        return Say(body=body, headers=(("Content-Encoding", "gzip"),))

    found, _, _ = one(answer)
    assert [h.passage.id for h in found] == [h.passage.id for h in local("Aldor founder")]


def test_a_bad_query_hurts_no_neighbour() -> None:
    def answer(got: Got) -> Say:
        return Say(500, b"cannot tokenise") if b"poison" in got.body else search_r1(got)

    with serving(answer) as server:
        engine = RemoteEngine(server.url, retries=0, **FAST)
        texts = ["Aldor founder", "poison", "Quell", "painter"]
        found = engine.run([query(t) for t in texts])
    for text, answer_ in zip(texts, found, strict=True):
        assert isinstance(answer_, Failure) == (text == "poison")
        if text != "poison":
            assert [h.passage.id for h in answer_] == [h.passage.id for h in local(text)]  # type: ignore[union-attr]


def test_big_batches_go_in_parts_at_once_within_the_limits() -> None:
    def answer(got: Got) -> Say:
        return search_r1(got)._replace(pause=0.1)

    with serving(answer) as server:
        engine = RemoteEngine(server.url, batch_size=4, concurrency=3, **FAST)
        start = time.monotonic()
        found = engine.run([query(f"Aldor {i}") for i in range(40)])
        took = time.monotonic() - start
    assert not any(isinstance(r, Failure) for r in found)
    assert len(server.got) == 10
    assert server.most_at_once == 3
    assert 0.35 < took < 1.5, "ten calls of 0.1 s, three at a time"


def test_the_rate_is_kept() -> None:
    with serving(search_r1) as server:
        engine = RemoteEngine(server.url, batch_size=1, rate=20.0, **FAST)
        start = time.monotonic()
        engine.run([query(f"Aldor {i}") for i in range(9)])
        engine.run([query("Aldor 10")])
        assert time.monotonic() - start >= 9 / 20, "ten requests, a twentieth of a second apart"


def test_threads_share_one_engine() -> None:
    with serving(search_r1) as server:
        engine = RemoteEngine(server.url, **FAST)
        results: list[Any] = []
        threads = [
            threading.Thread(target=lambda: results.append(engine.run([query(t) for t in ASKED])))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(results) == 6
        assert all(r == results[0] for r in results)
        engine.close()
        assert engine.run([query(ASKED[0])])[0] == results[0][0], "opens again when used again"


# --- options ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs 'url' .* or 'provider'"),
        ({"url": "localhost:8000"}, r"http\(s\) address"),
        ({"url": "file:///etc/passwd"}, r"http\(s\) address"),
        ({"url": "ftp://x.example/"}, r"http\(s\) address"),
        ({"url": "http://user:pass@x.example/"}, "without user name"),
        ({"url": "http://x.example", "dialect": "search_r2"}, "Did you mean 'search-r1'"),
        ({"url": "http://x.example", "timeout_s": 0}, "timeout_s must be positive"),
        ({"url": "http://x.example", "retries": -1}, "must not be negative"),
        ({"url": "http://x.example", "rate": 0}, "must be positive"),
        ({"url": "http://x.example", "retries": 1.5}, "retries must be a whole number, got 1.5"),
        ({"url": "http://x.example", "timeout_s": "9"}, "timeout_s must be a finite number"),
        ({"url": "http://x.example", "batch_size": "8"}, "batch_size must be a whole number"),
        ({"url": "http://x.example", "price": float("nan")}, "price must be a number ≥ 0, got nan"),
        ({"url": "http://x.example", "batch_size": 0}, "batch_size"),
        ({"url": "http://x.example", "budget": -1}, "budget must be a number ≥ 0, got -1"),
        ({"url": "http://x.example", "reader": "lynx"}, "unknown reader 'lynx'"),
        ({"url": "http://x.example", "key_env": "NO_SUCH_TOKEN"}, "NO_SUCH_TOKEN"),
        ({"url": "http://x.example", "tiemout_s": 1}, "tiemout_s"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        build_engine({"name": "remote", **options}, CORPUS)


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[remote\]"'):
        RemoteEngine("http://127.0.0.1:1")


def test_a_token_travels_in_its_header_and_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCHGYM_REMOTE_TOKEN", "s3cret-token")

    def answer(got: Got) -> Say:
        assert got.headers["authorization"] == "Bearer s3cret-token"
        return Say(403, b"token s3cret-token is not welcome")

    failure, _, engine = one(answer)
    assert failure.kind == "rejected"
    assert "token *** is not welcome" in failure.message
    assert "s3cret" not in failure.message + engine.fingerprint


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("http://a.example/x?y=1#z", True), ("https://a.example", True),
        ("HTTPS://A.example:8443/", True), ("javascript:alert(1)", False),
        ("file:///etc/passwd", False), ("http://", False), ("http:///x", False),
        ("//a.example", False), ("http://u:p@a.example/", False), ("http://a.example/a b", False),
        ("http://a.example/\n", False), ("http://a.example:99999999/", False), ("", False),
        ("http://a.example/" + "x" * 5000, False), ("gopher://a.example", False),
    ],
)  # fmt: skip
def test_only_plain_web_addresses_are_asked_for(url: str, fine: bool) -> None:
    assert is_web_url(url) == fine


def test_statuses_that_may_pass() -> None:
    """One list for remote engines, model servers and errors of other libraries' clients."""
    passing = {status for status in range(300, 530) if may_pass(status)}
    assert {408, 409, 425, 429, 500, 502, 503, 504, 529} <= passing
    assert not passing & {301, 400, 401, 403, 404, 405, 413, 422, 501, 505}


def test_retry_after_in_seconds_and_dates() -> None:
    assert retry_after({}) is None
    assert retry_after({"retry-after": "1.5"}) == 1.5
    assert retry_after({"retry-after": "-3"}) == 0
    assert retry_after({"retry-after": "soon"}) is None
    date, later = "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:09 GMT"
    assert retry_after({"retry-after": later, "date": date}) == 9
    assert retry_after({"retry-after": date, "date": later}) == 0


# --- in environments --------------------------------------------------------------------------
@pytest.fixture(scope="module")
def wiki() -> Iterator[Loopback]:
    with serving(asearcher) as server:
        yield server


def test_an_environment_over_a_server_reads_its_pages_too(wiki: Loopback) -> None:
    engine = {"name": "remote", "url": wiki.url, "dialect": "asearcher", **FAST}
    env = SearchEnv(
        corpus=CORPUS, tasks=TASKS, engine=engine, tools=("search", "access"), dialect="asearcher"
    )
    env.reset(seed=0, options={"task_id": "t1"})
    observation = env.step("</think><search>Aldor founder</search>")[0]
    assert "Aldor is a city founded by Mira Venn" in observation
    before = len(wiki.got)
    observation = env.step(f"</think><access>{PASSAGES[1].url}</access>")[0]
    assert "Mira Venn was a painter born in Quell." in observation
    assert [got.path for got in wiki.got[before:]] == ["/access"]
    for url in ("https://w.example/Nowhere", "file:///etc/passwd", "not a url"):
        before = len(wiki.got)
        _, _, _, truncated, info = env.step(f"</think><access>{url}</access>")
        assert not truncated
        assert "No More Information" in info["delta"]
        assert len(wiki.got) - before == url.startswith("https")


def test_one_call_for_all_slots_and_duplicates_asked_once(wiki: Loopback) -> None:
    env = SearchVectorEnv(
        16, corpus=CORPUS, tasks=TASKS,
        engine={"name": "remote", "url": wiki.url, "dialect": "asearcher", **FAST},
    )  # fmt: skip
    env.reset(seed=0)
    before = len(wiki.got)
    env.step([f"<search>{'Aldor founder' if i % 2 else 'Quell'}</search>" for i in range(16)])
    (got,) = wiki.got[before:]
    assert sorted(json.loads(got.body)["queries"]) == ["Aldor founder", "Quell"]


def test_a_server_that_times_out_truncates_unscored_after_retries() -> None:
    with serving(lambda got: Say(pause=3)) as server:
        engine = {"name": "remote", "url": server.url, "timeout_s": 0.1, "retries": 0}
        env = SearchEnv(corpus=CORPUS, tasks=TASKS, engine=engine, max_retries=1)
        env.reset(seed=0)
        _, reward, terminated, truncated, info = env.step("<search>Aldor</search>")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["outcome"]["infra_error"]
    assert info["retries"] == 1
    assert "answer within" not in env.episode.observation()


def test_behind_the_recorder_the_server_may_go_away(tmp_path: Path) -> None:
    path = str(tmp_path / "web.sqlite")
    remote: dict[str, Any] = {"name": "remote", "dialect": "asearcher", **FAST}
    outs = []
    with serving(asearcher) as server:
        remote["url"] = server.url
        for mode in ("record", "replay_or_live"):
            outs.append(_walk({"name": "recorded", "engine": remote, "path": path, "mode": mode}))
            asked = len(server.got)
        assert asked == 3, "the second walk asked nothing"
    outs.append(_walk({"name": "recorded", "path": path, "mode": "replay"}))
    outs.append(_walk({"name": "recorded", "engine": remote, "path": path, "mode": "replay"}))
    assert all(out == outs[0] for out in outs)


def _walk(engine: dict[str, Any]) -> list[Any]:
    env = SearchEnv(
        corpus=CORPUS, tasks=TASKS, engine=engine, tools=("search", "access"), dialect="asearcher"
    )
    steps: list[Any] = [env.reset(seed=0, options={"task_id": "t1"})]
    steps.append(env.step("</think><search>Aldor founder</search>"))
    steps.append(env.step(f"</think><access>{PASSAGES[1].url}</access>"))
    steps.append(env.step("</think><access>https://w.example/Nowhere</access>"))
    return [repr(step) for step in steps]


# --- MCP --------------------------------------------------------------------------------------
class Mcp:
    """BrowseComp-Plus's tools over streamable HTTP, with sessions that may expire."""

    def __init__(self, stream: bool, structured: bool, sessions: bool = True) -> None:
        self.stream, self.structured, self.sessions = stream, structured, sessions
        self.opened = 0
        self.forget = False

    def __call__(self, got: Got) -> Say:
        asked = json.loads(got.body)
        assert got.path == "/mcp"
        assert "text/event-stream" in got.headers["accept"]
        if asked["method"] == "initialize":
            assert asked["params"]["clientInfo"]["name"] == "searchgym"
            self.opened += 1
            headers = (("Mcp-Session-Id", f"s{self.opened}"),) if self.sessions else ()
            result = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {}}
            return self._reply(asked["id"], result)._replace(headers=headers)
        if self.sessions and (
            self.forget or got.headers.get("mcp-session-id") != f"s{self.opened}"
        ):
            self.forget = False
            return Say(404, b"no such session")
        if asked["method"] == "notifications/initialized":
            return Say(202)
        call = asked["params"]
        if call["name"] == "search":
            value: Any = [
                {"docid": h.passage.id, "score": h.score, "snippet": h.passage.text}
                for h in local(call["arguments"]["query"])
            ]
        else:
            docid = call["arguments"]["docid"]
            value = (
                {"docid": docid, "text": CORPUS.passage(docid).text} if docid in CORPUS else None
            )
        content = [{"type": "text", "text": json.dumps(value)}]
        result = {"content": content, "isError": False}
        if self.structured:
            result["structuredContent"] = {"result": value}
        return self._reply(asked["id"], result)

    def _reply(self, number: int, result: Any) -> Say:
        message = json.dumps({"jsonrpc": "2.0", "id": number, "result": result})
        if not self.stream:
            return Say(body=message.encode())
        noise = 'event: message\ndata: {"jsonrpc": "2.0", "method": "notifications/x"}\n\n'
        noise += "data: ping\n\n"  # as proxies keep connections open
        return Say(body=f"{noise}event: message\ndata: {message}\n\n".encode(),
                   media="text/event-stream")  # fmt: skip


@pytest.mark.parametrize(
    "shape", [(False, False), (True, False), (False, True), (True, True), (False, False, False)]
)
def test_mcp_tools_search_and_open_documents(shape: tuple[bool, ...]) -> None:
    mcp = Mcp(*shape)
    with serving(mcp) as server:
        engine = RemoteEngine(server.url, dialect="mcp", **FAST)
        for round in range(2):
            found = engine.run([query(t, 2) for t in ASKED[:3]])
            for text, answer in zip(ASKED, found, strict=False):
                assert (
                    [h.passage.text for h in answer]
                    == [  # type: ignore[union-attr]
                        h.passage.text for h in local(text)[:2]
                    ]
                )
            mcp.forget = round == 0  # the server restarts: the session is opened again
        assert mcp.opened == 1 + mcp.sessions, "calls under way together open one session"
        pages = engine.pages(CorpusPages(CORPUS))
        url = found[0][0].passage.url  # type: ignore[index,union-attr]
        requests = [PageRequest(u, CONTEXT) for u in (url, url + "x", "https://w.example/Aldor")]
        page, absent, foreign = pages.run(requests)
        assert page.text == found[0][0].passage.text  # type: ignore[union-attr,index]
        assert (absent, foreign) == (None, None)


@pytest.mark.parametrize(
    "before",
    [
        "id: 1\r\ndata: \r\n\r\n",  # a priming event
        "id: 1\ndata\n\n", "id: 1\nretry: 3000\n\n", ": ping\n\n", ":\r\r", "data:\ndata:\n\n",
        "event: ping\ndata: now\n\n", 'database: {"id": 7}\n\n', "\ufeff", "\n\n\n",
        'data: {"jsonrpc": "2.0", "id": 7, "method": "ping"}\n\n',  # the server's own request
        'data: {"jsonrpc": "2.0", "id": 6, "result": {}}\n\n',
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "reply",
    [
        "data: {0}{1}\n\n", "data:{0}{1}\n\n", "data: {0}\ndata: {1}\n\n", "data: {0}{1}",
        "event: message\r\ndata: {0}\r\n:\r\ndata: {1}\r\nid: 2\r\n\r\n",
        "data: {0}\rdata: {1}\r\r", "data: [{0}{1}]\n\n",
    ],
)  # fmt: skip
def test_mcp_events_are_read_as_their_specification_says(before: str, reply: str) -> None:
    said = reply.format('{"jsonrpc": "2.0", "id": 7,', ' "result": {"x": "a\u2028b"}}')
    headers = {"content-type": "Text/Event-Stream; charset=utf-8"}
    assert _message(HttpResponse((before + said).encode(), headers), 7)["result"] == {
        "x": "a\u2028b"
    }
    with pytest.raises(Malformed, match="expected the response to request 8"):
        _message(HttpResponse((before + said).encode(), headers), 8)


def test_mcp_errors_are_typed() -> None:
    def broken(got: Got) -> Say:
        asked = json.loads(got.body)
        if asked["method"] != "tools/call":
            return Mcp(False, False, False)(got)
        return packed({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32602}})

    failure, _, _ = one(broken, dialect="mcp")
    assert (failure.kind, failure.retryable) == ("rejected", False)
    failure, _, _ = one(lambda got: packed([]), dialect="mcp")
    assert failure.kind == "bad_response"
