"""Published rewards of the evidence that was shown, judged, cited or stated."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from searchgym import CardError, Search, ToolResult
from searchgym.rewards import Outcome, lookups, new_evidence, queries, token_f1
from searchgym.text import covers, normalise_answer
from searchgym.types import Judge, Page, ReasoningGraph


@dataclass(frozen=True)
class InForage:
    """Pay the answer and the best single turn's share of the gold passages, less for many turns.

    (EM + ``share`` · max_t |gold ∩ shown in turn t| / |gold|) · ``discount``^max(0, n - ``free``)
    for n turns that looked something up (Qian and Liu, InForage, arXiv 2505.09316; released code).
    That the exponent counts only the turns beyond the free ones is our reading.
    """

    registered = "reward:inforage"
    systems = ("InForage",)

    share: float = 0.2
    discount: float = 0.95
    free: int = 2

    def final(self, outcome: Outcome) -> float:
        gold = set(outcome.evidence)
        shown: dict[int, set[str]] = {}
        for lookup in lookups(outcome):
            shown.setdefault(lookup.turn, set()).update(gold.intersection(lookup.ids))
        best = max((len(ids) for ids in shown.values()), default=0)
        coverage = best / len(gold) if gold else 0.0
        late = max(0, len(shown) - self.free)
        return (outcome.em + self.share * coverage) * self.discount**late


@dataclass(frozen=True)
class Coverage:
    """Pay a turn what it adds to (found / gold) ^ ``power``, the less the more is known already.

    A concave function of the number of gold passages shown is submodular and monotone, and marginal
    gains add up to its value at the end (Prajapat et al., Submodular Reinforcement Learning,
    arXiv 2307.13372, marginal-gain rewards). ``power`` 1 is the part ``evidence``; .5 is ours.

    Raises:
        CardError: a power that is not above 0 and at most 1.
    """

    registered = "reward:coverage"
    systems = ("Submodular RL",)

    power: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.power <= 1:
            raise CardError(f"coverage needs a power above 0 and at most 1, got {self.power}")

    def turn(self, outcome: Outcome) -> float:
        total = outcome.evidence_total
        if not total or not outcome.new_evidence:
            return 0.0
        after = sum(new_evidence(outcome))
        before = after - outcome.new_evidence
        return float((after / total) ** self.power - (before / total) ** self.power)


@dataclass(frozen=True)
class StepSearch:
    """Pay each search for new gold passages less repeated ones, the end for F1 and keywords.

    A search earns ``step`` · (gain - redundancy); the end F1 + ``keywords`` · mean over the gold
    queries of the best query's token F1 (Wang et al., StepSearch, arXiv 2505.15107, equations of
    the step and key rewards; .618 and .6 as released. The released code adds the step reward to an
    aliased view and so pays 1.6 times it: ``step=1.6`` for parity). The paper compares texts by
    TF-IDF; passages have ids here, so a passage matches itself alone.
    """

    registered = "reward:step_search"
    systems = ("StepSearch",)

    step: float = 0.6
    keywords: float = 0.618

    def turn(self, outcome: Outcome) -> float:
        if not isinstance(outcome.action, Search) or not outcome.calls or not outcome.evidence:
            return 0.0
        now = len(outcome.turns) - 1
        before: set[str] = set()
        ids: list[str] = []
        for lookup in lookups(outcome):
            if lookup.turn < now:
                before.update(lookup.ids)
            else:
                ids += lookup.ids
        gain = outcome.new_evidence / outcome.evidence_total
        return self.step * (gain - redundancy(ids, before))

    def final(self, outcome: Outcome) -> float:
        asked, gold = queries(outcome), outcome.task.queries
        best = [max((token_f1(query, wanted) for query in asked), default=0.0) for wanted in gold]
        return outcome.f1 + self.keywords * (sum(best) / len(best) if best else 0.0)


def redundancy(ids: Sequence[str], before: set[str]) -> float:
    """Share of a search's passages that were shown before, or earlier in the same list."""
    known, repeated = set(before), 0
    for passage in ids:
        repeated += passage in known
        known.add(passage)
    return repeated / len(ids) if ids else 0.0


