"""A state's candidates as numbers: one row per candidate, one named column per feature."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..text import normalise_answer
from .actions import DEFAULT_LIMITS, FORMS, Candidate, Limits, candidates
from .comparison import CHOICE_NAMES, POLAR_NAMES, choice_columns, polar_columns
from .encoder import Progress, WordEncoder
from .lexical import Rarity, Words
from .pairs import COVER_NAMES, SPAN_NAMES, Encoded, Pair, compare, encode_question
from .passages import Document, analyse
from .question import TYPES, Question, read_question
from .state import State

FEATURE_VERSION = 1
"""Goes up whenever a column changes its meaning; saved models name the version they need."""

STATE_NAMES = (
    "searches",
    "turns_left",
    "last_turn",
    "passages",
    "polar",
    "choice",
    *(f"asks_{t}" for t in TYPES),
    *(f"seen_{n}" for n in COVER_NAMES),
    "seen_best_page",
    "mentions_resolved",
)
LINK_NAMES = (
    "has_place",
    "places",
    "passages_with",
    "rank",
    "newest",
    "oldest",
    "titles_page",
    "unread",
    "page_followed",
    "page_linked",
    "link_rel_soft",
    "link_men_lex",
    "bridge",
    "new_words",
    "shorter_inside",
    "longer_outside",
    "best_in_state",
    "best_gap",
)
FEATURE_NAMES: tuple[str, ...] = (
    *(f"form_{f}" for f in FORMS),
    *STATE_NAMES,
    *SPAN_NAMES,
    *LINK_NAMES,
    *CHOICE_NAMES,
    *POLAR_NAMES,
)
"""What each of the F columns means, in order."""


class Scored(NamedTuple):
    """A state ready for a policy."""

    candidates: tuple[Candidate, ...]
    features: NDArray[np.float32]
    """(n, len(FEATURE_NAMES))."""


class FeatureBuilder:
    """Turns states into candidates and features; caches per question, pair and state.

    Args:
        encoder: gives the soft columns; without one they equal the lexical ones.
        limits: how many candidates a state may have.
        states: how many states to keep (the oldest go first).
    """

    def __init__(
        self,
        encoder: WordEncoder | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
        states: int = 100_000,
    ) -> None:
        self.encoder, self.limits = encoder, limits
        self.rarity = Rarity(encoder.vocabulary() if encoder is not None else None)
        self._questions: dict[str, tuple[Question, Encoded]] = {}
        self._pairs: dict[tuple[str, str, str], Pair] = {}
        self._states: OrderedDict[State, Scored] = OrderedDict()
        self._capacity = states

    # -- asking ----------------------------------------------------------------------------------
    def prepare(self, states: Sequence[State], progress: Progress | None = None) -> None:
        """Encode everything the states show in as few batches as possible."""
        if self.encoder is None:
            return
        texts: list[Words] = []
        for state in states:
            if state in self._states:
                continue
            texts.append(read_question(state.question).words)
            texts.extend(analyse(p.title, p.text).words for p, _, _ in state.found)
        self.encoder.prepare(texts, progress)

    def __call__(self, state: State) -> Scored:
        """Candidates and their (n, F) features; the same state gives the same arrays."""
        got = self._states.get(state)
        if got is None:
            got = self._states[state] = self._build(state)
            if len(self._states) > self._capacity:
                self._states.popitem(last=False)
        return got

    # -- computing -------------------------------------------------------------------------------
    def _vectors(self, words: Words) -> NDArray[np.float32]:
        if self.encoder is None:
            return np.zeros((len(words.start), 1), dtype=np.float32)
        return self.encoder(words)

    def _question(self, text: str) -> tuple[Question, Encoded]:
        got = self._questions.get(text)
        if got is None:
            q = read_question(text)
            got = self._questions[text] = (
                q,
                encode_question(q, self._vectors(q.words), self.rarity),
            )
        return got

    def _pair(self, text: str, doc: Document) -> Pair:
        key = (text, doc.title, doc.words.text)
        got = self._pairs.get(key)
        if got is None:
            q, encoded = self._question(text)
            got = self._pairs[key] = compare(q, encoded, doc, self._vectors(doc.words))
        return got

    def _build(self, state: State) -> Scored:
        found = tuple(candidates(state, self.limits))
        q, encoded = self._question(state.question)
        docs = tuple(analyse(p.title, p.text) for p, _, _ in state.found)
        pairs = [self._pair(state.question, d) for d in docs]
        out = np.zeros((len(found), len(FEATURE_NAMES)), dtype=np.float32)
        out[np.arange(len(found)), [FORMS.index(c.form) for c in found]] = 1
        at = len(FORMS)
        out[:, at : at + len(STATE_NAMES)] = _state_columns(state, q, encoded, pairs)
        at += len(STATE_NAMES)
        spans = out[:, at : at + len(SPAN_NAMES)]
        _span_columns(spans, found, pairs)
        at += len(SPAN_NAMES)
        _link_columns(out[:, at : at + len(LINK_NAMES)], spans, found, state, q, docs, pairs)
        at += len(LINK_NAMES)
        covers = np.stack([p.cover for p in pairs]) if pairs else np.zeros((0, 5), np.float32)
        leads = np.stack([p.lead for p in pairs]) if pairs else np.zeros((0, 2), np.float32)
        sides = choice_columns(q, docs, covers, leads)
        if sides:
            for row, c in enumerate(found):
                if c.norm in sides:
                    out[row, at : at + len(CHOICE_NAMES)] = sides[c.norm]
        at += len(CHOICE_NAMES)
        if q.polar:
            evidence = polar_columns(q, docs, covers)
            for row, c in enumerate(found):
                if c.form in ("yes", "no"):
                    sign = 1 if c.form == "yes" else -1
                    out[row, at] = sign
                    out[row, at + 1 : at + len(POLAR_NAMES)] = sign * evidence
        return Scored(found, out)


def _state_columns(
    state: State, q: Question, encoded: Encoded, pairs: list[Pair]
) -> NDArray[np.float32]:
    row = np.zeros(len(STATE_NAMES), dtype=np.float32)
    row[0] = min(len(state.queries), 5) / 5
    row[1] = min(state.turns_left, 6) / 6
    row[2] = not state.can_search
    row[3] = min(len(state.found), 15) / 15
    row[4] = q.polar
    row[5] = bool(q.alternatives)
    row[6 + TYPES.index(q.type)] = 1
    at = 6 + len(TYPES)
    if pairs:
        best = np.max([p.matched for p in pairs], axis=0)
        total = np.maximum(encoded.weights.sum(1), 1e-6)
        exact = (best >= 0.999).astype(np.float32)
        soft, lex = encoded.weights @ best / total, encoded.weights @ exact / total
        row[at : at + 5] = lex[0], soft[0], lex[1], lex[2], soft[2]
        row[at + 5] = max(p.cover[4] for p in pairs)
        titles = {p.title_norm for p in pairs}
        norms = {normalise_answer(t) for t in q.mention_texts}
        row[at + 6] = len(norms & titles) / max(1, len(norms))
    return row


def _span_columns(out: NDArray[np.float32], found: Sequence[Candidate], pairs: list[Pair]) -> None:
    """The elementwise largest value over a candidate's occurrences."""
    for row, c in enumerate(found):
        if len(c.places) == 1:
            d, s = c.places[0]
            out[row] = pairs[d].block[s]
        elif c.places:
            np.max([pairs[d].block[s] for d, s in c.places], axis=0, out=out[row])


