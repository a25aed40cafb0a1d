"""Searches of a model that knows half of the answers by heart, after a training that charges them.

The model imitates a knower, which answers every other question from memory or after a search, as
chance will have it, and the others after a search only. So it is exact which answers it knows; but
what a training asks often is known in the end, too: questions must be many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ...envs.search import SearchEnv
from ...seeding import stream
from ...types import TurnRequest
from ..company import em_of
from ..learn import Asker
from ..world import query
from .trained import Variant, played_after

PLAYED = 32
"""Episodes of each question after the training."""


@dataclass(frozen=True, slots=True)
class Half(Variant):
    """A course that begins with the knower."""

    @property
    def expert(self) -> str:
        return "searchgym.lab.orderings.boundary:HalfKnower"


class HalfKnower(Asker):
    """An agent that knows every other question's answer, and says it at once or searches first;
    questions are of one fact.

    Args:
        env: An environment of :func:`~searchgym.lab.world.lab_env`.
    """

    RECALLS = 0.5
    """Probability of answering a known question without a search."""

    def __init__(self, env: SearchEnv, seed: int = 0) -> None:
        super().__init__(env, seed)
        self.knows = known(env)

    def _act(self, request: TurnRequest) -> str:
        task = self.by_question[self._asked(request)]
        shown = [hit.passage for s in request.segments for hit in s.hits]
        if shown:
            return "answer: " + shown[-1].text.rpartition(" is ")[2].rstrip(".")
        recalls = stream(self.seed, "recall", request.episode_id).random() < self.RECALLS
        if task.id in self.knows and (recalls or request.turn):
            return f"answer: {task.answers[0]}"
        return f"search: {query(str(task.meta['relations'][0]), task.meta['things'][0])}"


def known(env: SearchEnv) -> frozenset[str]:
    """Ids of the questions whose answers the knower knows."""
    return frozenset(task.id for task in list(env.tasks)[::2])


def boundary(
    seed: int, *, method: str, changes: Mapping[str, Any] | None = None, each: int = PLAYED,
    **course: Any,
) -> dict[str, Any]:  # fmt: skip
    """Train the knower by a recipe, and let it answer every question.

    Args:
        method: A shipped recipe.
        changes: Slots of it that are another here.
        each: Episodes of a question after the training.
        course: Fields of :class:`Half`.

    Returns:
        ``em``; ``known`` and ``unknown``, mean searches on these questions; ``half``, half of the
        known ones', and ``most``, nine tenths of the unknown ones'; ``em_known``, ``em_unknown``.
    """
    env, episodes = played_after(seed, method, changes, Half.of(course), each)
    knows = known(env)
    means: dict[str, float] = {}
    for name, which in (("known", True), ("unknown", False)):
        of = [e for e in episodes if (e.config.task.id in knows) == which]
        means[name] = fmean(e.queries for e in of)
        means[f"em_{name}"] = em_of(of)
    em = (means["em_known"] + means["em_unknown"]) / 2
    return {"em": em, **means, "half": means["known"] / 2, "most": 0.9 * means["unknown"]}
