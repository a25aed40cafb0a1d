"""Retrieval toolkits, unmodified, get the hits that an environment's engine gives."""

from __future__ import annotations

import pandas as pd
import pyterrier as pt
import pytest

from searchgym.engines import Searcher
from searchgym.integrations import retrievers
from tests.integrations.scene import scene

ENV = scene()
SEARCHER = Searcher(ENV.corpus, ENV.engine)
QUESTIONS = [task.question for task in ENV.tasks]
HITS = SEARCHER.search(QUESTIONS, 5)


def test_langchain():
    retriever = retrievers.langchain(SEARCHER, 5)
    for got in (retriever.batch(QUESTIONS), [retriever.invoke(q) for q in QUESTIONS]):
        assert [[d.id for d in docs] for docs in got] == [[h.passage.id for h in r] for r in HITS]
    first = retriever.invoke(QUESTIONS[0])[0]
    assert first.metadata["score"] == HITS[0][0].score
    assert first.page_content == HITS[0][0].passage.text


def test_pyterrier():
    transformer = retrievers.pyterrier(SEARCHER, 5)
    topics = pd.DataFrame({"qid": [t.id for t in ENV.tasks], "query": QUESTIONS})
    run = transformer(topics)
    for task, hits in zip(ENV.tasks, HITS, strict=True):
        mine = run[run.qid == task.id].sort_values("rank")
        assert mine.docno.tolist() == [h.passage.id for h in hits]
    judged = pd.DataFrame(
        [{"qid": t.id, "docno": d, "label": 1} for t in ENV.tasks for d in t.evidence]
    )
    table = pt.Experiment([transformer], topics, judged, ["recip_rank"])
    reciprocal = [
        next((1 / i for i, h in enumerate(hits, 1) if h.passage.id in task.evidence), 0.0)
        for task, hits in zip(ENV.tasks, HITS, strict=True)
    ]
    assert table.recip_rank[0] == pytest.approx(sum(reciprocal) / len(reciprocal))


def test_a_search_without_hits_is_an_empty_table():
    run = retrievers.pyterrier(SEARCHER)(pd.DataFrame({"qid": ["1"], "query": ["zzzqqq"]}))
    assert len(run) == 0
    assert "docno" in run.columns
