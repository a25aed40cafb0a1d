"""A state's candidates as numbers: one row per candidate, one named column per feature."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.agents.simple import State
from searchgym.seeding import stream
from searchgym.utils.english import Rarity, Words, fold, tokens

from .actions import DEFAULT_LIMITS, FORMS, Candidate, CandidateLimits, candidates
from .comparison import CHOICE_NAMES, POLAR_NAMES, ComparedPage, choice_columns, polar_columns
from .pairs import (
    COVER_NAMES,
    SPAN_NAMES,
    Encoded,
    Lengths,
    Pair,
    compare,
    encode_question,
    lengths,
)
from .question import TYPES, Question, read_question
from .spans import TokenizedPassage, analyse

if TYPE_CHECKING:
    from .encoder import Progress, WordEncoder

FEATURE_VERSION = 7
"""Goes up whenever a column changes its meaning; saved models name the version they need."""

ASKED = 32
"""Columns that say what is asked, whatever the wording: a fixed random projection of the question's
word vectors outside its names. Zero without an encoder."""
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
    "pages_named",
    *(f"asked_{i}" for i in range(ASKED)),
)
LINK_NAMES = tuple(
    """has_place places passages_with rank newest oldest titles_page unread page_followed
    page_linked link_rel_soft link_men_lex bridge new_words shorter_inside longer_outside
    best_in_state best_gap""".split()
)
FEATURE_NAMES: tuple[str, ...] = (
    *(f"form_{f}" for f in FORMS),
    *STATE_NAMES,
    *SPAN_NAMES,
    *LINK_NAMES,
    *CHOICE_NAMES,
    *POLAR_NAMES,
)
"""Names of the F columns, in order."""
_FORM = {form: i for i, form in enumerate(FORMS)}


class ScoredActions(NamedTuple):
    """A state ready for a policy."""

    candidates: tuple[Candidate, ...]
    features: NDArray[np.float32]
    """(n, len(FEATURE_NAMES))."""


_BUILT = ("_questions", "_pairs", "_lengths", "_states")
"""Caches, which another process fills for itself."""


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
        limits: CandidateLimits = DEFAULT_LIMITS,
        states: int = 10_000,
    ) -> None:
        self.encoder, self.limits = encoder, limits
        self.rarity = Rarity(encoder.vocabulary() if encoder is not None else None)
        self._questions: dict[str, tuple[Question, Encoded]] = {}
        self._pairs: dict[tuple[str, str, str], Pair] = {}
        self._lengths: dict[tuple[str, str], Lengths] = {}
        self._states: OrderedDict[State, ScoredActions] = OrderedDict()
        self._capacity = states

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was built so far."""
        kept = {k: v for k, v in self.__dict__.items() if k not in _BUILT}
        return {**kept, **{name: type(self.__dict__[name])() for name in _BUILT}}

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

    def __call__(self, state: State) -> ScoredActions:
        """Candidates and their (n, F) features; the same state gives the same arrays."""
        got = self._states.get(state)
        if got is None:
            got = self._states[state] = self._build(state)
            if len(self._states) > self._capacity:
                self._states.popitem(last=False)
        return got

    def candidates(self, state: State) -> tuple[Candidate, ...]:
        """Candidates alone, for whom features do not matter."""
        return tuple(candidates(state, self.limits))

    def clear(self) -> None:
        """Forget the questions, pairs and states seen so far, which are built anew if asked for."""
        self._questions.clear()
        self._pairs.clear()
        self._lengths.clear()
        self._states.clear()

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

    def pair(self, text: str, doc: TokenizedPassage) -> Pair:
        """Features of a question's text and a passage; kept."""
        key = (text, doc.title, doc.words.text)
        got = self._pairs.get(key)
        if got is None:
            q, encoded = self._question(text)
            vectors = self._vectors(doc.words)
            length = self._lengths.get(key[1:])
            if length is None:
                length = self._lengths[key[1:]] = lengths(doc, vectors)
            got = self._pairs[key] = compare(q, encoded, doc, vectors, length)
        return got

    @np.errstate(invalid="ignore")  # some BLAS raise the flag for lanes beyond a short row's end
    def _build(self, state: State) -> ScoredActions:
        actions = self.candidates(state)
        q, encoded = self._question(state.question)
        docs = tuple(analyse(p.title, p.text) for p, _, _ in state.found)
        pairs = [self.pair(state.question, d) for d in docs]
        out = np.zeros((len(actions), len(FEATURE_NAMES)), dtype=np.float32)
        out[np.arange(len(actions)), [_FORM[c.form] for c in actions]] = 1
        at = len(FORMS)
        out[:, at : at + len(STATE_NAMES)] = _state_columns(state, q, encoded, pairs)
        at += len(STATE_NAMES)
        spans = out[:, at : at + len(SPAN_NAMES)]
        places = _places(actions)
        _span_columns(spans, places, pairs)
        at += len(SPAN_NAMES)
        _link_columns(out[:, at : at + len(LINK_NAMES)], spans, actions, places, state, docs, pairs)
        at += len(LINK_NAMES)
        pages = [
            ComparedPage(d, p.cover, p.lead, p.block[:, _REL], p.block[:, _COS_REL])
            for d, p in zip(docs, pairs, strict=True)
        ]
        sides = choice_columns(q, pages)
        if sides:
            out[:, len(FORMS) + STATE_NAMES.index("choice")] = 1
            for row, c in enumerate(actions):
                if c.norm in sides:
                    out[row, at : at + len(CHOICE_NAMES)] = sides[c.norm]
        at += len(CHOICE_NAMES)
        if q.polar:
            evidence = polar_columns(q, pages)
            for row, c in enumerate(actions):
                if c.form in ("yes", "no"):
                    sign = 1 if c.form == "yes" else -1
                    out[row, at] = sign
                    out[row, at + 1 : at + len(POLAR_NAMES)] = sign * evidence
        return ScoredActions(actions, out)


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
    row[-ASKED:] = _asked(q, encoded)
    at = 6 + len(TYPES)
    if pairs:
        best = np.max([p.matched for p in pairs], axis=0)
        total = np.maximum(encoded.weights.sum(1), 1e-6)
        exact = (best >= 0.999).astype(np.float32)
        soft, lex = encoded.weights @ best / total, encoded.weights @ exact / total
        row[at : at + 5] = lex[0], soft[0], lex[1], lex[2], soft[2]
        row[at + 5] = max(p.cover[4] for p in pairs)
        titles = {p.title_norm for p in pairs}
        norms = {fold(t) for t in q.mention_texts}
        row[at + 6] = len(norms & titles) / max(1, len(norms))
        row[at + 7] = min(2, sum(p.title_in_question for p in pairs)) / 2
    return row


