"""Trajectories as tensors: one line per trajectory, one column per token that the policy sampled.

What was read (questions, results) has no column at all, so nothing can train on it by mistake, and
an episode whose context was edited, and which therefore has several rows, is still one sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from ...policies.rows import Ints, TrainingRow
from ..ops.tokens import at_last_token, masked
from .records import Floats, Played, Scored, wider

Kind = Literal["played", "expert", "replayed"]
"""Kinds of trajectories (``Batch.among``)."""


def checked_kinds(kinds: Kind | Sequence[Kind]) -> tuple[Kind, ...]:
    """Kinds as a tuple; ``ValueError`` for one that is none."""
    made: tuple[Kind, ...] = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if not made or set(made) - set(get_args(Kind)):
        raise ValueError(f"members are of {', '.join(get_args(Kind))}, got {kinds!r}")
    return made


class Output(NamedTuple):
    """Model outputs for a batch, with gradient. (N, T) each; 0 where there is no token."""

    logp: Tensor
    entropy: Tensor | None = None


class Mean(NamedTuple):
    """A statistic of a part of a batch that is not a mean over its trained tokens: of trajectories,
    or of pairs. Totals and weights of parts add up."""

    total: float
    weight: float


class Totals(NamedTuple):
    """Counts of the whole update, by which losses are divided wherever its parts are computed."""

    tokens: float
    """Trained tokens."""
    sequences: float
    """Trajectories with at least one."""


class Estimate(NamedTuple):
    """Result of an advantage estimator."""

    adv: Tensor
    """(N,) or (N, T) advantages, detached and 0 where masked."""
    clip_scale: Tensor | None = None
    """(N, T) factors on the clip range; None: 1. An estimator that gives them provides
    ``"clip_scale"``, and some loss must read them (``scales_clip``)."""
    mask: Tensor | None = None
    """(N, T) bool: which of the trained tokens the losses are to see; None: all. An advantage of 0
    is not the same: such a token still counts in divisors, and KL, entropy and imitation still move
    it."""
    returns: Tensor | None = None
    """(N, T) values that the critic should have given; None: it is not fitted."""
    value_mask: Tensor | None = None
    """(N, T) bool: where the critic is asked; None: at all trained tokens."""
    notes: Mapping[str, Tensor] = {}
    """Notes for a loss by name, (N, T) or (N,): KL-Cov's ``picked`` tokens."""

    def within(self, mask: Tensor) -> Estimate:
        """The same, for the losses to see the tokens of (N, T) ``mask`` alone, of those that they
        would see."""
        return self._replace(mask=mask if self.mask is None else mask & self.mask)


