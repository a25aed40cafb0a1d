"""Realism of a text: its statistics beside those of real passages, and a blind classifier.

``table`` counts what tells templates from text that people wrote: length, vocabulary, word
sequences that other passages share, near-copies of the passages that answer. ``blind`` asks a
logistic regression over word and character n-grams which of two texts a single sentence comes from.
Names are masked in it: an invented name would give the text away, and says nothing about wording.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ..errors import EvaluationError, MissingExtraError
from ..seeding import stream
from ..types import Passage
from .intervals import TAILS, Interval

try:
    import scipy.sparse as sp
except ModuleNotFoundError as error:
    raise MissingExtraError("measuring how real a world is (scipy)", "fast") from error

Floats = NDArray[np.float64]
TOKENS = 50_000
"""Words in which types are counted."""
BARS: dict[str, Any] = {
    "words within": 0.20,
    "types": 7_500,
    "shared 4-grams": 0.12,
    "near-twins": 2.0,
    "question words on gold pages": (0.6, 0.8),
    "auc": 0.85,
}
"""Bars of a world that could be real: its mean length lies within a fifth of the real text's,
the others are bounds."""
_NEAR = 0.3
_PAGES, _GOLD, _SENTENCES, _FOLDS = 1_500, 200, 2_000, 5
_TOKEN = re.compile(r"\w+(?:['’]\w+)?")
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]* (?=[\"'(\[]?[A-Z0-9])")
_PIECE = re.compile(r"\w+(?:['’]\w+)?|[^\w ]")
_STOP = frozenset(
    "the a an of in on at to by for with from and or is was were be are as that which who whom "
    "whose what when where how did does do it its his her he she they their this these "
    "those".split()
)
_WIDTH = 1 << 18


class GoldQuestion(NamedTuple):
    """A question and the places of the passages that answer it."""

    question: str
    gold: tuple[int, ...]


def table(passages: Sequence[Passage], asked: Sequence[GoldQuestion] = ()) -> dict[str, Any]:
    """Statistics of a text and of the questions about it; those of questions only where there are
    any. Samples are drawn by a fixed seed.

    Raises ``EvaluationError`` for a text without words.
    """
    words = [tokens(p.text) for p in passages]
    lengths = np.array([len(w) for w in words if w])
    if not len(lengths):
        raise EvaluationError("realism needs passages with words, got none")
    order = stream(0, "realism", "passages").permutation(len(words)).tolist()
    counted = Counter(_first(TOKENS, (w for i in order for w in words[i])))
    number = counted.total()
    low, median, high = np.percentile(lengths, (5, 50, 95)).round().astype(int).tolist()
    found: dict[str, Any] = {
        "passages": len(passages),
        "words a passage": round(float(lengths.mean()), 1),
        "median": median,
        "p5–p95": f"{low}–{high}",
        f"types in {number // 1000}k words": len(counted),
        "1,000 commonest words": round(sum(n for _, n in counted.most_common(1000)) / number, 2),
        "shared 4-grams": round(_shared([words[i] for i in order[:_PAGES]]), 2),
    }
    if asked:
        sizes = [len(tokens(a.question)) for a in asked]
        overlap = [x for a in asked if (x := _overlap(a, words)) is not None]
        begins = Counter(" ".join(tokens(a.question)[:2]) for a in asked)
        found |= {
            "questions": len(asked),
            "words a question": round(float(np.mean(sizes)), 1),
            "question words on gold pages": round(float(np.mean(overlap or [np.nan])), 2),
            "near-twins of a gold page": round(_twins(passages, asked), 1),
            "begin": ", ".join(f"{b} {n / len(asked):.0%}" for b, n in begins.most_common(4)),
        }
    return found


def kept(ours: dict[str, Any], real: dict[str, Any] | None, auc: float | None) -> dict[str, bool]:
    """Which of ``BARS`` a text keeps; those without a figure are left out."""
    low, high = BARS["question words on gold pages"]
    types = next(n for key, n in ours.items() if key.startswith("types in"))
    held = {
        f"at least {BARS['types']:,} types": types >= BARS["types"],
        f"shared 4-grams at most {BARS['shared 4-grams']}":
            ours["shared 4-grams"] <= BARS["shared 4-grams"],
    }  # fmt: skip
    if real is not None:
        ratio = ours["words a passage"] / real["words a passage"]
        held["words within a fifth of the real text's"] = abs(ratio - 1) <= BARS["words within"]
    if "questions" in ours:
        held[f"near-twins at most {BARS['near-twins']:g}"] = (
            ours["near-twins of a gold page"] <= BARS["near-twins"]
        )
        held[f"question words on gold pages {low} to {high}"] = (
            low <= ours["question words on gold pages"] <= high
        )
    if auc is not None:
        held[f"AUC at most {BARS['auc']}"] = auc <= BARS["auc"]
    return held


def blind(ours: Sequence[Passage], real: Sequence[Passage], *, seed: int = 0) -> Interval:
    """Area under the curve of a classifier that tells one text's sentences from the other's: .5 is
    a guess, 1 no doubt.

    At most 2,000 sentences of either text, one a passage as long as they last; five folds;
    percentile interval over resampled sentences.
    """
    texts = [_sentences(side, seed) for side in (ours, real)]
    least = min(map(len, texts))
    if least < 10 * _FOLDS:
        raise EvaluationError(
            f"the blind classifier needs at least {10 * _FOLDS} sentences of either text, "
            f"got {least}"
        )
    lower = {w for side in texts for text in side for w in _PIECE.findall(text) if w.islower()}
    rows = [_features(masked(text, lower)) for side in texts for text in side[:least]]
    x = sp.csr_matrix(
        (
            np.concatenate([np.full(len(r), len(r) ** -0.5) for r in rows]),
            np.concatenate(rows),
            np.cumsum([0, *map(len, rows)]),
        ),
        shape=(len(rows), _WIDTH),
    )
    y = np.repeat([1.0, -1.0], least)
    fold = stream(seed, "realism", "folds").permutation(2 * least) % _FOLDS
    score = np.empty(2 * least)
    for k in range(_FOLDS):
        score[fold == k] = x[fold == k] @ _fitted(x[fold != k], y[fold != k])
    one, other = score[y > 0], score[y < 0]
    rng = stream(seed, "realism", "resamples")
    draws = [
        area(one[rng.integers(least, size=least)], other[rng.integers(least, size=least)])
        for _ in range(500)
    ]
    low, high = np.quantile(draws, TAILS)
    return Interval(area(one, other), float(low), float(high), 2 * least, "percentile")


def area(positive: Floats, negative: Floats) -> float:
    """Probability that a score of the first is above one of the second; ties count half."""
    both = np.sort(negative)
    below = np.searchsorted(both, positive, "left") + np.searchsorted(both, positive, "right")
    return float(below.mean() / 2 / len(negative))


def tokens(text: str) -> list[str]:
    """Words in lower case."""
    return _TOKEN.findall(text.lower())


def masked(sentence: str, lower: set[str] | frozenset[str]) -> str:
    """The sentence with names as ``N``, numbers as ``0``. A word is a name if it begins with a
    capital letter and is not among ``lower``, the words that occur without one; within a sentence
    every such word is."""
    out: list[str] = []
    for i, piece in enumerate(_PIECE.findall(sentence)):
        if piece[0].isdigit():
            piece = "0"
        elif piece[0].isupper():
            piece = piece.lower() if i == 0 and piece.lower() in lower else "N"
        if piece != "N" or out[-1:] != ["N"]:
            out.append(piece)
    return " ".join(out)


def _first(number: int, items: Iterable[str]) -> Iterator[str]:
    return (item for _, item in zip(range(number), items, strict=False))


def _shared(words: Sequence[Sequence[str]]) -> float:
    grams = Counter(
        gram for w in words for gram in {tuple(w[i : i + 4]) for i in range(len(w) - 3)}
    )
    return sum(n for n in grams.values() if n > 1) / max(1, grams.total())


def _overlap(asked: GoldQuestion, words: Sequence[Sequence[str]]) -> float | None:
    content = set(tokens(asked.question)) - _STOP
    gold = {w for i in asked.gold for w in words[i]}
    return len(content & gold) / len(content) if content and gold else None


def _twins(passages: Sequence[Passage], asked: Sequence[GoldQuestion]) -> float:
    """Mean number of other passages that share .3 of their words with one that answers."""
    known: dict[str, int] = {}
    rows = [
        [known.setdefault(w, len(known)) for w in sorted({*tokens(f"{p.title} {p.text}")})]
        for p in passages
    ]
    gold = sorted({i for a in asked for i in a.gold})
    if not gold:
        return float("nan")
    gold = stream(0, "realism", "gold").permutation(gold)[:_GOLD].tolist()
    ends = np.cumsum([0, *map(len, rows)])
    marks = np.ones(int(ends[-1]), np.float32)
    where = np.array([w for row in rows for w in row], np.int64)
    matrix = sp.csr_matrix((marks, where, ends), shape=(len(rows), max(1, len(known))))
    size = np.diff(ends)
    common = (matrix[gold] @ matrix.T).toarray()
    share = common / np.maximum(1, size[gold][:, None] + size[None, :] - common)
    share[np.arange(len(gold)), gold] = 0
    return float((share >= _NEAR).sum(1).mean())


def _sentences(passages: Sequence[Passage], seed: int) -> list[str]:
    rng = stream(seed, "realism", "sentences")
    chosen: list[str] = []
    rest: list[str] = []
    for i in rng.permutation(len(passages)).tolist():
        parts = [s for s in _SENTENCE.split(passages[i].text) if len(tokens(s)) > 3]
        if parts:
            at = int(rng.integers(len(parts)))
            chosen.append(parts.pop(at))
            rest += parts
        if len(chosen) == _SENTENCES:
            break
    more = rng.permutation(len(rest))[: _SENTENCES - len(chosen)].tolist()
    return chosen + [rest[i] for i in more]


def _features(text: str) -> NDArray[np.int64]:
    """Places of a sentence's words, pairs of words and runs of three to five characters."""
    words = text.split()
    grams = {*words, *map(" ".join, pairwise(words))}
    grams |= {"#" + text[i : i + n] for n in (3, 4, 5) for i in range(len(text) - n + 1)}
    return np.array(sorted({crc32(g.encode()) % _WIDTH for g in grams}), np.int64)


def _fitted(x: Any, y: Floats) -> Floats:
    """Weights (width,) of a logistic regression with a squared penalty."""
    from scipy.optimize import minimize

    def loss(w: Floats) -> tuple[float, Floats]:
        margin = y * (x @ w)
        slope = -y / (1 + np.exp(np.clip(margin, -30, 30)))
        value = np.logaddexp(0, -margin).sum() + 0.05 * w @ w
        return float(value), x.T @ slope + 0.1 * w

    start = np.zeros(x.shape[1])
    done = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    return np.asarray(done.x)
