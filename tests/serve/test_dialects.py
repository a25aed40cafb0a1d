"""Every row of the dialect table: the client's request, byte for byte what it reads back."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine
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


ONE = {"queries": ["blue house"], "topk": 1}
SINGLE = {"query": "blue house", "topk": 1}
WITH, WITHOUT = {"return_scores": True}, {"return_scores": False}
SCORE = "the engine's score"
SCORED, WRAPPED = {"document": BLUE, "score": SCORE}, {"document": BLUE}
RLLM = {
    "query": "blue house", "method": "bm25", "num_results": 1,
    "results": [{"id": "p2", "content": BLUE["contents"], "score": SCORE}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "dialect", "body", "answer"),
    [
        ("/retrieve", "auto", ONE | WITH, {"result": [[SCORED]]}),
        # torchtitan and slime; without scores the server that this format comes from crashed
        ("/retrieve", "auto", ONE | WITHOUT, {"result": [[BLUE]]}),
        # servers differ in what they send here: items have the flat fields and a document
        ("/retrieve", "auto", ONE, {"result": [[{**BLUE, "document": BLUE}]]}),
        ("/retrieve", "auto", SINGLE | WITH, {"result": [[SCORED]]}),  # SkyRL
        ("/retrieve", "auto", SINGLE | WITHOUT, {"result": [[BLUE]]}),
        ("/search-r1/retrieve", "auto", ONE, {"result": [[BLUE]]}),
        ("/agent-lightning/retrieve", "auto", ONE, {"result": [[SCORED]]}),
        ("/agent-lightning/retrieve", "auto", ONE | WITH, {"result": [[SCORED]]}),
        ("/agent-lightning/retrieve", "auto", ONE | WITHOUT, {"result": [[WRAPPED]]}),
        ("/zerosearch/retrieve", "auto", SINGLE, [{"text": BLUE["contents"]}]),
        ("/retrieve", "zerosearch", SINGLE, [{"text": BLUE["contents"]}]),
        ("/rllm/retrieve", "auto", {"query": "blue house", "top_k": 1}, RLLM),
        ("/rllm/retrieve", "auto", {"query": "blue house", "k": 1}, RLLM),
        ("/retrieve", "rllm", {"query": "blue house", "top_k": 1}, RLLM),
    ],
)
async def test_shapes(
    engine: BM25Engine, corpus: Corpus, path: str, dialect: str, body: dict[str, Any], answer: Any
) -> None:
    score = repr(expected(engine, "blue house", 1)[0][1])
    wanted = json.loads(json.dumps(answer).replace(json.dumps(SCORE), score))
    assert await ask(engine, corpus, body, path, dialect) == wanted


async def test_several_queries_one_without_a_title_one_without_hits(
    engine: BM25Engine, corpus: Corpus
) -> None:
    body = {"queries": ["blue house", "drift past", "zzz"], "topk": 1, "return_scores": True}
    first, second = (expected(engine, query, 1)[0][1] for query in body["queries"][:2])  # type: ignore[index]
    items = [[{"document": BLUE, "score": first}], [{"document": UNTITLED, "score": second}], []]
    assert await ask(engine, corpus, body) == {"result": items}


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


async def test_asearcher_with_pages(engine: BM25Engine, corpus: Corpus) -> None:
    body = {"queries": ["blue house"], "topk": 1, "return_scores": False}
    got = await ask(engine, corpus, body)
    url = got["result"][0][0]["url"]
    urls = {"urls": [url, "nowhere"]}
    assert await ask(engine, corpus, urls, "/access") == {"result": [BLUE["text"], None]}
    page = {"url": "u/2", "title": BLUE["title"], "contents": BLUE["text"]}
    for path, dialect in (("/asearcher/access", "auto"), ("/access", "asearcher")):
        assert await ask(engine, corpus, urls, path, dialect) == {"result": [page, None]}


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
