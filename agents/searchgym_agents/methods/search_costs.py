"""Published rewards that price searches and calls, or pay for making them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from searchgym import Access, Call, Search
from searchgym.rewards import (
    LookedUp,
    Outcome,
    lookups,
    new_evidence,
    pages,
    token_f1,
    useful,
    well_formed,
)

_PSEUDO_TAG = re.compile(r"[(\[]\s*+(?:/\s*+)?+(?:think|search|answer|information|context)\b", re.I)
"""Tags in round or square brackets, with which a policy writes results of its own."""


@dataclass(frozen=True)
class Ikea:
    """Pay a right answer more the fewer searches it took, a wrong one a little for having searched.

    Right: 1 + ``bonus`` · max(0, 1 - n / ``most``) after n searches (1.6, 1.4, 1.2, 1). Wrong:
    ``tried`` if any search was made, else 0. A turn that is no action, a missing answer or tags in
    other brackets: ``malformed`` (Huang et al., IKEA, arXiv 2505.07596, equations of R_KB+ and
    R_KB-; constants of the released code).
    """

    registered = "reward:ikea"
    systems = ("IKEA",)

    bonus: float = 0.6
    most: int = 3
    tried: float = 0.05
    malformed: float = -1.0

    def final(self, outcome: Outcome) -> float:
        if not well_formed(outcome) or any(_PSEUDO_TAG.search(t.text) for t in outcome.turns):
            return self.malformed
        searches = sum(len(t.calls) for t in outcome.turns if isinstance(t.action, Search))
        if outcome.em == 1.0:
            return 1.0 + self.bonus * max(0.0, 1.0 - searches / self.most)
        return self.tried if searches else 0.0


@dataclass(frozen=True)
class FrugalRag:
    """Pay an episode that stops right after the search which completed its evidence.

    With h searching turns, the earliest h* of them by which the final recall was reached (none if
    it is below ``baseline``) and a budget of B = ``budget``: 2 + 2 h*/B for h = h*, clipped
    log((1 - x) / x) of x = (h - h*)/B (in [-2, 1.9]) for h > h*, and of x = \\|h - B\\|/B (in
    [-2, 0]) without h* (Java et al., FrugalRAG, arXiv 2507.07634; released ``train_grpo.py``). The
    baseline is .6 where the released code takes a question's own from its logs; its term of format
    is left to other parts.
    """

    registered = "reward:frugal_rag"
    systems = ("FrugalRAG",)

    budget: int = 6
    baseline: float = 0.6

    def final(self, outcome: Outcome) -> float:
        new_counts = [n for n, turn in zip(new_evidence(outcome), outcome.turns, strict=True)
                      if turn.calls]  # fmt: skip
        total = sum(new_counts)
        best = None
        if outcome.evidence_total and total / outcome.evidence_total >= self.baseline:
            best = max((i for i, n in enumerate(new_counts, 1) if n), default=0)
        return frugal(len(new_counts), best, self.budget)


def frugal(h: int, best: int | None, budget: int) -> float:
    """Reward of ``h`` searches where ``best`` would have done (None: no number would)."""
    if best is None:
        return min(max(_log_odds(abs(h - budget) / budget), -2.0), 0.0)
    if h == best:
        return 2.0 + 2.0 * best / budget
    return min(max(_log_odds((h - best) / budget), -2.0), 1.9) if h > best else 0.0


def _log_odds(x: float) -> float:
    """log((1 - x) / x), x kept off 0 and 1."""
    x = min(max(x, 1e-6), 1.0 - 1e-6)
    return math.log((1.0 - x) / x)


@dataclass(frozen=True)
class GraphRagPra:
    """Pay each new retrieval less than the one before: ``first`` · ``decay``^j for the j-th.

    Repeated queries and those after the ``most``-th earn nothing (progressive retrieval
    attenuation, Yu et al., GraphRAG-R1, arXiv 2507.23581). Formula and constants of the
    paper were not read: a geometric series with the released re-implementation's decay of .8;
    ``first`` and ``most`` are ours. Its phase comes after the format's and before
    ``graphrag_caf``'s: let a curriculum set ``w_graphrag_pra`` and ``w_graphrag_caf``.
    """

    registered = "reward:graphrag_pra"
    systems = ("GraphRAG-R1",)

    first: float = 0.2
    decay: float = 0.8
    most: int = 5

    def turn(self, outcome: Outcome) -> float:
        if not isinstance(outcome.action, (Search, Call)) or not outcome.calls:
            return 0.0
        now = len(outcome.turns) - 1
        made = [lookup for lookup in lookups(outcome) if not lookup.repeats]
        before = sum(lookup.turn < now for lookup in made)
        paid = range(before, min(len(made), self.most))
        return self.first * sum(self.decay**j for j in paid)


@dataclass(frozen=True)
class GraphRagCaf:
    """Discount the answer's F1 by the retrievals n it took: ``scale`` · F1 · e^(-``cost`` n).

    Cost-aware F1 (Yu et al., GraphRAG-R1, arXiv 2507.23581); the paper's ``scale`` and
    ``cost`` were not read, 1 and .1 are ours.
    """

    registered = "reward:graphrag_caf"
    systems = ("GraphRAG-R1",)

    scale: float = 1.0
    cost: float = 0.1

    def final(self, outcome: Outcome) -> float:
        return self.scale * outcome.f1 * math.exp(-self.cost * outcome.searches)


@dataclass(frozen=True)
class SmartSearch:
    """Pay a right answer less for bad queries, a wrong one a little for good ones.

    A query is good if it showed a gold passage and at most ``known`` passages shown before. F1 of
    at least ``enough``: max(1 - .1 · bad, .7); otherwise min(.1 · good, .3); ``form`` more, and
    0 for an episode with a turn that is no action or without an answer (SmartSearch,
    arXiv 2601.04888; released code). The paper's judge of usefulness is exact here.
    """

    registered = "reward:smart_search"
    systems = ("SmartSearch",)

    step: float = 0.1
    least: float = 0.7
    most: float = 0.3
    form: float = 0.1
    enough: float = 0.8
    known: int = 1

    def final(self, outcome: Outcome) -> float:
        if not well_formed(outcome):
            return 0.0
        made = [lookup for lookup in lookups(outcome) if lookup.tool == "search"]
        good = sum(useful(lookup, outcome) and lookup.seen <= self.known for lookup in made)
        return self.form + query_score(outcome.f1 >= self.enough, good, len(made) - good,
                                       self.step, self.least, self.most)  # fmt: skip


def query_score(
    right: bool, good: int, bad: int, step: float = 0.1, least: float = 0.7, most: float = 0.3
) -> float:
    """The score of an episode with so many good and bad queries, the form's part aside."""
    return max(1.0 - step * bad, least) if right else min(step * good, most)


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


