"""The remote engine against this package's own server: both sides must mean the same dialect."""

from __future__ import annotations

import pytest

from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.pages import CorpusPages
from searchgym.engines.remote import RemoteEngine
from searchgym.types import CallContext, Failure, PageRequest, Query
from tests.engines.served import running

from ..small import CORPUS, PASSAGES

CONTEXT = CallContext(0, "e", {})
TEXTS = ("Aldor founder", "Quell", "painter born", "river", "", "nothing of the kind", "東京")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("search-r1", "auto"), ("flat", "auto"), ("skyrl", "auto"), ("gem", "auto"),
        ("browsecomp-plus", "auto"), ("search-r1-web", "auto"), ("asearcher", "asearcher"),
        ("asearcher", "auto"), ("agent-lightning", "agent-lightning"), ("mcp", "auto"),
        ("zerosearch", "zerosearch"), ("rllm", "rllm"),
    ],
)  # fmt: skip
def test_every_dialect_brings_back_what_the_engine_found(ours: str, theirs: str) -> None:
    local = BM25Engine(CORPUS)
    queries = [Query(text, 3, CONTEXT) for text in TEXTS]
    with running(theirs) as url:
        engine = RemoteEngine(url, dialect=ours, timeout_s=10.0)
        found = engine.run(queries)
        source = engine.pages(CorpusPages(CORPUS))
        if ours == "asearcher":
            page, absent = source.run(
                [PageRequest(PASSAGES[1].url, CONTEXT), PageRequest("https://w.example/x", CONTEXT)]
            )
            assert page is not None
            assert PASSAGES[1].text in page.text  # type: ignore[union-attr]
            assert absent is None
        if ours == "mcp":
            hit = found[0][0]  # type: ignore[index]
            (page,) = source.run([PageRequest(hit.passage.url, CONTEXT)])  # type: ignore[union-attr]
            assert CORPUS.passage(hit.passage.id).text in page.text  # type: ignore[union-attr]
        engine.close()
    for there, here in zip(found, local.run(queries), strict=True):
        assert not isinstance(there, Failure), there
        assert len(there) == len(here)
        for got, expected in zip(there, here, strict=True):
            if ours == "mcp":  # snippets
                assert got.passage.text == expected.passage.text[: len(got.passage.text)]
                assert len(got.passage.text) >= min(1000, len(expected.passage.text))
            else:
                assert got.passage.text == expected.passage.text
            if ours != "zerosearch":
                assert got.passage.id == expected.passage.id
            if ours != "mcp":
                assert got.passage.title == expected.passage.title
            if ours in ("search-r1", "skyrl", "gem", "rllm", "asearcher", "agent-lightning"):
                assert got.score == pytest.approx(expected.score, rel=1e-6)
