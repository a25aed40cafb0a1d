from __future__ import annotations

import math
from dataclasses import replace

import pytest

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine
from searchgym.errors import EngineError
from searchgym.tasks.audit import verify
from searchgym.tasks.build import build_tasks
from searchgym.types import ABSTAIN, Failure
from tests.tasks.tiny import make_corpus, random_world


@pytest.fixture(scope="module")
def proved():
    world = random_world(11)
    corpus = make_corpus(world)
    counts = {"simple": 40, "chain": 40, "comparison": 40, "parallel": 20, "unanswerable": 20}
    return world, corpus, build_tasks(world, corpus, counts=counts, seed=11), BM25Engine(corpus)


def _reason(task, world, corpus, engine):
    report = verify([task], world, corpus, engine)
    return report.rejected[0].reason if report.rejected else "kept"


def test_built_tasks_survive(proved):
    world, corpus, tasks, engine = proved
    report = verify(tasks, world, corpus, engine)
    assert report.rate() >= 0.85
    assert {r.reason for r in report.rejected} <= {"not retrieved"}
    assert len(report.kept) + len(report.rejected) == len(tasks)
    assert [t for t in tasks if t in report.kept] == list(report.kept)
    assert report.engine == engine.fingerprint
    assert "comparison" in report.table()
    assert report.counts()["simple"]["built"] == 40
    assert math.isnan(report.rate("count"))


def test_kept_tasks_are_retrieved_one_by_one(proved):
    world, corpus, tasks, engine = proved
    for task in verify(tasks, world, corpus, engine, k=3).kept[::5]:
        found = {h.passage.id for q in task.queries for h in engine.search([q], 3)[0]}
        assert set(task.evidence) <= found
    strict = verify(tasks, world, corpus, engine, k=1)
    assert len(strict.kept) <= len(verify(tasks, world, corpus, engine, k=3).kept)


def test_each_kind_of_fault_is_named(proved):
    world, corpus, tasks, engine = proved
    task = next(t for t in verify(tasks, world, corpus, engine).kept if t.family == "simple")
    refused = next(t for t in tasks if t.family == "unanswerable")
    graph = task.graph
    edge = graph.edges[0]

    def with_edge(**changes):
        return replace(task, graph=replace(graph, edges=(replace(edge, **changes),)))

    bare = replace(graph, nodes=tuple(replace(n, given=False) for n in graph.nodes))
    faults = {
        "kept": task,
        "no graph": replace(task, graph=None),
        "answer differs": replace(task, answers=("Nobody",)),
        "not unique": replace(task, graph=bare),
        "wrong fact": with_edge(fact=(edge.fact + 1) % world.n_facts),
        "not stated": with_edge(passage=corpus[len(corpus) - 1].id),
        "not retrieved": replace(task, queries=("nothing of the kind",)),
        "answerable": replace(task, should_abstain=True, answers=(ABSTAIN,)),
    }
    for reason, changed in faults.items():
        assert _reason(changed, world, corpus, engine) == reason
    assert _reason(replace(refused, should_abstain=False), world, corpus, engine) == "not unique"


def test_a_span_that_does_not_hold_the_object_is_not_a_statement(proved):
    world, corpus, tasks, engine = proved
    blank = Corpus("blank", (p._replace(text="x" * len(p.text)) for p in corpus))
    hollow = make_corpus(world)
    hollow._passages = list(blank)
    task = next(t for t in tasks if t.family == "simple")
    assert _reason(task, world, hollow, engine) == "not stated"


class _Broken:
    needs_task = False
    fingerprint = "broken"

    def cache_key(self, request):
        return None

    def run(self, batch):
        return [Failure("timeout", "too slow")] * len(batch)


def test_a_failing_engine_is_an_error(proved):
    world, corpus, tasks, _ = proved
    with pytest.raises(EngineError, match="timeout"):
        verify(tasks, world, corpus, _Broken())
