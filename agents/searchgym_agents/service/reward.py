"""``service``: 1 iff the database ends as it should and everything was said that must be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from searchgym.rewards import Outcome
from searchgym.text import normalise_answer
from searchgym.types import Call

from .shop import digest
from .tools import STORE

_FORMS = (re.compile(r"\bO-?\d+\b", re.I), re.compile(r"\bdenied\b|\b\d+[.,]\d\d\b", re.I))
"""What is said of an order: its number; what became of it."""


@dataclass(frozen=True)
class ServiceReward:
    """Pay 1 if the final state's SHA-256 is the gold one's and every required text was said, else
    0 (MUA-RL, arXiv 2508.18669; released code).

    What is said is every question to the customer and the answer. The task's ``meta`` holds
    ``shop``, the state at first, ``final``, the gold digest, and ``say``, an order's number and an
    amount or "denied". The last text that names any such thing has to name this one alone, so that
    a list of guesses earns nothing. Without an answer, and for tasks without a shop, nothing is
    paid.
    """

    registered = "reward:service"
    systems = ("MUA-RL",)
    ranks = True
    unit = True

    def final(self, outcome: Outcome) -> float:
        asked = outcome.answered and "final" in outcome.meta
        return float(asked and self.kept(outcome) and self.said(outcome))

    def kept(self, outcome: Outcome) -> bool:
        """Check the final state."""
        state = outcome.tool_states.get(STORE, outcome.meta["shop"])
        return digest(state) == outcome.meta["final"]

    def said(self, outcome: Outcome) -> bool:
        """Check that every required text was said."""
        texts = [
            str(action.args.get("question", ""))
            for action in outcome.actions
            if isinstance(action, Call) and action.tool == "ask_user"
        ]
        texts.append(outcome.answer)
        must = {normalise_answer(text) for text in outcome.meta["say"]}
        named = [[m for t in texts if (m := form.findall(t))][-1:] for form in _FORMS]
        return must == {normalise_answer(one) for last in named for all_ in last for one in all_}
