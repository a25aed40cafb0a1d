"""Measures that several rewards share: the look-ups of an episode and what each showed, named
scores of its end, and whether its texts keep the form.

Everything is read off the episode and its task. What the papers let a language model judge (is a
query useful, was a passage needed) is exact here wherever the task names its gold passages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..text import match
from ..types import Access, Invalid, Page, Search, ToolResult
from .outcome import Outcome, em, f1, format


class LookedUp(NamedTuple):
    """One query, opened page or call of another tool, and what it showed."""

    turn: int
    """Number of its turn."""
    tool: str
    asked: str
    """The query or URL; of another tool, its arguments' values."""
    ids: tuple[str, ...]
    """Ids of the passages that it showed, best first."""
    urls: tuple[str, ...]
    """URLs of the results, or the opened page's."""
    seen: int
    """Number of them that an earlier look-up had shown."""
    repeats: bool
    """True if an earlier look-up asked the same tool for the same, up to case and blanks."""


def lookups(outcome: Outcome) -> tuple[LookedUp, ...]:
    """Every look-up so far, in order; parallel queries one by one, each after the one before.

    A passage of which an opened page showed only the beginning counts once it was shown in full.
    """
    shown = frozenset(outcome.seen)
    before: set[str] = set()
    asked_before: set[tuple[str, str]] = set()
    looked_up: list[LookedUp] = []
    for turn in outcome.turns:
        for call, result in zip(turn.calls, turn.results, strict=True):
            asked = " ".join(str(value) for value in call.args.values())
            ids, urls = _shown(result) if isinstance(result, ToolResult) else ((), ())
            ids = tuple(dict.fromkeys(i for i in ids if i in shown))
            key = call.tool, " ".join(asked.lower().split())
            seen = sum(i in before for i in ids)
            looked_up.append(
                LookedUp(turn.number, call.tool, asked, ids, urls, seen, key in asked_before)
            )
            before.update(ids)
            asked_before.add(key)
    return tuple(looked_up)


def _shown(result: ToolResult) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids and URLs of what a result showed. Passages written for a query name in ``evidence`` the
    gold passages that they stand for."""
    page = result.meta.get("page")
    if isinstance(page, Page):
        return page.passage_ids, (page.url,)
    ids = (*(hit.passage.id for hit in result.hits), *result.meta.get("evidence", ()))
    return ids, tuple(hit.passage.url for hit in result.hits)


def useful(lookup: LookedUp, outcome: Outcome) -> bool:
    """Check whether a look-up showed a gold passage, whether or not it was new."""
    return not set(outcome.evidence).isdisjoint(lookup.ids)


def new_evidence(outcome: Outcome) -> tuple[int, ...]:
    """Number of gold passages that each turn so far showed for the first time."""
    total, last = outcome.evidence_total, len(outcome.turns) - 1
    return tuple(
        outcome.new_evidence
        if turn.number == last and "evidence" not in turn.reward_parts
        else round(turn.reward_parts.get("evidence", 0.0) * total)
        for turn in outcome.turns
    )


def well_formed(outcome: Outcome) -> bool:
    """Check whether every turn was a legal action and the last one an answer."""
    return outcome.answered and not any(type(a) is Invalid for a in outcome.actions)


def token_f1(one: str, other: str) -> float:
    """Token F1 of two texts after SQuAD normalisation."""
    return match(one, (other,)).f1


def pages(outcome: Outcome) -> tuple[str, ...]:
    """URLs of the pages that were asked for, in order, repeated ones each time."""
    return tuple(
        turn.action.url.strip()
        for turn in outcome.turns
        if isinstance(turn.action, Access) and turn.calls
    )


def queries(outcome: Outcome) -> tuple[str, ...]:
    """Queries that were run, in order."""
    return tuple(
        query
        for turn in outcome.turns
        if isinstance(turn.action, Search) and turn.calls
        for query in turn.action.queries
    )


def evidence_recall(outcome: Outcome) -> float:
    """Share of the gold passages that were shown; 0 where the task names none."""
    total = outcome.evidence_total
    return outcome.evidence_found / total if total else 0.0


def grounded(outcome: Outcome) -> float:
    """1 if the answer stands as whole words in a result that was shown."""
    return 1.0 if outcome.answered and stands_in_results(outcome, (outcome.answer,)) else 0.0


def stands_in_results(outcome: Outcome, answers: tuple[str, ...]) -> bool:
    """Check whether one of the texts stands as whole words in a passage, page or tool's text."""
    texts: list[str] = []
    for turn in outcome.turns:
        for result in turn.results:
            if isinstance(result, ToolResult):
                texts += [f"{hit.passage.title} . {hit.passage.text}" for hit in result.hits]
                texts += [part for part in result.parts if isinstance(part, str)]
                if isinstance(page := result.meta.get("page"), Page):
                    texts.append(f"{page.title} . {page.text}")
    return any(match(text, answers).cover for text in texts)


def thrift(outcome: Outcome) -> float:
    """Gold passages over queries, at most 1: 1 if no query was superfluous."""
    return min(1.0, outcome.evidence_total / outcome.searches) if outcome.searches else 1.0


SCORES: Mapping[str, Callable[[Outcome], float]] = {
    "em": em,
    "f1": f1,
    "format": format,
    "answered": lambda outcome: float(outcome.answered),
    "evidence": evidence_recall,
    "grounded": grounded,
    "thrift": thrift,
}
"""Scores in [0, 1] of a finished episode, by the names that options of rewards take."""
