"""Search-Gen-V's nuggets as a rubric of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from searchgym.rewards import Outcome
from searchgym.text import covers, normalise_answer


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
