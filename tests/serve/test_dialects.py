"""Every row of the dialect table: the client's request, byte for byte what it reads back."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from searchgym.corpora.corpus import Corpus
from searchgym.engines.bm25 import BM25Engine
from searchgym.serve import Settings

from .conftest import client_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
Q = "painter boats Zürich"
BLUE = {
    "id": "p2",
    "contents": '"The "Blue" House"\nA house painted blue.\nIt stands in Zürich.',
    "title": 'The "Blue" House',
    "text": "A house painted blue.\nIt stands in Zürich.",
    "url": "u/2",
}
UNTITLED = {
    "id": "p3",
    "contents": "Boats without a title drift past the house.",
    "title": "",
    "text": "Boats without a title drift past the house.",
    "url": "u/3",
}


async def ask(
    engine: Any, corpus: Corpus, body: dict[str, Any], path: str = "/retrieve",
    dialect: str = "auto", packed: bool = False, headers: dict[str, str] | None = None,
) -> Any:  # fmt: skip
    async with client_of(engine, corpus, Settings(dialect=dialect)) as client:
        if packed:
            reply = await client.post(path, content=msgpack.packb(body), headers=headers)
            assert reply.status_code == 200, reply.text
            assert reply.headers["content-type"] == "application/msgpack"
            return msgpack.unpackb(reply.content)
        reply = await client.post(path, json=body)
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == "application/json"
        return reply.json()


def expected(engine: BM25Engine, query: str, k: int) -> list[tuple[str, float]]:
    return [(hit.passage.id, hit.score) for hit in engine.search([query], k)[0]]


async def test_search_r1_with_scores(engine: BM25Engine, corpus: Corpus) -> None:
    body = {"queries": ["blue house", "drift past", "zzz"], "topk": 1, "return_scores": True}
    got = await ask(engine, corpus, body)
    assert got == {
        "result": [
            [{"document": BLUE, "score": expected(engine, "blue house", 1)[0][1]}],
            [{"document": UNTITLED, "score": expected(engine, "drift past", 1)[0][1]}],
            [],
        ]
    }


async def test_torchtitan_and_slime_without_scores(engine: BM25Engine, corpus: Corpus) -> None:
    """``return_scores=false`` crashed the server that this format comes from."""
    body = {"queries": ["blue house"], "topk": 1, "return_scores": False}
    assert await ask(engine, corpus, body) == {"result": [[BLUE]]}


async def test_absent_scores_serve_flat_and_wrapped_readers(
    engine: BM25Engine, corpus: Corpus
) -> None:
    """Servers differ in what they send here: items have the flat fields and a ``document``."""
    got = await ask(engine, corpus, {"queries": ["blue house"], "topk": 1})
    assert got == {"result": [[{**BLUE, "document": BLUE}]]}


async def test_skyrl(engine: BM25Engine, corpus: Corpus) -> None:
    got = await ask(engine, corpus, {"query": "blue house", "topk": 1, "return_scores": True})
    assert [[item["document"] for item in items] for items in got["result"]] == [[BLUE]]
    got = await ask(engine, corpus, {"query": "blue house", "topk": 1, "return_scores": False})
    assert got == {"result": [[BLUE]]}


@pytest.mark.parametrize("headers", [None, {"content-type": "application/msgpack"}])
async def test_gem_in_msgpack(
    engine: BM25Engine, corpus: Corpus, headers: dict[str, str] | None
) -> None:
    body = {"query": Q, "topk": 2, "return_scores": True}
    got = await ask(engine, corpus, body, packed=True, headers=headers)
    found = [(item["document"]["id"], item["score"]) for item in got["result"]]
    assert found == expected(engine, Q, 2)
    flat = await ask(engine, corpus, {**body, "return_scores": False}, packed=True)
    assert [item["id"] for item in flat["result"]] == [i for i, _ in found]
    many = await ask(engine, corpus, {"queries": [Q, "blue"], "topk": 1}, packed=True)
    assert [len(items) for items in many["result"]] == [1, 1]


async def test_browsecomp_plus(engine: BM25Engine, corpus: Corpus) -> None:
    for path in ("/retrieve", "/browsecomp-plus/retrieve"):
        got = await ask(engine, corpus, {"query": "blue house"}, path)
        first = got["result"][0]
        assert (first["docid"], first["document"]["title"]) == ("p2", BLUE["title"])
        assert first["document"]["text"] == BLUE["text"]
        assert "score" not in first


async def test_agent_lightning(engine: BM25Engine, corpus: Corpus) -> None:
    path, body = "/agent-lightning/retrieve", {"queries": ["blue house"], "topk": 1}
    score = expected(engine, "blue house", 1)[0][1]
    for scores in ({}, {"return_scores": True}):
        got = await ask(engine, corpus, {**body, **scores}, path)
        assert got == {"result": [[{"document": BLUE, "score": score}]]}
    got = await ask(engine, corpus, {**body, "return_scores": False}, path)
    assert got == {"result": [[{"document": BLUE}]]}


async def test_asearcher_with_pages(engine: BM25Engine, corpus: Corpus) -> None:
    body = {"queries": ["blue house"], "topk": 1, "return_scores": False}
    got = await ask(engine, corpus, body)
    url = got["result"][0][0]["url"]
    urls = {"urls": [url, "nowhere"]}
    assert await ask(engine, corpus, urls, "/access") == {"result": [BLUE["text"], None]}
    page = {"url": "u/2", "title": BLUE["title"], "contents": BLUE["text"]}
    for path, dialect in (("/asearcher/access", "auto"), ("/access", "asearcher")):
        assert await ask(engine, corpus, urls, path, dialect) == {"result": [page, None]}


async def test_zerosearch(engine: BM25Engine, corpus: Corpus) -> None:
    body = {"query": "blue house", "top_k": 1}
    for path, dialect in (("/zerosearch/retrieve", "auto"), ("/retrieve", "zerosearch")):
        assert await ask(engine, corpus, body, path, dialect) == [{"text": BLUE["contents"]}]


@pytest.mark.parametrize("name", ["top_k", "k"])
async def test_rllm(engine: BM25Engine, corpus: Corpus, name: str) -> None:
    score = expected(engine, "blue house", 1)[0][1]
    for path, dialect in (("/rllm/retrieve", "auto"), ("/retrieve", "rllm")):
        assert await ask(engine, corpus, {"query": "blue house", name: 1}, path, dialect) == {
            "query": "blue house",
            "method": "bm25",
            "results": [{"id": "p2", "content": BLUE["contents"], "score": score}],
            "num_results": 1,
        }


async def test_search_r1_strictly(engine: BM25Engine, corpus: Corpus) -> None:
    got = await ask(engine, corpus, {"queries": ["blue house"], "topk": 1}, "/search-r1/retrieve")
    assert got == {"result": [[BLUE]]}


@pytest.mark.parametrize("k", [None, 0, "absent"])
async def test_k_falls_back_to_the_servers(engine: BM25Engine, corpus: Corpus, k: Any) -> None:
    body = {"queries": ["note"], "return_scores": True} | ({} if k == "absent" else {"topk": k})
    got = await ask(engine, corpus, body)
    assert len(got["result"][0]) == 3


@pytest.mark.parametrize("count", [0, 1, 5])
async def test_nesting_does_not_depend_on_the_number_of_queries(
    engine: BM25Engine, corpus: Corpus, count: int
) -> None:
    for packed in (False, True):
        for scores in (False, True):
            body = {"queries": ["boats"] * count, "return_scores": scores}
            got = await ask(engine, corpus, body, packed=packed)
            assert [len(items) for items in got["result"]] == [3] * count


async def test_replies_equal_the_engine_for_any_text(engine: BM25Engine, corpus: Corpus) -> None:
    queries = [
        Q,
        "",
        "東京 boats",
        '"quoted" \\ text',
        "red\u2028note\n\t",
        "🚤 boats",
        "Blue" * 500,
    ]
    body = {"queries": queries, "topk": 7, "return_scores": True}
    for packed in (False, True):
        got = await ask(engine, corpus, body, packed=packed)
        for query, items in zip(queries, got["result"], strict=True):
            found = [(item["document"]["id"], item["score"]) for item in items]
            assert found == expected(engine, query, 7)
            for item in items:
                passage = corpus.passage(item["document"]["id"])
                assert item["document"]["text"] == passage.text
                assert item["document"]["title"] == passage.title
