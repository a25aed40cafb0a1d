"""Features of the spans of one passage for one question: the static half of a candidate's columns.

Everything here depends on (question, passage) only, so it is computed once however many states
show the passage. Matching is done twice, by stem ("lex") and by contextual word vectors ("soft",
a late-interaction score in the manner of ColBERT, Khattab and Zaharia 2020): ``soft`` is the larger
of the two, so that it never loses an exact match.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.text import bare_title
from searchgym.utils.english import AUXILIARIES, STOP, Rarity, fold

from .answer_types import SHAPE_NAMES, shape_columns
from .question import Question, rarity_weights
from .spans import TokenizedPassage

Float = NDArray[np.float32]

COVER_NAMES = ("rel_lex", "rel_soft", "men_lex", "all_lex", "all_soft")
SPAN_NAMES = (
    *(f"sent_{n}" for n in COVER_NAMES),
    *(f"page_{n}" for n in COVER_NAMES),
    *(f"near_{n}" for n in ("rel_lex", "rel_soft", "men_lex")),
    "close_rel_soft",
    "after_rel_soft",
    "sent_inner_soft",
    "sent_outer_soft",
    "near_inner_soft",
    "near_outer_soft",
    "close_inner_soft",
    "close_outer_soft",
    "in_question",
    "words_in_question",
    "is_mention",
    "cos_wh",
    "cos_focus",
    "cos_question",
    "cos_relation",
    "cos_inner",
    "cos_outer",
    "cos_sentence",
    "focus_adjacent",
    "focus_in_sentence",
    "focus_inside",
    "focus_apposed",
    "focus_page_lead",
    "focus_lead_cover",
    "focus_lead_soft",
    "first_sentence",
    "depth_in_page",
    "title_in_question",
    *SHAPE_NAMES,
)


class Encoded(NamedTuple):
    """A question's parts as matching needs them; Q words."""

    vectors: Float
    """(Q, D) unit word vectors (zeros without an encoder)."""
    probes: Float
    """(6, D): wh-word, focus head, whole question, relation words, inner and outer ones."""
    weights: Float
    """(6, Q) rarity of relation words, mention words, all content words, focus words, and of the
    relation words near a mention (inner) and away from all (outer; all where none is far)."""


class Pair(NamedTuple):
    """Features of one question and one passage."""

    block: Float
    """(M, len(SPAN_NAMES)), one row per span of the document."""
    cover: Float
    """(5,) coverage of the question by the whole passage, named by ``COVER_NAMES``."""
    lead: Float
    """(2,) share of the focus words found in the first sentence, by stem and softly."""
    matched: Float
    """(Q,) best soft match of each question word in this passage."""
    title_norm: str
    title_in_question: bool


def _unit(v: Float) -> Float:
    norm = float(np.linalg.norm(v))
    return v / norm if norm > 0 else v


def encode_question(q: Question, vectors: Float, rarity: Rarity) -> Encoded:
    """Weights and probe vectors of a question; ``vectors`` (Q, D)."""
    base = rarity_weights(q, rarity)
    inside = np.asarray(q.in_mention, dtype=bool)
    focus = np.zeros(len(base), dtype=np.float32)
    focus[q.focus[0] : q.focus[1]] = base[q.focus[0] : q.focus[1]]
    relation = np.where(inside, 0, base)
    close = np.asarray(q.close, dtype=np.float32)
    inner, outer = relation * close, relation * (1 - close)
    if outer.sum() < _LEAST_OUTER * relation.sum():
        outer = relation
    weights = np.stack([relation, np.where(inside, base, 0), base, focus, inner, outer])
    weights = weights.astype(np.float32)
    dim = vectors.shape[1]
    probes = np.zeros((6, dim), dtype=np.float32)
    if len(vectors):
        probes[0] = vectors[q.wh_at] if q.wh_at >= 0 else 0
        probes[1] = vectors[q.head] if q.head >= 0 else probes[0]
        probes[2] = _unit(vectors.mean(0))
        for row, share in ((3, relation), (4, inner), (5, outer)):
            probes[row] = _unit((vectors * share[:, None]).sum(0))
    return Encoded(vectors, probes, weights)


