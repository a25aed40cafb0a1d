"""Judges whether a corpus answers a question, also within k results and n turns, and if not, why.

Where the passages that hold the evidence are known, all of them must be there and be shown, and an
accepted answer must be readable in them; where they are not, a passage in which an accepted answer
can be read. Answers that no passage need state (yes or no, counts, lists) are judged by the
evidence alone, and not at all where none is known; nor are questions whose answer is a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from searchgym.corpora.corpus import AnswerIndex, Corpus, is_aggregated
from searchgym.text import bare_title, normalise_answer
from searchgym.types import SearchEngine, Task

from .searcher import Progress, Sought, search

Kind = Literal["stated", "aggregated", "not judged"]
NOWHERE = "answer nowhere in the corpus"
NO_GOLD = "gold passage missing from the corpus"
ELSEWHERE = "answer not in the gold passages"
UNFOUND = "not retrieved within k"
LATE = "needs more turns"
REASONS = (NO_GOLD, NOWHERE, ELSEWHERE, UNFOUND, LATE)
"""Reasons why a question cannot be answered; the first three are the corpus's fault."""
IN_CORPUS = frozenset({"", UNFOUND, LATE})
"""Reasons under which the corpus could answer."""
MORE_TURNS = 6
"""Turns tried beyond the limit, to tell "needs more turns" from "not retrieved"."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one question."""

    task_id: str
    question: str
    family: str
    hops: int
    kind: Kind
    """"aggregated": judged by its evidence alone; "not judged": says nothing about the corpus."""
    reason: str
    """"": answerable; else one of :data:`REASONS`, or why it is not judged."""
    detail: str = ""
    turns: int = 0
    """Searches that the scripted searcher needed; 0 where it did not get there."""
    queries: tuple[str, ...] = ()
    """The searches it took."""
    passages: int = 0
    """Passages in which an accepted answer can be read."""


def judge(
    tasks: Sequence[Task],
    corpus: Corpus,
    engine: SearchEngine,
    *,
    k: int = 5,
    turns: int = 4,
    progress: Progress | None = None,
) -> list[Verdict]:
    """One verdict per task, in order.

    Args:
        tasks: Questions with accepted answers; gold passages, pages and queries are used where
            they are named (``evidence``, ``meta["supporting_titles"]``, ``queries``).
        corpus: What is to answer them.
        engine: Searches it.
        k: Results per search.
        turns: Searches, one query each.
        progress: Told how many questions have been finished.

    Raises:
        EngineError: a query failed.
    """
    index = AnswerIndex(corpus)
    pages = titled(corpus)
    from_corpus: list[Verdict | Sought] = [_from_corpus(task, index, pages) for task in tasks]
    sought = [s for s in from_corpus if isinstance(s, Sought)]
    if progress is not None:
        progress(len(from_corpus) - len(sought))
    search(sought, engine, k=k, turns=turns + MORE_TURNS, progress=progress)
    return [_verdict(f, turns) if isinstance(f, Sought) else f for f in from_corpus]


def family_of(task: Task) -> str:
    """The family of a generated task; what a real set calls the type of its question."""
    return task.family if task.family != "real" else str(task.meta.get("type") or "real")


def _from_corpus(task: Task, index: AnswerIndex, pages: dict[str, str]) -> Verdict | Sought:
    """Return what the corpus alone decides; else what has to be searched for."""
    if task.should_abstain:
        return _told(task, "not judged", "to be refused")
    gold, absent = gold_passages(task, index.corpus, pages)
    aggregated = is_aggregated(task)
    places = [] if aggregated else index.places(task.answers)
    kind: Kind = "aggregated" if aggregated else "stated"
    if aggregated and not gold and not absent:
        return _told(task, "not judged", "worked out from passages that are not named")
    if absent:
        return _told(task, kind, NO_GOLD, ", ".join(absent), len(places))
    if not aggregated and not places:
        return _told(task, kind, NOWHERE, ", ".join(task.answers[:3]))
    if not aggregated and gold and not index.readable(task.answers, gold):
        example = index.corpus[places[0]].id
        return _told(task, kind, ELSEWHERE, f"but in {example}", len(places))
    return Sought(task, frozenset(gold), frozenset(index.corpus[p].id for p in places), index)


def _verdict(sought: Sought, turns: int) -> Verdict:
    task, needed = sought.task, len(sought.asked)
    kind: Kind = "aggregated" if is_aggregated(task) else "stated"
    if not sought.done:
        missing = ", ".join(sorted(sought.missing)) or "no passage with the answer"
        return _told(task, kind, UNFOUND, missing, len(sought.stated_in), sought)
    reason = "" if needed <= turns else LATE
    return _told(task, kind, reason, "", len(sought.stated_in), sought, needed)


def _told(
    task: Task,
    kind: Kind,
    reason: str,
    detail: str = "",
    passages: int = 0,
    sought: Sought | None = None,
    turns: int = 0,
) -> Verdict:
    queries = tuple(sought.asked) if sought is not None else ()
    return Verdict(
        task.id, task.question, family_of(task), task.hops, kind, reason, detail, turns, queries,
        passages,
    )  # fmt: skip


def gold_passages(task: Task, corpus: Corpus, pages: dict[str, str]) -> tuple[list[str], list[str]]:
    """(gold passages in the corpus, those that are missing); pages count where a set names only
    their titles, each by its first passage."""
    if task.evidence:
        inside = [p for p in dict.fromkeys(task.evidence) if p in corpus]
        return inside, [p for p in dict.fromkeys(task.evidence) if p not in corpus]
    titles = task.meta.get("supporting_titles") or ()
    known = {str(t): pages.get(_key(str(t))) for t in titles}
    return [p for p in known.values() if p], [t for t, p in known.items() if not p]


def titled(corpus: Corpus) -> dict[str, str]:
    """Normalised title → its first passage."""
    passage_of: dict[str, str] = {}
    for passage in corpus:
        passage_of.setdefault(_key(passage.title), passage.id)
        passage_of.setdefault(_key(bare_title(passage.title)), passage.id)
    return passage_of


def _key(title: str) -> str:
    return normalise_answer(title)