def _asked(q: Question, encoded: Encoded) -> NDArray[np.float32]:
    """(ASKED,) roughly in [-1, 1]; close for questions that ask the same in other words."""
    outside = ~np.asarray(q.in_mention, dtype=bool)
    if not outside.any():
        return np.zeros(ASKED, dtype=np.float32)
    mean = encoded.vectors[outside].mean(0)
    norm = float(np.linalg.norm(mean))
    if norm == 0:
        return np.zeros(ASKED, dtype=np.float32)
    projected: NDArray[np.float32] = (mean / norm) @ _projection(len(mean))
    return projected


@lru_cache(maxsize=4)
def _projection(dim: int) -> NDArray[np.float32]:
    """(dim, ASKED) Gaussian, the same everywhere (Johnson and Lindenstrauss, 1984)."""
    return stream(0, "asked", dim).standard_normal((dim, ASKED)).astype(np.float32)


class Places(NamedTuple):
    """Every (candidate, document, span) occurrence of a state, sorted by candidate; P in all."""

    rows: NDArray[np.int64]
    """(P,) index of the candidate."""
    docs: NDArray[np.int64]
    spans: NDArray[np.int64]
    first: NDArray[np.int64]
    """(R,) places at which each placed candidate's occurrences begin."""
    placed: NDArray[np.int64]
    """(R,) the candidates that have any."""


def _places(actions: Sequence[Candidate]) -> Places:
    counts = np.asarray([len(c.places) for c in actions], dtype=np.int64)
    rows = np.repeat(np.arange(len(actions)), counts)
    flat = [number for c in actions for place in c.places for number in place]
    table = np.asarray(flat, dtype=np.int64).reshape(-1, 2)
    placed = np.flatnonzero(counts)
    first = (np.cumsum(counts) - counts)[placed]
    return Places(rows, table[:, 0], table[:, 1], first, placed)


