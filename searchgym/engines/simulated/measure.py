"""Measures how often a simulator obeys: the answer in useful documents, none in noisy ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...batching import run_batch
from ...errors import EngineError
from ...seeding import derive
from ...types import CallContext, Failure, Query, SearchEngine, Task
from .text import mentions, telling


class StatedAnswers(NamedTuple):
    """Counts of stated answers for one kind of document."""

    kind: str
    """``useful`` or ``noisy``."""
    queries: int
    documents: int
    stating: int
    """Documents whose title or text holds an accepted answer, as whole words."""
    results: int
    """Queries of whose documents at least one does."""
    failed: int
    """Queries that failed; not among ``queries``."""

    @property
    def per_document(self) -> float:
        return self.stating / max(self.documents, 1)

    @property
    def per_result(self) -> float:
        return self.results / max(self.queries, 1)


def measure(
    engine: SearchEngine, tasks: Sequence[Task], *, k: int = 3, seed: int = 0
) -> tuple[StatedAnswers, StatedAnswers]:
    """Ask every task's last gold query (else its question) once at noise 0 and once at noise 1.

    Left out are tasks whose answer is yes, no, a number below 100 or none, and those that join
    several chains, of which the last query need not find the answer. ``EngineError`` if none is
    left.
    """
    asked = [
        t for t in tasks
        if not t.should_abstain and telling(t.answers[0])
        and (t.difficulty is None or t.difficulty.branches == 1)
    ]  # fmt: skip
    if not asked:
        raise EngineError(f"none of {len(tasks)} tasks has an answer a text can be searched for")
    counts = []
    for kind, noise in (("useful", 0.0), ("noisy", 1.0)):
        queries = [
            Query(
                (task.queries or (task.question,))[-1],
                k,
                CallContext(derive(seed, kind, task.id), task.id, {"noise": noise}, None, task),
            )
            for task in asked
        ]
        documents = stating = results = failed = 0
        for task, ranking in zip(asked, run_batch(engine, queries), strict=True):
            if isinstance(ranking, Failure):
                failed += 1
                continue
            holds = [mentions(f"{p.title} . {p.text}", task.answers) for p, _ in ranking]
            documents += len(holds)
            stating += sum(holds)
            results += any(holds)
        counts.append(StatedAnswers(kind, len(asked) - failed, documents, stating, results, failed))
    return counts[0], counts[1]