_LEAST_OUTER = 0.15
"""A smaller share of the relation words away from mentions is no second relation."""
SOFT_FLOOR = 0.45
"""Cosines of contextual word vectors below this say nothing; the rest is stretched to [0, 1]."""


def match_words(
    q: Question, encoded: Encoded, doc: TokenizedPassage, vectors: Float
) -> tuple[Float, Float]:
    """(Q, W) matches by stem and softly."""
    ours = np.asarray(q.words.stem, dtype=object)[:, None]
    theirs = np.asarray(doc.words.stem, dtype=object)[None, :]
    lex = (ours == theirs).astype(np.float32)
    if not encoded.vectors.any():  # no encoder: no words are close but equal ones
        return lex, lex
    cos = encoded.vectors @ vectors.T
    soft = np.clip((cos - SOFT_FLOOR) / (0.85 - SOFT_FLOOR), 0, 1)
    return lex, np.maximum(lex, soft).astype(np.float32)


def _share(best: Float, weights: Float) -> Float:
    """Weighted share (K, …) of question words matched; ``best`` (Q, …), ``weights`` (K, Q)."""
    total = weights.sum(1)
    share: Float = (weights @ best) / np.where(total > 0, total, 1).astype(np.float32)[:, None]
    return share


def _sentences(match: Float, doc: TokenizedPassage) -> Float:
    """(Q, S) best matches in each sentence; a page's title is the silent subject of them all."""
    best: Float = np.maximum.reduceat(match, doc.sentence_starts, axis=1)
    return np.maximum(best, best[:, :1]) if doc.body else best


class Lengths(NamedTuple):
    """Lengths of the summed word vectors of a passage's spans and sentences."""

    spans: Float
    """(M,), at least 1e-6, as are those of sentences."""
    sentences: Float
    """(S,)"""


def lengths(doc: TokenizedPassage, vectors: Float) -> Lengths:
    """The lengths of a passage with word vectors (W, D), whatever is asked about it."""
    totals = np.concatenate([np.zeros((1, vectors.shape[1]), np.float32), np.cumsum(vectors, 0)])
    ends = np.append(doc.sentence_starts[1:], len(doc.words.stem))
    sums = (totals[doc.bounds[:, 1]] - totals[doc.bounds[:, 0]],
            totals[ends] - totals[doc.sentence_starts])  # fmt: skip
    return Lengths(*(np.maximum(np.linalg.norm(part, axis=1), 1e-6) for part in sums))


def compare(
    q: Question, encoded: Encoded, doc: TokenizedPassage, vectors: Float, length: Lengths
) -> Pair:
    """All static features of a passage's spans for a question; ``vectors`` (W, D)."""
    spans, words = len(doc.spans), len(doc.words.stem)
    lead_norm = fold(bare_title(doc.title))
    titled = bool(lead_norm) and f" {lead_norm} " in f" {q.norm} "
    if not words or not q.words.stem:
        blank = np.zeros((spans, len(SPAN_NAMES)), dtype=np.float32)
        zero = np.zeros(len(q.words.stem), dtype=np.float32)
        return Pair(
            blank, np.zeros(5, np.float32), np.zeros(2, np.float32), zero, lead_norm, titled
        )
    lex, soft = match_words(q, encoded, doc, vectors)
    starts = doc.sentence_starts
    cover_lex = _share(_sentences(lex, doc), encoded.weights)
    cover_soft = cover_lex if soft is lex else _share(_sentences(soft, doc), encoded.weights)
    sentence_cover = np.stack(
        [cover_lex[0], cover_soft[0], cover_lex[1], cover_lex[2], cover_soft[2]], axis=1
    )
    page_lex, page_soft = lex.max(1), soft.max(1)
    share_lex = _share(page_lex[:, None], encoded.weights)[:, 0]
    share_soft = _share(page_soft[:, None], encoded.weights)[:, 0]
    cover = np.asarray(
        [share_lex[0], share_soft[0], share_lex[1], share_lex[2], share_soft[2]], dtype=np.float32
    )
    first_body = min(1, len(starts) - 1) if doc.body else 0
    lead_lex = float(cover_lex[3, first_body])
    lead = np.asarray([lead_lex, float(cover_soft[3, first_body])], dtype=np.float32)
    block = np.zeros((spans, len(SPAN_NAMES)), dtype=np.float32)
    if spans:
        outer_cover = np.stack([cover_soft[4], cover_soft[5]], axis=1)
        _fill(
            block, q, encoded, doc, vectors, length, lex, soft, sentence_cover, outer_cover,
            cover, lead, titled,
        )  # fmt: skip
    return Pair(block, cover, lead, page_soft, lead_norm, titled)


