"""CaRR's citation-aware rubrics, mixed into the outcome as C-GRPO does."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from searchgym import ToolResult
from searchgym.rewards import Outcome
from searchgym.text import covers, normalise_answer
from searchgym.types import Page, ReasoningGraph

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