_REL, _MEN = SPAN_NAMES.index("near_rel_soft"), SPAN_NAMES.index("near_men_lex")
_SENT = SPAN_NAMES.index("sent_all_soft")
_IN_Q = SPAN_NAMES.index("in_question")


def _link_columns(
    out: NDArray[np.float32],
    spans: NDArray[np.float32],
    found: Sequence[Candidate],
    state: State,
    q: Question,
    docs: tuple[Document, ...],
    pairs: list[Pair],
) -> None:
    titles: dict[str, int] = {}
    for d, pair in enumerate(pairs):
        titles.setdefault(pair.title_norm, d)
    last_turn = max((turn for _, _, turn in state.found), default=0)
    queried = {normalise_answer(x) for x in state.queries}
    links = _links(found, titles)
    answer_rows = [i for i, c in enumerate(found) if c.form == "span" and c.places]
    answers = set(answer_rows)
    near = spans[:, _REL] + spans[:, _SENT] - 2 * spans[:, _IN_Q]
    best = float(near[answer_rows].max()) if answer_rows else 0.0
    union = np.max([p.matched for p in pairs], axis=0) if pairs else None
    token_sets = {i: frozenset(found[i].norm.split()) for i in answer_rows}
    for row, c in enumerate(found):
        if not c.places:
            continue
        in_docs = {d for d, _ in c.places}
        out[row, 0] = 1
        out[row, 1] = min(len(c.places), 6) / 6
        out[row, 2] = len(in_docs) / max(1, len(docs))
        out[row, 3] = 1 / (1 + min(state.found[d][1] for d in in_docs))
        out[row, 4] = any(state.found[d][2] == last_turn for d in in_docs)
        out[row, 5] = any(state.found[d][2] == 0 for d in in_docs)
        own = titles.get(c.norm, -1)
        out[row, 6] = own >= 0
        out[row, 7] = own < 0 and c.norm not in queried
        out[row, 8] = any(pairs[d].title_norm in queried for d in in_docs)
        linked = [links[d] for d in in_docs if d in links]
        if linked:
            out[row, 9] = 1
            out[row, 10] = max(spans[r, _REL] for r in linked)
            out[row, 11] = max(spans[r, _MEN] for r in linked)
            out[row, 12] = any(not pairs[d].title_in_question and d in links for d in in_docs)
        if union is not None and own >= 0:
            others = [p.matched for i, p in enumerate(pairs) if i != own]
            rest = np.max(others, axis=0) if others else np.zeros_like(union)
            out[row, 13] = float((union - rest).sum()) / max(1.0, float((union > 0).sum()))
        if row in answers:
            out[row, 16] = near[row] >= best
            out[row, 17] = best - near[row]
    _nesting(out, found, answer_rows, token_sets)


def _links(found: Sequence[Candidate], titles: dict[str, int]) -> dict[int, int]:
    """Document → the row of the candidate that names it from another document."""
    links: dict[int, int] = {}
    for row, c in enumerate(found):
        d = titles.get(c.norm, -1)
        if d >= 0 and c.form == "span" and any(other != d for other, _ in c.places):
            links.setdefault(d, row)
    return links


def _nesting(
    out: NDArray[np.float32],
    found: Sequence[Candidate],
    rows: list[int],
    tokens: dict[int, frozenset[str]],
) -> None:
    """Whether a candidate contains, or is contained in, another one of the same sentence."""
    by_word: dict[str, list[int]] = {}
    for r in rows:
        for w in tokens[r]:
            by_word.setdefault(w, []).append(r)
    for r in rows:
        mine = tokens[r]
        rarest = min((by_word[w] for w in mine), key=len)
        for other in rarest:
            if other != r and mine < tokens[other]:
                out[r, 15] = 1
                out[other, 14] = 1
    del found


__all__ = ["FEATURE_NAMES", "FEATURE_VERSION", "FeatureBuilder", "Scored"]