@dataclass(slots=True)
class Batch:
    """N trajectories of at most T sampled tokens."""

    members: list[Played]
    mask: Tensor
    """(N, T) bool: trained on."""
    turn: Tensor
    """(N, T) long: each token's turn, 0, 1, 2, …"""
    group: Tensor
    """(N,) long."""
    reward: Tensor
    """(N,) float: outcome and turn rewards together; NaN: cannot be scored."""
    sampled_logp: Tensor
    """(N, T) log-probabilities under the sampling policy; 0 for trajectories that are
    ``unsampled``. What reads them requires ``"sampled_logp"``."""
    expert: Tensor
    """(N,) bool: written by another policy (``Played.purpose``)."""
    replayed: Tensor
    """(N,) bool: of an earlier step, in a group of its own or added to a new one
    (``Played.purpose``)."""
    number: Tensor | None = None
    """(N,) long: a number of its own for each trajectory, which it keeps in parts of the batch."""
    parent: Tensor | None = None
    """(N,) long: ``number`` of the trajectory that each one branched off from; -1: none. The parent
    need not be in the batch: it may have been dropped, or be in another part of it."""
    siblings: Tensor | None = None
    """(N,) long: trajectories of equal numbers branched off at one place (``Played.siblings``)."""
    since: Tensor | None = None
    """(N,) long: the first turn of each one's own (``Played.since``)."""
    outcome: Tensor | None = None
    """(N,) float: what was paid for the episode as a whole. Not ``reward`` less the turns', which
    has their rounding in it."""
    turn_reward: Tensor | None = None
    """(N, T) rewards of turns, each at its last trained token (a turn without one: at the last
    before it)."""
    earlier: Tensor | None = None
    """(N,) what of ``reward`` was paid for turns before ``since``, which are the parent's."""
    baseline: Tensor | None = None
    """(N,) rewards of the group's baseline member; NaN: it broke off."""
    old_logp: Tensor | None = None
    """(N, T) log-probabilities under the weights at the start of the update."""
    ref_logp: Tensor | None = None
    """(N, T) log-probabilities under the reference."""
    teacher_logp: Tensor | None = None
    """(N, T) log-probabilities under the teacher."""
    measures: Mapping[str, Tensor] = field(default_factory=dict)
    """Measures of the distributions that the tokens were drawn from, under the weights at the start
    of the update, by their names in ``policies.scoring.TOKEN_MEASURES``: (N, T) or (N, T, D)."""
    value: Tensor | None = None
    """(N, T) a critic's, before the update."""
    credit: Estimate | None = None
    """Result of the advantage estimator."""
    notes: dict[str, Tensor] = field(default_factory=dict)
    """Notes of the estimator and of the losses themselves (``Loss.prepare``), by name."""
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    """Signals by name: (N,), or (N, K) by turn."""

    def __len__(self) -> int:
        return len(self.members)

    @property
    def length(self) -> Tensor:
        """(N,) long: trained tokens."""
        return self.mask.sum(1)

    @property
    def adv(self) -> Tensor:
        """(N,) or (N, T) advantages."""
        if self.credit is None:
            raise ValueError("this batch has no adv")
        return self.credit.adv

    @property
    def clip_scale(self) -> Tensor | None:
        """(N, T) factors on the clip range; None: 1."""
        return None if self.credit is None else self.credit.clip_scale

    @property
    def returns(self) -> Tensor | None:
        """(N, T) values that the critic should have given."""
        return None if self.credit is None else self.credit.returns

    @property
    def rows(self) -> list[TrainingRow]:
        """All rows, trajectory by trajectory."""
        return [row for m in self.members for row in m.rows]

    @property
    def unsampled(self) -> Tensor:
        """(N,) bool: without sampling log-probabilities (``Played.unsampled``)."""
        return torch.tensor([m.unsampled for m in self.members], dtype=torch.bool)

    def among(self, kinds: Sequence[Kind]) -> Tensor:
        """(N,) bool: trajectories of some kinds. Those that the policy has ``"played"`` in this
        step are neither an ``"expert"``'s nor ``"replayed"``."""
        which = {"expert": self.expert, "replayed": self.replayed & ~self.expert}
        which["played"] = ~self.expert & ~self.replayed
        among = torch.zeros_like(self.expert)
        for kind in kinds:
            among = among | which[kind]
        return among

    def of_role(self, role: str) -> Tensor:
        """(N,) bool: trajectories of a role (``Played.role``)."""
        return torch.tensor([m.role == role for m in self.members], dtype=torch.bool)

    def tokens_of(self, role: str) -> Tensor:
        """(N, T) bool: tokens that a role wrote. In an episode in which sub-tasks were handed over,
        tokens of several roles stand in one line (``TrainingRow.role``)."""
        made = self.of_role(role)[:, None].repeat(1, self.mask.shape[1])
        for line, m in zip(made, self.members, strict=True):
            if any(row.role != m.role for row in m.rows):
                parts = [torch.full((int(r.sampled.sum()),), r.role == role) for r in m.rows]
                line[: m.tokens] = _in_time(torch.cat(parts), m)
        return made

    @property
    def totals(self) -> Totals:
        return Totals(float(self.mask.sum()), float((self.length > 0).sum()))

    def take(self, places: Sequence[int]) -> Batch:
        """Return a batch of the trajectories at the given places."""
        index = torch.as_tensor(list(places), dtype=torch.long)

        def part(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value[index]
            if isinstance(value, Mapping):
                return {key: part(one) for key, one in value.items()}
            return Estimate(*map(part, value)) if isinstance(value, Estimate) else value

        values = {f.name: part(getattr(self, f.name)) for f in fields(self)}
        return Batch(**{**values, "members": [self.members[i] for i in places]})

    def need(self, name: str) -> Tensor:
        """An optional field or a measure; recipes make sure that it is there."""
        value = self.measures[name] if name in self.measures else getattr(self, name, None)
        if value is None:
            raise ValueError(f"this batch has no {name}")
        assert isinstance(value, Tensor)
        return value

    def signal(self, name: str) -> Tensor:
        """A measurement; recipes make sure that it is there."""
        if name not in self.signals:
            raise ValueError(f"this batch has no signal {name}; it has {sorted(self.signals)}")
        return self.signals[name]

    def note(self, name: str) -> Tensor:
        """Note that an estimator left; recipes make sure that it is there."""
        if name not in self.notes:
            raise ValueError(f"this batch has no note {name}; it has {sorted(self.notes)}")
        return self.notes[name]

    def narrow(self, mask: Tensor) -> None:
        """Train on the tokens of (N, T) ``mask`` alone, of those that were trained on."""
        self.mask = self.mask & mask

    def by_turn(self, name: str) -> Tensor:
        """(N, T) an (N, K) measurement, at every token of its turn."""
        values = self.signal(name)
        return values.gather(1, self.turn.clamp_max(values.shape[1] - 1))

    def token_reward(self) -> Tensor:
        """(N, T) rewards where they are paid: turns' at their ends, the rest of ``reward`` at the
        last trained token. 0 for trajectories that cannot be scored; turns of a parent's are not
        paid again."""
        paid = torch.zeros(self.mask.shape)
        if self.turn_reward is not None:
            paid = masked(self.turn_reward, self.mask)
        paid = torch.where(self.reward.isnan()[:, None], torch.zeros_like(paid), paid)
        left = torch.nan_to_num(self.reward) - paid.sum(1)
        if self.earlier is not None:
            left = left - torch.where(self.reward.isnan(), 0.0, self.earlier)
        return paid + at_last_token(left, self.mask)

    @classmethod
    def of(cls, scored: Sequence[Scored], replayed: int = 0) -> Batch | None:
        """The trained members of some groups, the last ``replayed`` of which are of earlier steps;
        None if there are none, or none has a token."""
        members: list[Played] = []
        group: list[int] = []
        reward: list[float] = []
        outcome: list[float] = []
        baseline: list[float] = []
        compared = False
        by_turn: list[Floats | None] = []
        earlier: list[float] = []
        numbers: dict[tuple[int, int], int] = {}
        families: dict[tuple[int, int], int] = {}
        branch: list[tuple[int, int, int]] = []
        for number, s in enumerate(scored):
            twins = [i for i, m in enumerate(s.group.members) if m.purpose == "baseline"]
            compared = compared or bool(twins)
            earned = s.rewards.total
            floor = float(np.mean(earned[twins])) if twins else float("nan")
            for i in s.training:
                members.append(s.group.members[i])
                group.append(number)
                reward.append(float(earned[i]))
                outcome.append(float(s.rewards.outcome[i]))
                baseline.append(floor)
                last, here = members[-1], (number, s.group.place(i))
                turns = None if s.rewards.turns is None else s.rewards.turns[i]
                earlier.append(0.0 if turns is None else float(np.nansum(turns[: last.since])))
                by_turn.append(None if turns is None else turns[last.since :])
                own = numbers.setdefault(here, len(numbers))
                above = -1
                if last.parent is not None:
                    above = numbers.setdefault((number, last.parent), len(numbers))
                family = families.setdefault((number, last.siblings), len(families))
                branch.append((own, above, family))
        width = max((m.tokens for m in members), default=0)
        if not width:
            return None
        mask = _lines(members, "loss_mask", width, torch.bool)
        turn = _turns(members, width)
        return cls(
            members,
            mask,
            turn,
            torch.tensor(group),
            torch.tensor(reward),
            _lines(members, "logp", width, torch.float32),
            torch.tensor([m.purpose == "expert" for m in members]),
            (torch.tensor(group) >= len(scored) - replayed)
            | torch.tensor([m.purpose == "replayed" for m in members]),
            number=torch.tensor([b[0] for b in branch]),
            parent=torch.tensor([b[1] for b in branch]),
            siblings=torch.tensor([b[2] for b in branch]),
            since=torch.tensor([m.since for m in members]),
            outcome=torch.tensor(outcome),
            turn_reward=_turn_rewards(by_turn, turn, mask, [m.since for m in members]),
            earlier=torch.tensor(earlier) if any(earlier) else None,
            baseline=torch.tensor(baseline) if compared else None,
            signals=_signals(scored),
        )


def in_lines(values: Tensor, members: Sequence[Played], width: int) -> Tensor:
    """(R, W) or (R, W, D) values of all the members' rows as (N, ``width``) or (N, ``width``, D):
    sampled tokens only, in the order in which they were written."""
    made: list[tuple[Ints, ...]] = []  # member, place in its line, row, place there
    at = 0
    for number, member in enumerate(members):
        places = [np.flatnonzero(row.sampled) for row in member.rows]
        column = np.concatenate(places) if places else np.zeros(0, np.int64)
        row = np.repeat(np.arange(at, at + len(places)), [len(p) for p in places])
        if member.order is not None:
            column, row = column[member.order], row[member.order]
        made.append((np.full(len(row), number), np.arange(len(row)), row, column))
        at += len(places)
    to_line, to_place, from_row, from_place = (
        torch.from_numpy(np.concatenate(index)).to(values.device)
        for index in zip(*made, strict=True)
    )
    lines = values.new_zeros(len(members), width, *values.shape[2:])
    return lines.index_put((to_line, to_place), values[from_row, from_place])


def _lines(members: Sequence[Played], name: str, width: int, dtype: torch.dtype) -> Tensor:
    made = torch.zeros(len(members), width, dtype=dtype)
    for line, member in zip(made, members, strict=True):
        parts = [torch.from_numpy(getattr(row, name)[row.sampled]) for row in member.rows]
        if parts:
            line[: sum(map(len, parts))] = _in_time(torch.cat(parts), member)
    return made


def _in_time(line: Tensor, member: Played) -> Tensor:
    """A member's sampled tokens, given row by row, in the order in which they were written."""
    order = member.order
    return line if order is None else line[torch.from_numpy(order)]


def _turns(members: Sequence[Played], width: int) -> Tensor:
    """(N, ``width``) each token's turn; numbers never decrease along a line."""
    made = torch.zeros(len(members), width, dtype=torch.long)
    for line, member in zip(made, members, strict=True):
        turns = np.sort(member.turns)
        line[: len(turns)] = torch.from_numpy(turns)
    return made


def _turn_rewards(
    by_turn: Sequence[Floats | None], turn: Tensor, mask: Tensor, since: Sequence[int]
) -> Tensor | None:
    """Each turn's reward at its last trained token, or the last one before it. What stands before
    all of them is not lost: ``Batch.token_reward`` pays it at the end. Rewards of a trajectory
    begin with its turn ``since``."""
    if all(rewards is None for rewards in by_turn):
        return None
    made = torch.zeros(turn.shape)
    for line, row, keep, rewards, first in zip(made, turn, mask, by_turn, since, strict=True):
        if rewards is None:
            continue
        places = torch.nonzero(keep)[:, 0]
        turns, order = row[places].sort(stable=True)
        number = torch.as_tensor(np.flatnonzero(np.nan_to_num(rewards)))
        before = torch.searchsorted(turns, number + first, right=True) - 1
        paid = torch.as_tensor(rewards, dtype=torch.float32)[number]
        there = before >= 0
        line.index_add_(0, places[order[before[there]]], paid[there])
    return made


def _signals(scored: Sequence[Scored]) -> dict[str, Tensor]:
    made: dict[str, Tensor] = {}
    for name in scored[0].signals if scored else ():
        parts = [s.signals[name][s.training] for s in scored]
        if parts[0].ndim == 2:
            most = max(p.shape[1] for p in parts)
            parts = [wider(p, most) for p in parts]
        made[name] = torch.from_numpy(np.concatenate(parts))
    return made
