"""A small learner that writes reports by quoting, for ReportQA: which sentences are worth quoting.

It searches the question, then the names on the page that the question is about, and quotes each
sentence of these pages with a probability that is linear in pairs of words, one of the question and
one of the sentence. REINFORCE on the environment's reward, against the other samples of a question.
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
            marks = [("kind", kind), ("kind", kind, "first", place == 0), ("bias",)]
            numbers = {derive(1, *map(str, mark)) % SIZE for mark in [*marks, *pairs]}
            text = f"{page.title}: {sentence.rstrip('.!? ')} [{page.title}]."
            yield Quote(text, np.array(sorted(numbers)))


class Quoter:
    """Quotes each sentence with the probability σ(bias + sum of its weights)."""

    def __init__(self) -> None:
        self.weights = np.zeros(SIZE)

    def odds(self, quotes: Sequence[Quote]) -> Floats:
        """(n,) probabilities of being quoted."""
        scores = np.array([self.weights[quote.features].sum() for quote in quotes])
        odds: Floats = 1.0 / (1.0 + np.exp(1.0 - scores))  # at first one sentence in four
        return odds

    def report(self, quotes: Sequence[Quote]) -> str:
        """The report it would write: what it quotes rather than not."""
        return _joined(quotes, self.odds(quotes) > 0.5) if quotes else "nothing"

    def train(
        self,
        desks: Sequence[Desk],
        seed: int,
        *,
        epochs: int = 20,
        group: int = 6,
        rate: float = 0.3,
    ) -> None:
        """REINFORCE, each sample against the mean of the others of its question."""
        for epoch in range(epochs):
            for number in stream(seed, "order", epoch).permutation(len(desks)):
                here = desks[number]
                if not here.quotes:
                    continue
                draw = stream(seed, "quote", epoch, int(number))
                odds = self.odds(here.quotes)
                picks = draw.random((group, len(odds))) < odds
                paid = np.array([answered(here, _joined(here.quotes, pick)) for pick in picks])
                gain = (paid - paid.mean()) * group / (group - 1)
                slope = (gain[:, None] * (picks - odds)).mean(axis=0)
                for quote, size in zip(here.quotes, slope, strict=True):
                    self.weights[quote.features] += rate * size


def _joined(quotes: Sequence[Quote], pick: NDArray[np.bool_]) -> str:
    return " ".join(q.text for q, on in zip(quotes, pick, strict=True) if on) or "nothing"


def answered(here: Desk, report: str) -> float:
    """The reward of a report, given in a fork of the episode."""
    episode = here.episode.fork()
    episode.act(get_dialect(episode.config.rules.dialect).render_action(Answer(report)))
    return sum(turn.reward for turn in episode.turns)


def measured(quoter: Quoter, desks: Sequence[Desk]) -> Floats:
    """(n,) rewards of the reports that it would write."""
    return np.array([answered(here, quoter.report(here.quotes)) for here in desks])
