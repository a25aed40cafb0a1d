"""Signals of each turn: its reward, its searches and the state in which it began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...core.episode import Episode
from ...errors import CardError, unknown
from ...rewards.registry import TURN
from ..slots.protocols import Slot
from ..slots.records import Floats, Group, Signals, Workers


class TurnReturns(Slot):
    """``turn_return``: (M, K) the environment's reward of each turn; their sum is ``return``."""

    registered = "turn_returns"
    provides = frozenset({"turn_return"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [
            {"turn_return": in_columns([[t.reward for t in m.episode.turns] for m in g.members])}
            for g in groups
        ]


class TurnParts(Slot):
    """``turn_<part>``: (M, K) reward parts of turns, unweighted: ``evidence``, ``search``, …; 0 for
    a turn that has none.

    Args:
        names: Names in ``searchgym.rewards.registry.TURN``, or parts of turns that the
            environment's reward names, if with weight 0; another is a ``CardError`` when the first
            is measured.
    """

    registered = "turn_parts"

    def __init__(self, names: Sequence[str] = ("evidence",)) -> None:
        self.names = tuple(names)
        self.provides = frozenset(f"turn_{name}" for name in names)

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        for episode in (m.episode for g in groups for m in g.members):
            known = (*TURN, *episode.config.rules.reward.turn_names)
            for name in self.names:
                if name not in known:
                    raise CardError(unknown("part of turns", name, known))
        return [
            {
                f"turn_{name}": in_columns(
                    [[t.reward_parts.get(name, 0.0) for t in m.episode.turns] for m in g.members]
                )
                for name in self.names
            }
            for g in groups
        ]


class Searches(Slot):
    """``searches``: (M,) queries that were run."""

    registered = "searches"
    provides = frozenset({"searches"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [
            {"searches": np.array([float(m.episode.queries) for m in g.members])} for g in groups
        ]


class Anchor(Slot):
    """``anchor``: (M, K) a number for the state in which each turn began; within a group equal
    states have equal numbers (GiGPO, arXiv 2505.10978).

    Args:
        of: The state is what the environment wrote since the last turn (``"news"``: the question,
            or the results just shown), as in the paper, or all that is visible (``"context"``),
            own texts included.
    """

    registered = "anchor"
    by_turn = frozenset({"anchor"})
    provides = frozenset({"anchor"})

    def __init__(self, of: Literal["news", "context"] = "news") -> None:
        if of not in ("news", "context"):
            raise ValueError(f"of is 'news' or 'context', got {of!r}")
        self.of = of

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        (name,) = self.provides
        return [{name: self._numbers(group)} for group in groups]

    def _numbers(self, group: Group) -> Floats:
        known: dict[tuple[Any, ...], float] = {}
        rows: list[list[float]] = []
        for member in group.members:
            keys = self._keys(member.episode)
            rows.append([known.setdefault(key, float(len(known))) for key in keys])
        return in_columns(rows)

    def _keys(self, episode: Episode) -> list[tuple[Any, ...]]:
        """Return what must be equal for two turns to be of one kind."""
        return [*self._states(episode)]

    def _states(self, episode: Episode) -> list[tuple[str, ...]]:
        """Return the texts that count before each turn."""
        by_id = {s.id: s for s in episode.contexts.segments}
        texts: list[tuple[str, ...]] = []
        for turn in episode.turns:
            seen = [by_id[name] for name in turn.prompt]
            own = [i for i, s in enumerate(seen) if s.author == "policy"]
            first = own[-1] + 1 if own and self.of == "news" else 0
            texts.append(tuple(s.text for s in seen[first:]))
        return texts


def in_columns(rows: Sequence[Sequence[float]]) -> Floats:
    """Array (M, K) of M lists of at most K numbers; NaN where one is shorter."""
    made = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for line, row in zip(made, rows, strict=True):
        line[: len(row)] = row
    return made
