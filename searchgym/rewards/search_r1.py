"""Search-R1's structural format reward."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..types import Answer, Search
from .lookups import stands_in_results
from .outcome import Outcome

_TAG = re.compile(r"</?(?:think|search|answer|information)>")


@dataclass(frozen=True)
class SearchR1Form:
    """Pay the answer and, less, the form: thought, then search or answer, and nothing outside.

    Right and in form 1, right 1 - ``structure``; otherwise in form ``structure`` (and ``retrieval``
    more if an accepted answer stands in a result); not in form ``answered`` if an answer was given,
    else 0: an episode that never answers has no form. The form is the state machine of
    :func:`in_form`, over the policy's own texts in the dialect ``search_r1`` (Jin et al.,
    Search-R1, arXiv 2503.09516; the empirical study arXiv 2505.15117; rule and numbers of the
    released ``qa_em_format.py`` and the script that trains with it). That the turn's text is read,
    and not the whole transcript, is ours.
    """

    registered = "search_r1"
    systems = ("Search-R1",)

    structure: float = 0.2
    answered: float = 0.1
    retrieval: float = 0.0

    def final(self, outcome: Outcome) -> float:
        return structural(
            right=outcome.em == 1.0,
            valid=in_form(outcome),
            answered=outcome.answered,
            retrieved=bool(self.retrieval) and stands_in_results(outcome, outcome.answers),
            structure=self.structure,
            form=self.answered,
            retrieval=self.retrieval,
        )


def structural(
    *,
    right: bool,
    valid: bool,
    answered: bool,
    retrieved: bool = False,
    structure: float,
    form: float,
    retrieval: float = 0.0,
) -> float:
    """The six cases of the released score; ``form`` is what a wrong answer out of form earns."""
    if right:
        return 1.0 if valid else 1.0 - structure
    if valid:
        return structure + (retrieval if retrieved else 0.0)
    return form if answered else 0.0


def in_form(outcome: Outcome) -> bool:
    """Check an episode's form: start → think → (search → information → think)* → answer.

    The environment writes the information block after each search, so every turn's text must be a
    thought and a search, the last one's a thought and an answer, with white space alone outside of
    the tags and no tag inside of another. An episode cut by a budget has not reached the end, and
    so is not in form.
    """
    turns = outcome.turns
    if not outcome.answered or not all(isinstance(t.action, (Search, Answer)) for t in turns):
        return False
    return texts_in_form([turn.text for turn in turns])


def texts_in_form(texts: Sequence[str]) -> bool:
    """Check the form of a policy's texts, turn by turn: the last one answers, no other does."""
    for number, text in enumerate(texts, 1):
        kind = "answer" if number == len(texts) else "search"
        form = ["<think>", "</think>", f"<{kind}>", f"</{kind}>"]
        tags = list(_TAG.finditer(text))
        if [tag[0] for tag in tags] != form:
            return False
        outside = (text[: tags[0].start()], text[tags[1].end() : tags[2].start()])
        if any(map(str.strip, (*outside, text[tags[3].end() :]))):
            return False
    return bool(texts)
