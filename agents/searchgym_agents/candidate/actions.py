"""The legal candidate actions of a state: a short, deterministic list a small policy can score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from searchgym.agents.simple import State
from searchgym.text import bare_title
from searchgym.types import ABSTAIN, Action, Answer, Search
from searchgym.utils.english import STOP, fold

from .question import Question, read_question
from .spans import TokenizedPassage, analyse

FORMS = ("question", "mention", "mention+relation", "span", "yes", "no", "abstain")


class Candidate(NamedTuple):
    """An action with where it came from."""

    action: Action
    form: str
    """Form of the action, one of ``FORMS``."""
    text: str
    """The query, or the answer."""
    norm: str
    """Normalised text of the span behind it ("" if there is none)."""
    places: tuple[tuple[int, int], ...] = ()
    """(document, span) indices of every occurrence among the state's documents."""
    mention: int = -1
    """Index into the question's mentions, for searches that come from it."""

    @property
    def is_search(self) -> bool:
        return isinstance(self.action, Search)


@dataclass(frozen=True, slots=True)
class CandidateLimits:
    """Largest number of candidates of each sort that a state offers."""

    answers: int = 150
    question_mentions: int = 4
    passage_mentions: int = 8
    words: int = 12
    """Largest number of words in a span that is offered as an answer."""


DEFAULT_LIMITS = CandidateLimits()


def documents(state: State) -> tuple[TokenizedPassage, ...]:
    """The analysed passages of a state, in the order they were first seen."""
    return tuple(analyse(p.title, p.text) for p, _, _ in state.found)


def candidates(state: State, limits: CandidateLimits = DEFAULT_LIMITS) -> list[Candidate]:
    """All candidate actions, deduplicated by normalised text, in a fixed order.

    Searches come first (question, its mentions, passage mentions); answers only once something was
    searched, or where nothing can be: yes/no (polar questions only), spans in order of appearance,
    the question's alternatives, and the refusal. Never empty.
    """
    question = read_question(state.question)
    docs = documents(state)
    merged = _merge(docs)
    out: list[Candidate] = []
    if state.can_search:
        out.extend(_searches(state, question, docs, merged, limits))
    # Before anything was looked for, an answer could only be a guess and a refusal a pose: neither
    # is offered, or a player that knows nothing would win every other "A or B" at once.
    looked = bool(state.queries) or not state.can_search
    if question.polar and looked:
        out.append(Candidate(Answer("yes"), "yes", "yes", "yes"))
        out.append(Candidate(Answer("no"), "no", "no", "no"))
    spans = 0
    for norm, (text, places) in merged.items():
        if norm in ("yes", "no") or not 0 < _content(norm) <= limits.words:
            continue
        out.append(Candidate(Answer(text), "span", text, norm, places))
        spans += 1
        if spans == limits.answers:
            break
    for text in question.alternatives if looked else ():
        norm = fold(text)
        if norm and norm not in merged:
            out.append(Candidate(Answer(text), "span", text, norm))
    if looked or not out:
        out.append(Candidate(Answer(ABSTAIN), "abstain", ABSTAIN, ""))
    return out


@lru_cache(maxsize=400_000)
def _content(norm: str) -> int:
    """Number of a span's words, 0 if all of them are function words."""
    words = norm.split()
    return len(words) if any(w not in STOP for w in words) else 0


def _merge(
    docs: tuple[TokenizedPassage, ...],
) -> dict[str, tuple[str, tuple[tuple[int, int], ...]]]:
    """Normalised text → (surface text of the first occurrence, all places)."""
    merged: dict[str, tuple[str, list[tuple[int, int]]]] = {}
    for d, doc in enumerate(docs):
        for s, norm in enumerate(doc.norms):
            if norm in merged:
                merged[norm][1].append((d, s))
            else:
                merged[norm] = (doc.texts[s], [(d, s)])
    return {norm: (text, tuple(places)) for norm, (text, places) in merged.items()}


def _clean(text: str) -> str:
    return text[:-2] if text.endswith(("'s", "’s")) else text


def _searches(
    state: State,
    question: Question,
    docs: tuple[TokenizedPassage, ...],
    merged: dict[str, tuple[str, tuple[tuple[int, int], ...]]],
    limits: CandidateLimits,
) -> list[Candidate]:
    asked = {fold(q) for q in state.queries}
    out: list[Candidate] = []

    def offer(
        query: str, form: str, norm: str, places: tuple[tuple[int, int], ...], m: int
    ) -> None:
        key = fold(query)
        if key and key not in asked:
            asked.add(key)
            out.append(Candidate(Search((query,)), form, query, norm, places, m))

    offer(state.question, "question", "", (), -1)
    relation = question.relation_text()
    kept = 0
    for m, text in enumerate(question.mention_texts):
        if question.mentions[m].kind in ("date", "year") or kept == limits.question_mentions:
            continue
        text = _clean(text)
        norm = fold(text)
        if not norm or any(norm == fold(t) for t in question.mention_texts[:m]):
            continue
        kept += 1
        places = merged[norm][1] if norm in merged else ()
        offer(text, "mention", norm, places, m)
        if relation:
            offer(f"{text} {relation}", "mention+relation", norm, places, m)
    outer = question.outer_text()
    for text, norm, places in _passage_mentions(question, docs, merged)[: limits.passage_mentions]:
        offer(text, "mention", norm, places, -1)
        if outer:
            offer(f"{text} {outer}", "mention+relation", norm, places, -1)
    return out


def _passage_mentions(
    question: Question,
    docs: tuple[TokenizedPassage, ...],
    merged: dict[str, tuple[str, tuple[tuple[int, int], ...]]],
) -> list[tuple[str, str, tuple[tuple[int, int], ...]]]:
    """Names worth following, the likeliest first: those in sentences that share most content
    words with the question; names of the question itself and of pages already read come last."""
    titles = {fold(bare_title(doc.title)) for doc in docs}
    best: dict[str, int] = {}
    for doc in docs:
        overlap = _sentence_overlap(question.words.text, doc.title, doc.text)
        for span, sentence in doc.named:
            norm = doc.norms[span]
            best[norm] = max(best.get(norm, 0), overlap[sentence])
    ranked = [
        (norm in titles, -best[norm], order, norm)
        for order, norm in enumerate(merged)
        if norm in best and norm not in question.norm and len(norm.split()) <= 8
    ]
    ranked.sort()
    return [(merged[norm][0], norm, merged[norm][1]) for _, _, _, norm in ranked]


@lru_cache(maxsize=60_000)
def _sentence_overlap(question: str, title: str, text: str) -> list[int]:
    """Count the content words that each sentence of a passage shares with the question."""
    words = read_question(question).words
    content = {s for s, w in zip(words.stem, words.lower, strict=True) if w not in STOP}
    doc = analyse(title, text)
    seen: dict[int, set[str]] = {}
    for sentence, stemmed in zip(doc.words.sentence, doc.words.stem, strict=True):
        if stemmed in content:
            seen.setdefault(sentence, set()).add(stemmed)
    titled = seen.get(0, set())
    last = doc.words.sentence[-1] if doc.words.sentence else 0
    return [len(seen.get(s, set()) | titled) for s in range(last + 1)]