@dataclass(frozen=True)
class ReSeek:
    """Pay a judgement of the newest results that is right, and charge one that is wrong.

    Right is "good" exactly where the results showed a gold passage for the first time: ``match``,
    else -``mismatch`` (ReSeek, arXiv 2510.00568, R_judge). Label and values are ours: the released
    code pays .1 for "good" before a right answer and charges .05 before a wrong one, half of it if
    a reranker finds the results like the gold answer; "bad" earns .02 where it does not, and is
    charged .05 where it does. A task without gold passages pays nothing.
    """

    registered = "reward:reseek"
    systems = ("ReSeek",)

    match: float = 0.1
    mismatch: float = 0.1

    def turn(self, outcome: Outcome) -> float:
        action = outcome.action
        if not isinstance(action, Judge) or not outcome.evidence_total:
            return 0.0
        judged = _newest(outcome)
        if judged is None:
            return 0.0
        showed_new = new_evidence(outcome)[judged] > 0
        return self.match if action.useful == showed_new else -self.mismatch


def _newest(outcome: Outcome) -> int | None:
    """Number of the turn whose results the latest judgement is about: the newest of its context
    that no judgement hid."""
    *before, now = outcome.turns
    visible: list[int] = []
    for turn in before:
        if turn.context != now.context:
            continue
        if turn.calls:
            visible.append(turn.number)
        elif isinstance(turn.action, Judge) and not turn.action.useful and visible:
            visible.pop()
    return visible[-1] if visible else None


@dataclass(frozen=True)
class Nuggets:
    """Pay the share of the question's facts that the answer states: Σ w v / Σ w.

    A fact is stated (v = 1) if both its entities stand in the answer, in part (``partial``) if the
    one that the question does not name does. Facts that touch the answer weigh ``vital``, the
    others ``okay`` (Search-Gen-V, arXiv 2510.14660). The labels support, partial and none are the
    paper's, whose verifier is a language model; values and weights of the sum are ours. The nuggets
    are the edges of the task's reasoning graph, which suits long-form answers; a task without one
    has a single nugget, its answer.
    """

    registered = "reward:nuggets"
    systems = ("Search-Gen-V",)

    partial: float = 0.5
    vital: float = 1.0
    okay: float = 0.5

    def final(self, outcome: Outcome) -> float:
        graph = outcome.task.graph
        if not outcome.answered or graph is None or not graph.edges:
            return outcome.cover_em
        said = normalise_answer(outcome.answer)
        stated = {n.id: covers(said, normalise_answer(n.value)) for n in graph.nodes}
        given = {n.id for n in graph.nodes if n.given}
        labels, weights = [], []
        for edge in graph.edges:
            ends = edge.subject, edge.object
            new = [stated[end] for end in ends if end not in given]
            whole = all(stated[end] for end in ends)
            labels.append(1.0 if whole else self.partial if any(new) else 0.0)
            weights.append(self.vital if graph.answer in ends else self.okay)
        return weighted_share(labels, weights)


def weighted_share(labels: Sequence[float], weights: Sequence[float]) -> float:
    """Σ w v / Σ w; 0 without weights."""
    total = sum(weights)
    return sum(v * w for v, w in zip(labels, weights, strict=True)) / total if total else 0.0


_BRACKETS = re.compile(r"[<>\[\]()/]")


