"""Fathom's steerable step reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from searchgym.rewards import LookedUp, Outcome, lookups, pages, token_f1, well_formed


class Calls(NamedTuple):
    """Calls by kind."""

    unique: int = 0
    repeated: int = 0
    """Searches that brought nothing new."""
    explored: int = 0
    """First openings of a page."""
    reopened: int = 0

    @property
    def redundant(self) -> float:
        """Share of the calls that were redundant."""
        total = sum(self)
        return (self.repeated + self.reopened) / total if total else 0.0


@dataclass(frozen=True)
class Fathom:
    """Pay a right answer less for redundant calls, a wrong one for unique ones, at most half.

    Right: ``form`` (if well-formed) + max(1 - ρ, .5), ρ the share of redundant calls. Wrong:
    ``form`` + ``search`` · ΔS/``searches`` + ``page`` · ΔQ/``pages``, each quotient in [-1, 1],
    where ΔS are unique less redundant searches and ΔQ new less reopened pages (Fathom-DeepResearch,
    arXiv 2509.24107, steerable step reward). The paper's judge of calls is replaced: a search is
    redundant if its words resemble an earlier one's (token F1 ≥ ``alike``) or a share ``alike`` of
    its passages was shown before; re-checking a claim on a new page counts as exploring. The lower
    bound of the quotients is ours.
    """

    registered = "reward:fathom"
    systems = ("Fathom",)

    form: float = 0.1
    search: float = 0.2
    page: float = 0.2
    searches: int = 8
    pages: int = 16
    alike: float = 0.8

    def final(self, outcome: Outcome) -> float:
        return self.value(outcome.em == 1.0, well_formed(outcome), self.kinds(outcome))

    def kinds(self, outcome: Outcome) -> Calls:
        """Count the calls by kind."""
        asked: list[LookedUp] = []
        repeated = 0
        for lookup in lookups(outcome):
            if lookup.tool == "access":
                continue
            alike = any(token_f1(lookup.asked, earlier.asked) >= self.alike for earlier in asked)
            known = bool(lookup.ids) and lookup.seen / len(lookup.ids) >= self.alike
            repeated += alike or known
            asked.append(lookup)
        opened = pages(outcome)
        new = len(set(opened))
        return Calls(len(asked) - repeated, repeated, new, len(opened) - new)

    def value(self, right: bool, formed: bool, calls: Calls) -> float:
        """The reward of an episode with such calls."""
        form = self.form if formed else 0.0
        if right:
            return form + max(1.0 - calls.redundant, 0.5)
        searches = _bounded((calls.unique - calls.repeated) / self.searches)
        opened = _bounded((calls.explored - calls.reopened) / self.pages)
        return form + self.search * searches + self.page * opened


def _bounded(x: float) -> float:
    return min(max(x, -1.0), 1.0)
