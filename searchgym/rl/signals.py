"""Signals: measurements of played groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch

from ..core.episode import Episode
from ..dialects.base import get_dialect
from ..dialects.masks import overlap
from ..errors import CardError, check_known, unknown
from ..policies.rows import Bools, Ints, TrainingRow
from ..rewards.registry import TURN
from .slots.protocols import Signal
from .slots.records import Floats, Group, Played, Signals, Workers


class OfMembers(Signal):
    """Base of those that measure one thing of each member by itself."""

    def of(self, member: Played) -> float | list[float]:
        """The signal of a member: a number, or one for each turn."""
        raise NotImplementedError

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        (name,) = self.provides
        made: list[Signals] = []
        for group in groups:
            values: Any = [self.of(member) for member in group.members]
            by_turn = any(isinstance(value, list) for value in values)
            made.append({name: in_columns(values) if by_turn else np.array(values, float)})
        return made


class Return(OfMembers):
    """``return``: the sum of the environment's rewards; NaN where the infrastructure failed."""

    registered = "return"
    provides = frozenset({"return"})

    def of(self, member: Played) -> float:
        return total(member)


class Parts(Signal):
    """Reward parts by name, whatever the environment's weights: ``em``, ``f1``, ``invalid``, … and
    those of one's own that its reward names, if with weight 0.

    A part of the answer is 0 for an episode that was not answered; parts of turns are summed. NaN
    where the infrastructure failed.

    Args:
        names: Parts to measure. One that the episodes do not measure is a ``CardError`` when the
            first is measured.
    """

    registered = "parts"

    def __init__(self, names: Sequence[str] = ("em", "f1")) -> None:
        self.names = tuple(names)
        self.provides = frozenset(names)

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [
            {name: np.array([part(m, name) for m in group.members]) for name in self.names}
            for group in groups
        ]


def total(member: Played) -> float:
    """The return."""
    return float("nan") if member.broken else float(sum(t.reward for t in member.episode.turns))


def part(member: Played, name: str) -> float:
    """A reward part, unweighted."""
    if member.broken:
        return float("nan")
    if name in TURN:
        return float(sum(t.reward_parts.get(name, 0.0) for t in member.episode.turns))
    if (outcome := member.episode.outcome()) is None:
        return 0.0
    parts = outcome.parts
    if name not in parts:
        raise CardError(
            unknown("reward part", name, {*parts, *TURN})
            + "; to measure a part of your own, name it in the environment's reward, if with "
            f"weight 0: {{{name!r}: 0}}"
        )
    return float(parts[name])


class Length(OfMembers):
    """``length``: sampled tokens of all turns together."""

    registered = "length"
    provides = frozenset({"length"})

    def of(self, member: Played) -> float:
        return float(member.tokens)


class TurnReturns(OfMembers):
    """``turn_return``: (M, K) the environment's reward of each turn; their sum is ``return``."""

    registered = "turn_returns"
    provides = frozenset({"turn_return"})

    def of(self, member: Played) -> list[float]:
        return [turn.reward for turn in member.episode.turns]


class TurnParts(Signal):
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
            check_known("part of turns", known, *self.names)
        return [
            {
                f"turn_{name}": in_columns(
                    [[t.reward_parts.get(name, 0.0) for t in m.episode.turns] for m in g.members]
                )
                for name in self.names
            }
            for g in groups
        ]


class Searches(OfMembers):
    """``searches``: (M,) queries that were run."""

    registered = "searches"
    provides = frozenset({"searches"})

    def of(self, member: Played) -> float:
        return float(member.episode.queries)


class Anchor(Signal):
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


class GoldLogp(Signal):
    """``gold_logp``: (M, K) the mean log-probability of the gold answer's tokens if it had to be
    given in place of each turn (IGPO, arXiv 2510.14967).

    The answer (a task's first) is teacher-forced: ``Dialect.force_answer`` says what stands before
    it. One forward pass over every turn's context. NaN for a turn that was never asked for, because
    no room was left, and for one whose context has no room for the answer.
    """

    registered = "gold_logp"
    by_turn = frozenset({"gold_logp"})
    provides = frozenset({"gold_logp"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        signals: list[Signals] = []
        context = workers.policy.context
        for group in groups:
            turns = max((len(m.episode.turns) for m in group.members), default=0)
            made = np.full((len(group.members), turns), np.nan)
            rows, places = [], []
            for i, member in enumerate(group.members):
                answer = self.target(member)
                if answer is None:
                    continue
                ids, scored = _forced(member, answer, workers)
                for number, prompt in _prompts(member):
                    if context is not None and len(prompt) + len(ids) > context:
                        continue
                    unasked = np.zeros(len(prompt), np.bool_)
                    rows.append(asked_row(np.r_[prompt, ids], np.r_[unasked, scored]))
                    places.append((i, number))
            if rows:
                with torch.no_grad():
                    logp = workers.lm.logp(rows).sum(1).cpu().double().numpy()
                counts = np.array([float(row.sampled.sum()) for row in rows])
                made[tuple(np.array(places).T)] = self.value(logp, counts)
            (name,) = self.provides
            signals.append({name: made})
        return signals

    def value(self, logp: Floats, counts: Floats) -> Floats:
        """(n,) numbers of n forced answers: of their log-probabilities and token counts."""
        return logp / counts

    def target(self, member: Played) -> str | None:
        """The answer that is forced; None: there is none to ask for."""
        return member.episode.config.task.answers[0]


def _forced(member: Played, text: str, workers: Workers) -> tuple[Ints, Bools]:
    """The forced answer's ids, and which of them are the answer itself."""
    config = member.episode.config
    bridge, target = get_dialect(config.rules.dialect).force_answer(text)
    answer = get_dialect(config.rules.dialect).parse(bridge + target).spans[-1]
    read = member.episode.contexts.visible(0)
    ids, ends = workers.policy.renderer.spell(read, bridge + target)
    return np.array(ids, np.int64), overlap(ends, [answer])


def _prompts(member: Played) -> Iterator[tuple[int, Ints]]:
    """(turn, the ids before its first token)."""
    for row in member.rows:
        for index, uid in enumerate(row.turn_uids):
            first = int(np.flatnonzero(row.turn_of_token == index)[0])
            yield int(uid.rpartition("/")[2]), row.ids[:first]


def asked_row(ids: Ints, asked: Bools) -> TrainingRow:
    """A row in which only some tokens' log-probabilities are asked for."""
    n = len(ids)
    return TrainingRow(
        "", (), 0, "", ids, asked, asked, np.zeros(n, np.float32), np.full(n, -1),
        np.where(asked, 0, -1),
    )  # fmt: skip