@dataclass(frozen=True)
class CGrpo:
    """Pay a right answer (1 - ``share``) + ``share`` · rubric, a wrong one nothing.

    The rubric is the share of the question's facts that are named, supported and connected: both
    their entities stand in the last turn's text (or in the question), a cited passage that was
    shown states them, and a chain of such facts joins them to the answer. A passage is cited by its
    URL or by its title in square brackets; ``cited=False`` counts every passage shown (CaRR
    and C-GRPO, arXiv 2601.06021; released code, which divides no positive reward by the
    group's best). The paper lets a language model write and check the rubrics; here they are the
    edges of the task's reasoning graph. 0 for a task without one.
    """

    registered = "reward:c_grpo"
    systems = ("C-GRPO / CaRR",)

    share: float = 0.3
    cited: bool = True

    def final(self, outcome: Outcome) -> float:
        if outcome.em != 1.0:
            return 0.0
        return (1.0 - self.share) + self.share * self.rubric(outcome)

    def rubric(self, outcome: Outcome) -> float:
        """Share of the facts that are named, supported and connected."""
        graph = outcome.task.graph
        if graph is None or not graph.edges:
            return 0.0
        text = outcome.turns[-1].text
        supporting = frozenset(outcome.seen)
        if self.cited:
            supporting &= cited_passages(text, shown_passages(outcome))
        said = normalise_answer(_BRACKETS.sub(" ", text))  # they are deleted, and would join words
        named = {n.id for n in graph.nodes if n.given or covers(said, normalise_answer(n.value))}
        supported = [
            edge.passage in supporting and {edge.subject, edge.object} <= named
            for edge in graph.edges
        ]
        return connected_share(links(graph), supported, graph.answer)


def shown_passages(outcome: Outcome) -> dict[str, tuple[str, str]]:
    """Passage id → title and URL, of all that was shown."""
    passages: dict[str, tuple[str, str]] = {}
    for turn in outcome.turns:
        for result in turn.results:
            if isinstance(result, ToolResult):
                passages |= {h.passage.id: (h.passage.title, h.passage.url) for h in result.hits}
                if isinstance(page := result.meta.get("page"), Page):
                    passages |= dict.fromkeys(page.passage_ids, (page.title, page.url))
    return passages


def cited_passages(text: str, shown: Mapping[str, tuple[str, str]]) -> frozenset[str]:
    """Ids of the passages whose URL, or title in square brackets, stands in a text."""
    return frozenset(
        key for key, (title, url) in shown.items() if (url and url in text) or f"[{title}]" in text
    )


def links(graph: ReasoningGraph) -> list[tuple[str, str]]:
    """The pair of entities of each fact."""
    return [(edge.subject, edge.object) for edge in graph.edges]


def connected_share(
    facts: Sequence[Collection[str]], supported: Sequence[bool], answer: str
) -> float:
    """Share of the facts that are supported and joined to ``answer`` by supported ones. Where the
    answer is no entity (a count, a comparison) every supported fact counts."""
    left = [set(fact) for fact, holds in zip(facts, supported, strict=True) if holds]
    if not answer:
        return len(left) / len(facts)
    reached, count = {answer}, 0
    while near := [fact for fact in left if fact & reached]:
        count += len(near)
        reached.update(*near)
        left = [fact for fact in left if fact not in near]
    return count / len(facts)


@dataclass(frozen=True)
class SearchR2:
    """Pay EM · (1 + ``density`` · u / n) where u of the n passages shown are gold.

    Search-R2 (arXiv 2602.03647) couples the outcome with the density of evidence; its exact form
    was not read, this one is ours. Without passages it is EM.
    """

    registered = "reward:search_r2"
    systems = ("Search-R2",)

    density: float = 0.2

    def final(self, outcome: Outcome) -> float:
        gold = set(outcome.evidence)
        shown = [
            hit.passage.id in gold or not gold.isdisjoint(result.meta.get("evidence", ()))
            for turn in outcome.turns for result in turn.results
            if isinstance(result, ToolResult) for hit in result.hits
        ]  # fmt: skip
        useful = sum(shown) / len(shown) if shown else 0.0
        return outcome.em * (1.0 + self.density * useful)