def _span_columns(out: NDArray[np.float32], places: Places, pairs: list[Pair]) -> None:
    """The elementwise largest value over a candidate's occurrences."""
    if not len(places.rows):
        return
    offset = np.cumsum([0, *(len(p.block) for p in pairs)])
    blocks = np.concatenate([p.block for p in pairs])[offset[places.docs] + places.spans]
    out[places.placed] = np.maximum.reduceat(blocks, places.first, axis=0)


_REL, _MEN = SPAN_NAMES.index("near_rel_soft"), SPAN_NAMES.index("near_men_lex")
_COS_REL = SPAN_NAMES.index("cos_relation")
_SENT = SPAN_NAMES.index("sent_all_soft")
_IN_Q = SPAN_NAMES.index("in_question")


def _link_columns(
    out: NDArray[np.float32],
    spans: NDArray[np.float32],
    actions: Sequence[Candidate],
    places: Places,
    state: State,
    docs: tuple[TokenizedPassage, ...],
    pairs: list[Pair],
) -> None:
    if not len(places.rows):
        return
    titles: dict[str, int] = {}
    for d, pair in enumerate(pairs):
        titles.setdefault(pair.title_norm, d)
    queried = {fold(x) for x in state.queries}
    links = _links(actions, titles)
    last_turn = max(turn for _, _, turn in state.found)
    about_docs = []
    for d, ((_, rank, turn), pair) in enumerate(zip(state.found, pairs, strict=True)):
        row = links.get(d, -1)
        linked = row >= 0
        about_docs.append(
            (
                1 / (1 + rank),
                turn == last_turn,
                turn == 0,
                pair.title_norm in queried,
                linked,
                spans[row, _REL] if linked else 0,
                spans[row, _MEN] if linked else 0,
                linked and not pair.title_in_question,
            )
        )
    per_doc = np.asarray(about_docs, dtype=np.float32)
    best_of = np.maximum.reduceat(per_doc[places.docs], places.first, axis=0)
    placed = places.placed
    out[placed, 0] = 1
    counts = np.diff(np.append(places.first, len(places.rows)))
    out[placed, 1] = np.minimum(counts, 6) / 6
    fresh = np.ones(len(places.rows), dtype=np.float32)
    fresh[1:] = (np.diff(places.docs) != 0) | (np.diff(places.rows) != 0)
    out[placed, 2] = np.add.reduceat(fresh, places.first) / len(docs)
    out[placed, 3:6] = best_of[:, 0:3]
    out[placed, 8:13] = best_of[:, 3:8]
    rows = [i for i, c in enumerate(actions) if c.form == "span" and c.places]
    near = spans[:, _REL] + spans[:, _SENT] - 2 * spans[:, _IN_Q]
    best = float(near[rows].max()) if rows else 0.0
    out[rows, 16] = near[rows] >= best
    out[rows, 17] = best - near[rows]
    matched = np.stack([p.matched for p in pairs])
    union = matched.max(0)
    whole = max(1.0, float((union > 0).sum()))
    norms = [actions[r].norm for r in placed.tolist()]
    out[placed, 7] = [norm not in titles and norm not in queried for norm in norms]
    own = np.asarray([titles.get(norm, -1) for norm in norms])
    titled, own = placed[own >= 0], own[own >= 0]
    out[titled, 6] = 1
    second = np.sort(matched, axis=0)[-2] if len(pairs) > 1 else np.zeros_like(union)
    lost = np.where(matched[own] == union, union - second, 0)  # without the candidate's own page
    out[titled, 13] = lost.sum(1) / whole
    _nesting(out, rows, {i: tokens(actions[i].norm) for i in rows})


def _links(actions: Sequence[Candidate], titles: dict[str, int]) -> dict[int, int]:
    """Document → the row of the candidate that names it from another document."""
    links: dict[int, int] = {}
    for row, c in enumerate(actions):
        d = titles.get(c.norm, -1)
        if d >= 0 and c.form == "span" and any(other != d for other, _ in c.places):
            links.setdefault(d, row)
    return links


def _nesting(
    out: NDArray[np.float32],
    rows: list[int],
    words: dict[int, frozenset[str]],
) -> None:
    """Return whether a candidate contains, or is contained in, another one of the same sentence."""
    by_word: dict[str, list[int]] = {}
    for r in rows:
        for w in words[r]:
            by_word.setdefault(w, []).append(r)
    for r in rows:
        mine = words[r]
        rarest = min([by_word[w] for w in mine], key=len)
        for other in rarest:
            if other != r and mine < words[other]:
                out[r, 15] = 1
                out[other, 14] = 1
