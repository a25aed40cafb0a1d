"""Dynamic sampling (DAPO, arXiv 2503.14476): go on until enough groups disagree."""

from __future__ import annotations

from ...errors import EngineError
from ..ops.groups import all_alike
from ..slots.records import Scored
from .uniform import UniformTasks


class Dynamic(UniformTasks):
    """Drops groups whose ``metric`` is the same for all members, and plays further tasks instead.

    Args:
        metric: A signal, compared between members; penalties for length do not make a group differ.
        max_rounds: Rounds of playing per step, of as many tasks each.
        strict: When they are used up: an ``EngineError``, or train on what there is.
    """

    registered = "dynamic"

    def __init__(self, metric: str = "return", max_rounds: int = 10, strict: bool = False) -> None:
        super().__init__()
        if max_rounds < 1:
            raise ValueError(f"max_rounds must be at least 1, got {max_rounds}")
        self.metric, self.max_rounds, self.strict = metric, max_rounds, strict
        self.requires = frozenset({metric})

    def admit(self, scored: Scored) -> Scored | None:
        values = scored.signals[self.metric][scored.training]
        return None if all_alike(values) else scored

    def enough(self, kept: int, wanted: int, rounds: int) -> bool:
        if kept < wanted and rounds >= self.max_rounds and self.strict:
            raise EngineError(
                f"only {kept} of {wanted} groups had members of different {self.metric} after "
                f"{rounds} rounds: use easier or harder tasks, larger groups, or strict=False"
            )
        return kept >= wanted or rounds >= self.max_rounds
