"""Live web engines and page readers, against a server that speaks their documented JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from searchgym.engines import build_engine
from searchgym.engines.pages import CorpusPages
from searchgym.engines.remote import PROVIDERS, RemoteEngine
from searchgym.envs import SearchEnv
from searchgym.errors import EngineError
from searchgym.types import (
    CallContext,
    Charged,
    ChargedPage,
    Failure,
    PageRequest,
    Passage,
    Query,
)

from ..small import CORPUS, TASKS
from .loopback import Got, Say, serving

CONTEXT = CallContext(0, "e", {})
FAST: dict[str, Any] = {"timeout_s": 2.0, "backoff_s": 0.01}
KEYS = {p.key_env: "k3y/+=" for p in PROVIDERS.values()} | {"GOOGLE_CSE_ID": "cx1"}
FOUND = [(f"Title {i}", f"https://s{i}.example/p?q={i}", f"Snippet {i}.") for i in range(1, 4)]
TEXT = 'who founded "Aldor"? 東京 & more'


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("JINA_API_KEY", raising=False)


def query(text: str = TEXT, k: int = 3) -> Query:
    return Query(text, k, CONTEXT)


def packed(value: Any, status: int = 200) -> Say:
    return Say(status, json.dumps(value).encode())


# --- what each provider documents -------------------------------------------------------------
def serper(got: Got) -> Say:
    assert (got.method, got.path) == ("POST", "/search")
    assert got.headers["x-api-key"] == "k3y/+="
    asked = json.loads(got.body)
    if asked["q"] == "nothing":
        return packed({"searchParameters": asked, "organic": [], "credits": 1})
    assert asked == {"q": TEXT, "num": 3}
    organic = [{"title": t, "link": u, "snippet": s, "position": i}
               for i, (t, u, s) in enumerate(FOUND, 1)]  # fmt: skip
    return packed({"searchParameters": {"q": TEXT, "type": "search", "engine": "google"},
                   "knowledgeGraph": {"title": "x"}, "organic": organic, "credits": 1})  # fmt: skip


def serpapi(got: Got) -> Say:
    assert (got.method, got.path) == ("GET", "/search.json")
    assert got.params["api_key"] == "k3y/+="
    assert got.params["engine"] == "google"
    if got.params["q"] == "nothing":
        return packed({"search_metadata": {"status": "Success"},
                       "error": "Google hasn't returned any results for this query."})  # fmt: skip
    assert (got.params["q"], got.params["num"]) == (TEXT, "3")
    return packed({"search_metadata": {"status": "Success"}, "organic_results": [
        {"position": i, "title": t, "link": u, "snippet": s, "displayed_link": u}
        for i, (t, u, s) in enumerate(FOUND, 1)
    ]})  # fmt: skip


def brave(got: Got) -> Say:
    assert (got.method, got.path) == ("GET", "/res/v1/web/search")
    assert got.headers["x-subscription-token"] == "k3y/+="
    if got.params["q"] == "nothing":
        return packed({"type": "search", "query": {"original": "nothing"}})
    assert (got.params["q"], got.params["count"]) == (TEXT, "3")
    return packed({"type": "search", "query": {"original": TEXT}, "web": {"type": "search",
        "results": [{"title": t, "url": u, "description": s, "age": "2 days"}
                    for t, u, s in FOUND]}})  # fmt: skip


def tavily(got: Got) -> Say:
    assert (got.method, got.path) == ("POST", "/search")
    assert got.headers["authorization"] == "Bearer k3y/+="
    asked = json.loads(got.body)
    results = [{"title": t, "url": u, "content": s, "score": 0.9 - i / 10, "raw_content": None}
               for i, (t, u, s) in enumerate(FOUND)]  # fmt: skip
    if asked["query"] == "nothing":
        results = []
    else:
        assert asked == {"query": TEXT, "max_results": 3, "search_depth": "basic"}
    return packed({"query": asked["query"], "results": results, "response_time": 0.7})


def google(got: Got) -> Say:
    assert (got.method, got.path) == ("GET", "/customsearch/v1")
    assert (got.params["key"], got.params["cx"]) == ("k3y/+=", "cx1")
    if got.params["q"] == "nothing":
        return packed({"kind": "customsearch#search", "searchInformation": {"totalResults": "0"}})
    assert (got.params["q"], got.params["num"]) == (TEXT, "3")
    return packed({"kind": "customsearch#search", "items": [
        {"kind": "customsearch#result", "title": t, "link": u, "snippet": s, "displayLink": "x"}
        for t, u, s in FOUND
    ]})  # fmt: skip


SERVERS: dict[str, tuple[str, Callable[[Got], Say]]] = {
    "serper": ("/search", serper),
    "serpapi": ("/search.json", serpapi),
    "brave": ("/res/v1/web/search", brave),
    "tavily": ("/search", tavily),
    "google-cse": ("/customsearch/v1", google),
}


def test_every_provider_has_a_server_here_and_an_https_address() -> None:
    assert set(SERVERS) == set(PROVIDERS)
    for name, provider in PROVIDERS.items():
        assert provider.url.startswith("https://")
        assert provider.url.endswith(SERVERS[name][0])


@pytest.mark.parametrize("name", SERVERS)
def test_results_become_hits_and_cost_what_they_cost(name: str) -> None:
    path, answer = SERVERS[name]
    with serving(answer) as server:
        engine = RemoteEngine(server.url + path, provider=name, **FAST)
        found, nothing, empty = engine.run([query(), query("nothing"), query("")])
    assert isinstance(found, Charged)
    assert [h.passage for h in found] == [Passage(u, t, s, u) for t, u, s in FOUND]
    scores = [h.score for h in found]
    assert scores == ([0.9, 0.8, 0.7] if name == "tavily" else [1, 1 / 2, 1 / 3])
    price = PROVIDERS[name].price
    assert found.cost == price > 0
    assert nothing == ()
    assert nothing.cost == price, "finding nothing is charged, too"  # type: ignore[union-attr]
    assert empty == ()
    assert not isinstance(empty, Charged), "an empty query is not asked"
    assert engine.stats()["spent"] == pytest.approx(2 * price)
    assert len(server.got) == 2


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("status", [401, 403, 429, 500])
def test_errors_are_typed_and_show_no_key(name: str, status: int) -> None:
    body = {"error": {"message": "bad key k3y/+= in request ?key=k3y%2F%2B%3D"}}
    with serving(lambda got: packed(body, status)) as server:
        engine = RemoteEngine(server.url + SERVERS[name][0], provider=name, retries=1, **FAST)
        (failure,) = engine.run([query()])
    assert isinstance(failure, Failure)
    assert failure.kind == ("rejected" if status in (401, 403) else "unavailable")
    assert failure.retryable == (status in (429, 500))
    assert len(server.got) == (2 if failure.retryable else 1)
    assert "k3y" not in failure.message
    assert "k3y" not in engine.fingerprint
    assert engine.stats()["spent"] == 0, "a failure is not charged"


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b'{"organic": 3, "organic_results": 3, "web": 3, "items": 3}',
     b'{"organic": [3], "organic_results": [3], "web": {"results": [3]}, "items": [3],'
     b' "results": [3]}'],
)  # fmt: skip
def test_garbage_is_a_bad_response(name: str, body: bytes) -> None:
    with serving(lambda got: Say(body=body)) as server:
        engine = RemoteEngine(server.url + SERVERS[name][0], provider=name, **FAST)
        (failure,) = engine.run([query()])
    assert isinstance(failure, Failure)
    assert failure.kind == "bad_response"


def test_serpapis_own_errors_are_not_empty_results() -> None:
    body = {"error": "Your account has run out of searches."}
    with serving(lambda got: packed(body)) as server:
        (failure,) = RemoteEngine(server.url + "/x", provider="serpapi", **FAST).run([query()])
    assert isinstance(failure, Failure)
    assert "run out of searches" in failure.message


def test_results_without_a_web_address_are_left_out() -> None:
    odd = [{"title": "a", "link": "javascript:alert(1)", "snippet": "s"}, {"title": "b"},
           {"title": "c", "link": "https://c.example/"}]  # fmt: skip
    with serving(lambda got: packed({"organic": odd})) as server:
        (found,) = RemoteEngine(server.url + "/x", provider="serper", **FAST).run([query()])
    assert [h.passage.url for h in found] == ["https://c.example/"]  # type: ignore[union-attr]


def test_no_more_is_asked_for_than_a_provider_gives() -> None:
    asked: list[str] = []

    def answer(got: Got) -> Say:
        asked.append(got.params["num"])
        return packed({})

    with serving(answer) as server:
        engine = RemoteEngine(server.url + "/x", provider="google-cse", **FAST)
        engine.run([query(k=50), query(k=2)])
    assert sorted(asked) == ["10", "2"]


def test_a_budget_is_kept_also_by_queries_at_once() -> None:
    with serving(serper) as server:
        engine = RemoteEngine(
            server.url + "/search", provider="serper", price=0.5, budget=1.6, **FAST
        )
        answers = engine.run([query()] * 6)
        assert sum(not isinstance(a, Failure) for a in answers) == 3
        spent = [a for a in answers if isinstance(a, Failure)]
        assert all(a.kind == "rejected" and not a.retryable for a in spent)
        assert "budget of 1.6 is spent" in spent[0].message
        assert len(server.got) == 3
        assert engine.stats()["spent"] == 1.5


def test_of_a_request_that_is_too_dear_what_can_be_paid_is_asked() -> None:
    def answer(got: Got) -> Say:
        hits = [{"document": {"id": "1", "contents": "T\nx"}, "score": 1.0}]
        return packed({"result": [hits] * len(json.loads(got.body)["queries"])})

    with serving(answer) as server:
        engine = RemoteEngine(server.url, price=0.5, budget=1.6, **FAST)
        answers = engine.run([query(f"q{i}") for i in range(5)])
        assert [isinstance(a, Failure) for a in answers] == [False] * 3 + [True] * 2
        assert engine.stats()["spent"] == 1.5


@pytest.mark.parametrize("name", SERVERS)
def test_a_missing_key_names_the_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROVIDERS[name].key_env)
    with pytest.raises(EngineError, match=PROVIDERS[name].key_env):
        build_engine({"name": "remote", "provider": name}, CORPUS)


def test_keys_and_providers_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CSE_ID")
    with pytest.raises(EngineError, match="GOOGLE_CSE_ID"):
        RemoteEngine(provider="google-cse")
    with pytest.raises(EngineError, match="Did you mean 'serper'"):
        RemoteEngine(provider="serpr")
    monkeypatch.delenv("SERPER_API_KEY")
    monkeypatch.setenv("MY_KEY", "x")
    assert RemoteEngine(provider="serper", key_env="MY_KEY").price == 0.001
    one = RemoteEngine(provider="brave").fingerprint
    assert one != RemoteEngine(provider="tavily").fingerprint


# --- reading pages ----------------------------------------------------------------------------
PAGE = "https://s1.example/a b?q=1"


def jina(got: Got) -> Say:
    assert got.headers["accept"] == "application/json"
    target = got.path.removeprefix("/") + ("?" + got.params["q"] if got.params else "")
    if "gone" in target:
        return packed({"code": 422, "name": "AssertionFailureError", "message": "404"}, 422)
    if "busy" in target:
        return packed({"code": 429, "name": "RateLimitTriggeredError"}, 429)
    if "odd" in target:
        return packed({"code": 200, "data": None})
    data = {"title": "A page", "description": "", "url": target, "content": f"Read {target}",
            "usage": {"tokens": 2000}}  # fmt: skip
    return packed({"code": 200, "status": 20000, "data": data})


def test_jina_reads_pages_and_counts_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JINA_API_KEY", "j1na")

    def answer(got: Got) -> Say:
        assert got.headers["authorization"] == "Bearer j1na"
        return jina(got)

    with serving(answer) as server:
        engine = RemoteEngine(
            provider="brave", reader_url=server.url + "/", **{**FAST, "retries": 0}
        )
        pages = engine.pages(CorpusPages(CORPUS))
        urls = [
            "https://s1.example/x?q=1", "https://gone.example/", "https://busy.example/",
            "https://odd.example/", "file:///etc/passwd", "https://s1.example/東京#part",
        ]  # fmt: skip
        page, gone, busy, odd, refused, unicode = pages.run([PageRequest(u, CONTEXT) for u in urls])
    assert isinstance(page, ChargedPage)
    assert (page.title, page.url) == ("A page", urls[0])
    assert page.text.startswith("Read https://s1.example/x")
    assert page.cost == pytest.approx(2000 * 0.02e-6)
    assert page.passage_ids == (urls[0],), "the id a hit for this page has"
    assert (gone, refused) == (None, None), "no such page: the policy's mistake"
    assert isinstance(busy, Failure)
    assert (busy.kind, busy.retryable) == ("unavailable", True)
    assert isinstance(odd, Failure)
    assert odd.kind == "bad_response"
    assert isinstance(unicode, ChargedPage)
    assert len(server.got) == 5, "an address that is no web address is not asked for"


def test_the_readers_key_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JINA_API_KEY", "j1na+secret")

    def echo(got: Got) -> Say:
        return Say(400 + 3, got.headers["authorization"].encode())

    with serving(echo) as server:
        engine = RemoteEngine(provider="brave", reader_url=server.url + "/", **FAST)
        pages = engine.pages(CorpusPages(CORPUS))
        (failed,) = pages.run([PageRequest("https://s1.example/", CONTEXT)])
        engine.close()
    assert isinstance(failed, Failure)
    assert "Bearer ***" in failed.message


def test_a_web_environment_searches_and_reads_and_counts_its_costs() -> None:
    def answer(got: Got) -> Say:
        return serper(got) if got.path == "/search" else jina(got)

    with serving(answer) as server:
        engine = {"name": "remote", "provider": "serper", "url": server.url + "/search",
                  "reader_url": server.url + "/", **FAST}  # fmt: skip
        env = SearchEnv(corpus=CORPUS, tasks=TASKS, engine=engine, tools=("search", "access"),
                        dialect="asearcher")  # fmt: skip
        env.reset(seed=0)
        observation, _, _, _, info = env.step(f"</think><search>{TEXT}</search>")
        assert "[Doc 1](https://s1.example/p?q=1):" in observation
        assert info["cost"] == 0.001
        observation, _, _, _, info = env.step("</think><access>https://s1.example/p</access>")
        assert "Read https://s1.example/p" in observation
        assert info["cost"] == pytest.approx(4e-5)
        assert "0.001" not in observation
    with pytest.raises(EngineError, match=r"http\(s\) address"):
        RemoteEngine(provider="serper", reader_url="file:///etc/")


def test_without_a_reader_the_corpus_is_read() -> None:
    default = CorpusPages(CORPUS)
    assert RemoteEngine(provider="brave", reader=None).pages(default) is default
    assert RemoteEngine("http://127.0.0.1:1").pages(default) is default
    assert RemoteEngine("http://127.0.0.1:1", reader="jina").pages(default) is not default
