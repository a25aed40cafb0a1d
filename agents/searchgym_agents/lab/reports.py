"""A small learner that writes reports by quoting, for ReportQA: which sentences are worth quoting.

It searches the question, then the names on the page that the question is about, and quotes the
sentences of these pages that score best, by weights of pairs of words, one of the question and one
of the sentence. It learns from rewards alone: what each sentence earns as a report of its own, and
from which score on sentences are worth quoting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.core import Episode
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.scoring.citations import cue_words, words
from searchgym.seeding import derive, stream
from searchgym.types import Answer, Passage, Search, Task

SIZE = 1 << 16
"""Pairs of words that are told apart, by their hash."""
MOST = 6
"""Names that are searched."""
_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_NAME = re.compile(r"[A-Z][\w'&.-]*(?: (?:(?:of|the|and|from|in|&) )?[A-Z][\w'&.-]*)*")
Floats = NDArray[np.float64]


class Quote(NamedTuple):
    """A sentence that can be quoted, as a report writes it, and the numbers of its features."""

    text: str
    features: NDArray[np.int64]


class Desk(NamedTuple):
    """An episode that has searched, and what it can quote."""

    episode: Episode
    quotes: tuple[Quote, ...]

    def paid(self, report: str) -> float:
        """Return the reward of a report, given in a fork of the episode."""
        episode = self.episode.fork()
        episode.act(get_dialect(episode.config.rules.dialect).render_action(Answer(report)))
        return sum(turn.reward for turn in episode.turns)


def desk(env: SearchEnv, task: Task, seed: int) -> Desk:
    """Search for a task's question, then for the names on the page that it is about."""
    episode = env.start(derive(seed, task.id), task=task)
    say = get_dialect(env.rules.dialect).render_action
    found: dict[str, Passage] = {}
    queries = [task.question]
    while queries and episode.turns_left > 1:
        calls = episode.act(say(Search((queries.pop(0),))))
        episode.receive(env.toolbox.run(calls))
        hits = [hit.passage for hit in episode.contexts.segments[-1].hits]
        first = not found
        found |= {p.title: p for p in hits if p.title in task.question or not first}
        about = [p for p in found.values() if p.title in task.question]
        if first and about:
            names = dict.fromkeys(n for p in about for n in _NAME.findall(p.text) if n != p.title)
            queries = [*names][:MOST]
    return Desk(episode, tuple(_quotes(task.question, list(found.values()))))


def _quotes(question: str, pages: Sequence[Passage]) -> Iterator[Quote]:
    asked = cue_words(words(question))
    named = "\n".join(page.text for page in pages if page.title in question)
    for page in pages:
        kind = 0 if page.title in question else 1 if page.title in named else 2
        for place, sentence in enumerate(_ENDS.split(page.text)):
            told = cue_words(words(re.sub(_NAME, " ", sentence)))
            pairs = [(q, s) for q in sorted(asked) for s in sorted(told)]
            shared = min(len(asked & told), 3)
            marks = [
                ("kind", kind, "first", place == 0),
                ("kind", kind, "shared", shared),
                ("bias",),
            ]
            numbers = {derive(1, *map(str, mark)) % SIZE for mark in [*marks, *pairs]}
            text = f"{page.title}: {sentence.rstrip('.!? ')} [{page.title}]."
            yield Quote(text, np.array(sorted(numbers)))


class Quoter:
    """Quotes the sentences of which the sum of weights is above a threshold, at least the best."""

    def __init__(self) -> None:
        self.weights, self.threshold = np.zeros(SIZE), 0.0

    def scores(self, quotes: Sequence[Quote]) -> Floats:
        """(n,) sums of the sentences' weights."""
        return np.array([self.weights[quote.features].sum() for quote in quotes])

    def report(self, quotes: Sequence[Quote]) -> str:
        """Write a report of the sentences chosen."""
        scores = self.scores(quotes)
        chosen = scores >= min(self.threshold, scores.max(initial=-np.inf))
        return " ".join(q.text for q, on in zip(quotes, chosen, strict=True) if on) or "nothing"

    def train(
        self, desks: Sequence[Desk], seed: int, *, epochs: int = 10, rate: float = 0.05
    ) -> None:
        """Learn by logistic regression which sentences earn something alone, then the threshold on
        every third desk."""
        pairs = [(quote, here.paid(quote.text) > 0) for here in desks for quote in here.quotes]
        for epoch in range(epochs):
            for number in stream(seed, "order", epoch).permutation(len(pairs)):
                quote, earns = pairs[number]
                odds = 1.0 / (1.0 + np.exp(-self.weights[quote.features].sum()))
                self.weights[quote.features] += rate / (1 + epoch) * (earns - odds)

        def mean(threshold: float) -> float:
            self.threshold = threshold
            return float(measured(self, desks[::3]).mean())

        self.threshold = max((-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0), key=mean)


def measured(quoter: Quoter, desks: Sequence[Desk]) -> Floats:
    """(n,) rewards of the reports that it would write."""
    return np.array([here.paid(quoter.report(here.quotes)) for here in desks])