def _fill(
    block: Float,
    q: Question,
    encoded: Encoded,
    doc: TokenizedPassage,
    vectors: Float,
    length: Lengths,
    lex: Float,
    soft: Float,
    sentence_cover: Float,
    outer_cover: Float,
    cover: Float,
    lead: Float,
    titled: bool,
) -> None:
    first, last = doc.bounds[:, 0], doc.bounds[:, 1]
    sentence = np.searchsorted(doc.sentence_starts, first, side="right") - 1
    block[:, 0:5] = sentence_cover[sentence]
    block[:, 5:10] = cover
    block[:, 10:15], block[:, 17:21] = _windows(encoded, doc, lex, soft)
    block[:, 15:17] = outer_cover[sentence]
    column = 21
    content = np.asarray([w not in STOP for w in doc.words.lower], dtype=np.float32)
    hit = lex.max(0, initial=0) * content
    sums = np.concatenate([[0], np.cumsum(hit)]).astype(np.float32)
    counts = np.concatenate([[0], np.cumsum(content)]).astype(np.float32)
    inside = counts[last] - counts[first]
    padded = f" {q.norm} "
    mentions = {fold(t) for t in q.mention_texts}
    block[:, column] = [f" {n} " in padded for n in doc.norms]
    block[:, column + 1] = (sums[last] - sums[first]) / np.where(inside > 0, inside, 1)
    block[:, column + 2] = [n in mentions for n in doc.norms]
    column += 3
    aimed = np.zeros((len(vectors) + 1, len(encoded.probes)), np.float32)
    np.cumsum(vectors @ encoded.probes.T, 0, out=aimed[1:])
    block[:, column : column + 6] = (aimed[last] - aimed[first]) / length.spans[:, None]
    ends = np.append(doc.sentence_starts[1:], len(doc.words.stem))
    asked = (aimed[ends, 2] - aimed[doc.sentence_starts, 2]) / length.sentences
    block[:, column + 6] = asked[sentence]
    column += 7
    _focus(block[:, column : column + 7], q, doc, sentence, soft, lead)
    column += 7
    block[:, column] = sentence <= 1
    block[:, column + 1] = np.minimum(sentence, 8) / 8
    block[:, column + 2] = titled
    column += 3
    block[:, column:] = shape_columns(q, doc)