@dataclass(frozen=True)
class Costs:
    """Charge each turn for its calls, by kind; use it beside a reward of the answer.

    A turn earns -``scale`` · cost. A query costs ``search``, an opened page ``page`` per thousand
    words shown, asking the user (the tool ``ask_user``) ``ask`` · (1 + ``fatigue`` · times asked
    before), reading notes (the tool ``memory``) ``memory``, any other tool ``tool`` (HC-GRPO of
    ESearch-R1, arXiv 2512.18571: costs by kind, with fatigue of the user and memory the cheapest).
    All numbers are ours: the paper's were not read. A page stands for the paper's way through a
    house, whose length is the distance.
    """

    registered = "reward:costs"
    systems = ("ESearch-R1 (HC-GRPO)",)

    scale: float = 0.1
    search: float = 0.5
    page: float = 1.0
    ask: float = 0.5
    fatigue: float = 0.5
    memory: float = 0.05
    tool: float = 0.5

    def turn(self, outcome: Outcome) -> float:
        return -self.scale * self.cost(outcome) if outcome.calls else 0.0

    def cost(self, outcome: Outcome) -> float:
        """Return the cost of the latest turn, unscaled."""
        action = outcome.action
        if isinstance(action, Search):
            return self.search * len(action.queries)
        if isinstance(action, Access):
            return self.page * len(outcome.shown.split()) / 1000
        if isinstance(action, Call) and action.tool == "ask_user":
            before = sum(
                isinstance(t.action, Call) and t.action.tool == "ask_user" and bool(t.calls)
                for t in outcome.turns[:-1]
            )
            return self.ask * (1.0 + self.fatigue * before)
        if isinstance(action, Call) and action.tool == "memory":
            return self.memory
        return self.tool


@dataclass(frozen=True)
class ExcessCalls:
    """Charge each query and tool call beyond ``most``: -``cost`` · max(0, n - ``most``).

    TAPO modifies DAPO for tool use; only its abstract was read, so this form and both numbers are
    ours. With at most ``most`` calls it is DAPO's reward: use it beside the answer's,
    with the recipe ``dapo``.
    """

    registered = "reward:excess_calls"
    systems = ("TAPO",)

    most: int = 4
    cost: float = 0.1

    def final(self, outcome: Outcome) -> float:
        return -self.cost * max(0, outcome.searches - self.most)


@dataclass(frozen=True)
class Exploration:
    """Pay for thinking and searching at length, whatever comes of it.

    ``bonus`` · min(1, w / ``words``) after w words of the policy's own: ours, after RLSP (Ye et
    al., arXiv 2502.06773), whose supervised start and reward of exploration are not here. Use it
    beside the answer's reward and let a curriculum lower ``w_exploration``. With bonus 0 it is the
    answer's reward alone.
    """

    registered = "reward:exploration"

    bonus: float = 0.2
    words: int = 400

    def final(self, outcome: Outcome) -> float:
        written = sum(len(turn.text.split()) for turn in outcome.turns)
        return self.bonus * min(1.0, written / self.words)
