"""Finds where a corpus states an answer: accepted answers as phrases of normalised passages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..text import answer_words, covers, normalise_answer
from ..types import Passage, Task
from .corpus import Corpus

YES_NO = frozenset({"yes", "no"})
AGGREGATED = frozenset({"count", "parallel", "fanoutqa"})
"""Families and data sets whose answers are worked out from several passages."""
NUMERICAL = "Numerical reasoning"
"""The name that FRAMES gives to questions whose answer is computed."""


def normalised(passage: Passage) -> str:
    """Title and text as answers are compared, with a blank at both ends."""
    return f" {normalise_answer(f'{passage.title} {passage.text}')} "


def is_aggregated(task: Task) -> bool:
    """Return whether the answer need not stand in any passage: yes or no, a count, a list, a
    sum."""
    if any(normalise_answer(answer) in YES_NO for answer in task.answers):
        return True
    if {task.family, task.meta.get("dataset")} & AGGREGATED:
        return True
    return NUMERICAL in str(task.meta.get("type", ""))


class AnswerIndex:
    """The passages of a corpus by the words in them; built once, in one pass.

    Matching is by whole words after SQuAD's normalisation, so that "Rome" is not found in "Romeo";
    where words have no blanks between them, and in Korean, as cover-EM finds them
    (``text.covers``).
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._texts = [normalised(passage) for passage in corpus]
        self._places: dict[str, list[int]] = {}
        for place, text in enumerate(self._texts):
            for word in set(answer_words(text)):
                self._places.setdefault(word, []).append(place)

    def places(self, answers: Iterable[str]) -> list[int]:
        """Positions of the passages in which an answer can be read, ascending."""
        places: set[int] = set()
        for answer in map(normalise_answer, answers):
            lists = [self._places.get(word, []) for word in answer_words(answer)]
            if lists:
                rarest = min(lists, key=len)
                places.update(i for i in rarest if _states(self._texts[i], answer))
        return sorted(places)

    def readable(self, answers: Sequence[str], passages: Iterable[str]) -> bool:
        """Return whether one of these passages (by id) states an answer; absent ones state none."""
        phrases = [a for a in map(normalise_answer, answers) if a]
        texts = [self._texts[self.corpus.position(p)] for p in passages if p in self.corpus]
        return any(_states(text, phrase) for phrase in phrases for text in texts)


def _states(text: str, answer: str) -> bool:
    """Return whether a passage, as :func:`normalised` gives it, states a normalised answer."""
    if f" {answer} " in text:
        return True
    return answer_words(answer) != answer.split() and covers(text, answer)