def _windows(
    encoded: Encoded, doc: TokenizedPassage, lex: Float, soft: Float
) -> tuple[Float, Float]:
    """(M, 5): relation words by stem and softly, mention words by stem within 10 words of the
    span; relation words softly within 4 words, and within 6 words on its left only. And (M, 4):
    inner and outer relation words softly within 10 words, and within 4."""
    first, last = doc.bounds[:, 0], doc.bounds[:, 1]
    four, six, ten = _runs(soft)
    ten_lex = ten if soft is lex else _runs(lex)[2]
    near_lex = np.maximum(ten_lex[first], ten_lex[last + _PAD])
    near = np.maximum(ten[first], ten[last + _PAD])
    close = np.maximum(four[first + _PAD - 4], four[last + _PAD])
    left = six[first + _PAD - 6]
    shares = encoded.weights / np.maximum(encoded.weights.sum(1, keepdims=True), 1e-6)
    relation, mention, parts = shares[0], shares[1], shares[4:].T
    columns = (near_lex @ relation, near @ relation, near_lex @ mention, close @ relation,
               left @ relation)  # fmt: skip
    return np.stack(columns, axis=1), np.concatenate([near @ parts, close @ parts], axis=1)


_PAD = 10
"""Widest window, in words."""


def _runs(match: Float) -> tuple[Float, Float, Float]:
    """Best matches (…, Q) among 4, 6 and 10 words; row i begins at word i - ``_PAD``, and beyond
    the text nothing matches."""
    one = np.zeros((match.shape[1] + 2 * _PAD, match.shape[0]), dtype=np.float32)
    one[_PAD:-_PAD] = match.T
    two = np.maximum(one[:-1], one[1:])
    four = np.maximum(two[:-2], two[2:])
    eight = np.maximum(four[:-4], four[4:])
    return four, np.maximum(four[:-2], four[2:]), np.maximum(eight[:-2], eight[2:])


def _focus(
    out: Float,
    q: Question,
    doc: TokenizedPassage,
    sentence: NDArray[np.int64],
    soft: Float,
    lead: Float,
) -> None:
    """Return how the noun that is asked for ("which *magazine*") stands to each span.

    Columns: right before the span, in its sentence, inside it, after it in apposition ("X, a
    magazine" or "X is a magazine"), in the first sentence of the page it titles, and the share of
    all focus words there (by stem, softly).
    """
    is_title = np.asarray([f.kind in ("title", "title_part") for f in doc.spans])
    opens = np.asarray([f.first - doc.body in (0, 1) for f in doc.spans])
    own_page = is_title | (opens & (sentence == 1))
    out[:, 5] = np.where(own_page, lead[0], 0)
    out[:, 6] = np.where(own_page, lead[1], 0)
    if q.head < 0:
        return
    head = np.asarray([s == q.words.stem[q.head] for s in doc.words.stem])
    strong = head | (soft[q.head] > 0.6)
    sums = np.concatenate([[0], np.cumsum(strong)])
    first, last = doc.bounds[:, 0], doc.bounds[:, 1]
    size = len(head)
    starts, ends = doc.sentence_starts, np.append(doc.sentence_starts[1:], size)
    out[:, 0] = sums[first] - sums[np.maximum(first - 3, 0)] > 0
    out[:, 1] = sums[ends[sentence]] - sums[starts[sentence]] > 0
    out[:, 2] = sums[last] - sums[first] > 0
    out[:, 3] = (sums[np.minimum(last + 8, size)] - sums[last] > 0) & _apposed(doc)
    in_title = bool(head[: doc.body].any())
    body = min(1, len(starts) - 1) if doc.body else 0
    in_lead = bool(strong[starts[body] : ends[body]].any())
    out[:, 4] = np.where(own_page, float(in_lead or in_title), 0)


def _apposed(doc: TokenizedPassage) -> NDArray[np.bool_]:
    """Return True for each span followed by a form of "is", or by a comma and an article or an
    auxiliary verb."""
    out = np.zeros(len(doc.spans), dtype=bool)
    lower, gap = doc.words.lower, doc.words.gap
    for row, span in enumerate(doc.spans):
        after = lower[span.last] if span.last < len(lower) else ""
        mark = gap[span.last - 1]
        out[row] = after in ("is", "was", "are", "were") or (
            "," in mark and (after in ("a", "an", "the") or after in AUXILIARIES)
        )
    return out
