"""Training pairs for a simulator, and a measure of how often one obeys.

ZeroSearch lets a strong model judge which results of a real engine are useful. Here it is exact: a
document is useful if it states what its *query* asks for (``relevance``), and noisy if it states no
accepted answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...batching import run_batch
from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...seeding import derive, stream
from ...types import CallContext, Failure, Passage, Query, SearchEngine, Task
from .documents import Document, write_documents
from .prompts import Role, sft_prompt
from .relevance import Relevance, excerpt, mentions, sentences, snippet, telling

POOL = 20
"""Hits per query that noise is taken from."""


class _Size(NamedTuple):
    docs: int
    words: int
    before: int | None


class SimulatorPair(NamedTuple):
    """One training example, and where it comes from."""

    prompt: str
    completion: str
    kind: str
    """``useful`` or ``noisy``."""
    task: str
    query: str
    answer: str
    """Answer that useful documents state: of a query for an inner hop, the name that leads on."""


def simulator_pairs(
    tasks: Iterable[Task],
    corpus: Corpus,
    engine: SearchEngine,
    *,
    docs: int = 3,
    words: int = 30,
    noise: float = 0.5,
    questions: bool = True,
    before: int | None = None,
    seed: int = 0,
) -> Iterator[SimulatorPair]:
    """A useful pair for each query of each task (its gold queries and, with ``questions``, its
    question), and a noisy one for the share ``noise`` of them: noise is learned with ease, to state
    the answer is not.

    ``before``: the answer stands in a snippet, after at most so many words, which small models
    learn far sooner; ``None``: in whole sentences, the longest of which are cut.

    Useful documents are excerpts of the gold passage that the query asks for (or, where a set names
    none, of hits) that state what it is after; each holds the very answer the prompt names. Noisy
    ones are excerpts of other hits of ``engine`` that state no accepted answer. Answers that cannot
    be recognised in a text (yes, no, small numbers) give noisy pairs only, and so do tasks to be
    refused and queries that ask for no gold passage. ``EngineError`` for impossible numbers or an
    engine that fails.
    """
    if docs < 1 or words < 5 or not 0 <= noise <= 1:
        raise EngineError(
            f"docs must be ≥ 1, words ≥ 5 and noise in [0, 1]; got {docs}, {words}, {noise}"
        )
    context, relevance = CallContext(0, "simulator", {}), Relevance(corpus)
    for task in tasks:
        own = (task.question,) if questions or not task.queries else ()
        queries = tuple(dict.fromkeys((*task.queries, *own)))
        rankings = engine.run([Query(text, POOL, context) for text in queries])
        for query, ranking in zip(queries, rankings, strict=True):
            if isinstance(ranking, Failure):
                raise EngineError(f"the engine failed on {query!r}: {ranking.message}")
            draw = stream(derive(seed, task.id), query)
            passages = [hit.passage for hit in ranking]
            noisy = bool(draw.random() < noise)
            size = _Size(docs, words, before)
            yield from _pairs(task, query, passages, relevance, size, noisy, draw)


def _pairs(
    task: Task,
    query: str,
    passages: Sequence[Passage],
    relevance: Relevance,
    size: _Size,
    noisy: bool,
    draw: np.random.Generator,
) -> Iterator[SimulatorPair]:
    corpus = relevance.corpus
    gold = [corpus.passage(name) for name in task.evidence if name in corpus]
    first = "" if task.should_abstain else task.answers[0]
    wanted, sources = first, list(passages)
    if gold:  # what this very query asks for
        hops = relevance.hops(query, task)
        wanted = hops[0].answer if hops else ""
        sources = [hop.passage for hop in hops if hop.answer == wanted]
        wanted = first if wanted in task.answers else wanted
    made = {"noisy": (first, _noisy(task, passages, gold, size, draw))} if noisy else {}
    if first and wanted and telling(wanted):
        stating = [p for p in sources if mentions(f"{p.title} {p.text}", [wanted])]
        made["useful"] = (wanted, _useful(wanted, stating, size, draw))
    for kind, (answer, documents) in sorted(made.items(), reverse=True):
        if documents:
            role = Role(query, len(documents), size.words, kind == "noisy", task.question, answer)
            text = write_documents(documents, answer if kind == "useful" else "")
            yield SimulatorPair(sft_prompt(role), text, kind, task.id, query, answer)


def _useful(
    answer: str, passages: Sequence[Passage], size: _Size, draw: np.random.Generator
) -> list[Document]:
    """Excerpts that state ``answer`` (in their title, if the passage is about it)."""
    documents: dict[Document, None] = {}
    for _ in range(2 * size.docs):
        for passage in passages:
            parts = sentences(passage.text)
            stating = [i for i, s in enumerate(parts) if mentions(s, [answer])]
            if not parts or not (stating or mentions(passage.title, [answer])):
                continue  # stated across sentences: no excerpt would hold it for sure
            first = int(draw.choice(stating)) if stating else int(draw.integers(len(parts)))
            if size.before is not None and stating:
                after = " ".join(parts[first:])
                text = snippet(after, answer, int(draw.integers(size.before + 1)), size.words)
            else:
                lead = not documents or draw.random() < 0.7
                text = excerpt(parts, first, size.words, draw, keep=[answer], lead=lead)
            if text:
                documents[Document(passage.title, text)] = None
    return list(documents)[: size.docs]


def _noisy(
    task: Task,
    passages: Sequence[Passage],
    gold: Sequence[Passage],
    size: _Size,
    draw: np.random.Generator,
) -> list[Document]:
    """Excerpts of other hits without any accepted answer, mostly from the top."""
    documents: list[Document] = []
    order = np.argsort(np.arange(len(passages)) * draw.random(len(passages)), kind="stable")
    for at in order:
        passage = passages[at]
        parts = sentences(passage.text)
        if passage in gold or not parts:
            continue
        text = excerpt(parts, int(draw.integers(len(parts))), size.words, draw)
        if not mentions(f"{passage.title} {text}", task.answers):
            documents.append(Document(passage.title, text))
        if len(documents) == size.docs:
            break
    return documents


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
