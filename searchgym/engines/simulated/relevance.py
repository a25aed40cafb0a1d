"""Matches a query to the gold passages of its task, and texts to the answers they state.

A simulated engine knows the question and its answer, and must still answer the *query*: a query
for the first hop of a chain finds the first hop's passage, and one that asks for nothing the
question is about finds nothing useful.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...text import normalise_answer
from ...types import Passage, Task
from ..analysis import Analyser

_END = re.compile(r"(?<=[.!?])[\"'”’)]?\s+(?=[\"'“‘(]?[^\W\d_a-z])")
_CLOSED = frozenset({"yes", "no", "true", "false", "none", "both", "neither"})


def sentences(text: str) -> list[str]:
    """A text's sentences, by a full stop and a capital letter after it."""
    return [part for s in _END.split(text) if (part := s.strip())]


def mentions(text: str, answers: Iterable[str]) -> bool:
    """Check whether a text holds an answer as whole words, both normalised as for scoring."""
    words = f" {normalise_answer(text)} "
    return any(f" {gold} " in words for a in answers if (gold := normalise_answer(a)))


def telling(answer: str) -> bool:
    """True if a text that holds the answer states it: not so for yes, no and numbers below 100,
    which occur everywhere."""
    plain = normalise_answer(answer)
    return len(plain) > 2 and plain not in _CLOSED and not (plain.isdigit() and len(plain) < 3)


def clip(text: str, words: int, keep: Sequence[str] = ()) -> str:
    """``text`` cut to ``words`` words; with ``keep``, a stretch that still holds one of these."""
    parts = text.split()
    if len(parts) <= words:
        return text
    for start in range(len(parts) - words + 1) if keep else ():
        cut = " ".join(parts[start : start + words])
        if mentions(cut, keep):
            return cut
    return " ".join(parts[:words])


def snippet(text: str, answer: str, before: int, words: int) -> str | None:
    """``words`` words of a text around the first mention of an answer, as result pages show them:
    the answer after at most ``before`` words, dots where a text begins earlier. ``None``: no
    mention."""
    gold = normalise_answer(answer)
    parts = text.split()
    before = max(0, min(before, words - len(gold.split()) - 1))
    for at in range(len(parts)):
        rest = normalise_answer(" ".join(parts[at:])) + " "
        if gold and rest.startswith(f"{gold} "):
            start = max(0, at - before)
            shown = " ".join(parts[start : start + words])
            return f"… {shown}" if start else shown
    return None


def excerpt(
    parts: Sequence[str],
    first: int,
    words: int,
    draw: np.random.Generator,
    *,
    keep: Sequence[str] = (),
    lead: bool = True,
) -> str:
    """Sentence ``first`` and, as far as ``words`` reach, others in random order after it (or,
    without ``lead``, around it)."""
    chosen = [clip(parts[first], words, keep)]
    room = words - len(chosen[0].split())
    for i in draw.permutation(len(parts)):
        size = len(parts[i].split())
        if i == first or size > room:
            continue
        before = not lead and bool(draw.integers(2))
        chosen.insert(0 if before else len(chosen), parts[i])
        room -= size
    return " ".join(chosen)


SAMPLE = 2_000
"""Passages of which the rarity of words is estimated."""


class AskedPassage(NamedTuple):
    """A gold passage that a query asks for."""

    passage: Passage
    answer: str
    """Target of the query: an accepted answer, the passage's own title if the query does not
    give it, or the title of the passage that is to be found next; empty if the text holds none."""


class Relevance:
    """Matches queries with gold passages by their rare words.

    A query asks for a gold passage if it holds at least ``threshold`` of the weight of the words of
    the passage's gold query or of its title. A word weighs its inverse document frequency, so that
    names count and "city" hardly does. Further words in a query do no harm.

    Args:
        threshold: Share in (0, 1].
    """

    def __init__(self, corpus: Corpus, threshold: float = 0.5) -> None:
        if not 0 < threshold <= 1:
            raise EngineError(f"threshold must lie in (0, 1], got {threshold}")
        self.corpus, self.threshold = corpus, float(threshold)
        self._words = Analyser().terms

    def knows(self, task: Task) -> bool:
        """Check whether the corpus holds any of the task's gold passages."""
        return any(name in self.corpus for name in task.evidence)

    def hops(self, query: str, task: Task) -> list[AskedPassage]:
        """The gold passages that a query asks for, best match first."""
        asked = frozenset(self._words(query))
        matches: list[tuple[float, int, Passage]] = []
        for place, name in enumerate(task.evidence):
            if name not in self.corpus:
                continue
            passage = self.corpus.passage(name)
            keys = [passage.title, *task.queries[place : place + 1]]
            weights = [self._matched(asked, frozenset(self._words(key))) for key in keys]
            if weight := max(weights):
                matches.append((-weight, place, passage))
        return [AskedPassage(p, self._answer(p, asked, task)) for _, _, p in sorted(matches)]

    def _answer(self, passage: Passage, asked: Collection[str], task: Task) -> str:
        text = f"{passage.title} . {passage.text}"
        for answer in task.answers:
            if telling(answer) and mentions(text, [answer]):
                return answer
        if not set(self._words(passage.title)).intersection(asked):
            return passage.title
        later = task.evidence[task.evidence.index(passage.id) + 1 :]
        for name in (*later, *task.evidence):
            if name != passage.id and name in self.corpus:
                title = self.corpus.passage(name).title
                if mentions(passage.text, [title]):
                    return title
        return ""

    def _matched(self, asked: Collection[str], key: Collection[str]) -> float:
        """The weight of a key's words that a query holds; 0 if that is too little of the key."""
        weights = {word: self._weight(word) for word in sorted(key)}
        matched = math.fsum(weight for word, weight in weights.items() if word in asked)
        return matched if matched >= self.threshold * math.fsum(weights.values()) else 0.0

    def _weight(self, word: str) -> float:
        documents, frequency = self._frequencies
        return math.log(1 + (documents + 0.5) / (frequency[word] + 0.5))

    @cached_property
    def _frequencies(self) -> tuple[int, Counter[str]]:
        """Number of passages looked at, evenly spread over the corpus, and how many of them hold
        each word."""
        step = max(1, len(self.corpus) // SAMPLE)
        places = range(0, len(self.corpus), step)
        counts: Counter[str] = Counter()
        for at in places:
            passage = self.corpus[at]
            counts.update(set(self._words(f"{passage.title} {passage.text}")))
        return len(places), counts
