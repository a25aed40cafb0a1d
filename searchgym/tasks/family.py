"""What a task family is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from ..types import Task
from .context import Context
from .draft import Draft

SAME_ANSWER = 0.04


class Propose(Protocol):
    """Proposes tasks about a world, one by one.

    ``ctx`` holds the world (``ctx.world``), its passages (``ctx.corpus``) and look-ups over both.
    ``rng`` is the family's own random stream: proposals may depend on it, ``ctx`` and ``turn``
    alone, so that a seed always gives the same tasks. ``turn`` counts the tasks kept so far and
    steers what should alternate (hops, who wins a comparison).

    Returns a :class:`~searchgym.tasks.draft.Draft` (graph, evidence and how it is put into words),
    a ready :class:`~searchgym.types.Task` (its id, family and split are set later), or None to be
    asked again.
    """

    def __call__(
        self, ctx: Context, rng: np.random.Generator, turn: int, /
    ) -> Draft | Task | None: ...


@dataclass(frozen=True, slots=True)
class Family:
    """A named family."""

    name: str
    propose: Propose
    same_answer: float = SAME_ANSWER
    """Largest share of the family's tasks that may have one and the same answer."""
    proofs: bool = False
    """Whether every task must be proved: the solver finds its answer and no other, passages state
    its facts, queries find them. Without, tasks that bring a reasoning graph are proved, and others
    are taken as they are."""


F = TypeVar("F", bound=Callable[..., Any])


def family(*, same_answer: float = SAME_ANSWER, proofs: bool = True) -> Callable[[F], F]:
    """Mark a function as a task family, with the properties of :class:`Family`."""

    def mark(propose: F) -> F:
        propose.same_answer, propose.proofs = same_answer, proofs  # type: ignore[attr-defined]
        return propose

    return mark
