"""Clip and Delta: rewards of turns that cannot be collected by turns without need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from searchgym import CardError
from searchgym.errors import check_known
from searchgym.rewards import REWARDS, TURN, Outcome, Part
from searchgym.rl import Coef, Floats, Group, Rewards, RewardTransform, Signals


class ClipTurns(RewardTransform):
    """Replaces each turn's reward r by min(r - ``limit``, 0): no turn earns anything, so that
    superfluous ones cannot be collected (Clip of Gao et al., arXiv 2410.15115)."""

    registered = "outcome:clip_turns"
    requires = frozenset({"turn_reward"})
    reshapes_turns = True

    def __init__(self, limit: float = 0.5) -> None:
        self.limit = float(limit)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        if rewards.turns is None:
            return rewards
        return Rewards(rewards.outcome, np.minimum(rewards.turns - self.limit, 0.0))


class DeltaTurns(RewardTransform):
    """Replaces each turn's reward by how much it exceeds the next one's; the turn before the last
    keeps its own and the last, which the outcome pays, gets 0 (Delta of Gao et al., arXiv
    2410.15115). The sum is the first turn's reward, however many follow."""

    registered = "outcome:delta_turns"
    requires = frozenset({"turn_reward"})
    reshapes_turns = True

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        if rewards.turns is None:
            return rewards
        return Rewards(rewards.outcome, np.array([_deltas(row) for row in rewards.turns]))


def _deltas(row: Floats) -> Floats:
    """One member's differences; NaN stays."""
    made = row.copy()
    here = np.flatnonzero(~np.isnan(row))
    if len(here):
        steps = row[here]
        steps[-1] = 0.0
        made[here] = np.append(steps[:-1] - steps[1:], 0.0)
    return made


@dataclass(frozen=True)
class Clipped:
    """Charge a turn what another reward of turns gives it less than ``limit``.

    A turn earns min(r - ``limit``, 0): none can earn anything, so that superfluous ones cannot be
    collected (Clip of Gao et al., On Designing Effective RL Reward at Training Time, arXiv
    2410.15115). ``of`` is the name of a registered reward of turns. Delta, which pays a turn by
    what the next one gets, needs the whole episode: see the trainer's reward ``delta_turns``.

    Raises:
        CardError: a name that is no registered reward of turns.
    """

    registered = "reward:clipped"
    systems = ("Clip / Delta",)

    of: str = "evidence"
    limit: float = 1.0

    def __post_init__(self) -> None:
        of_turns(self.of)

    def turn(self, outcome: Outcome) -> float:
        return min(of_turns(self.of)(outcome) - self.limit, 0.0)


@dataclass(frozen=True)
class Best:
    """Pay a turn by how much it beats the best turn before it: max(0, r - max of earlier r).

    The sum over an episode is its best turn's, not the turns' sum (the max-reward return of
    MaxCode, of which only the abstract was read: a return that is the best attempt's). ``of`` is
    one of the measures that every episode records for its turns: search, access, call, invalid,
    evidence.

    Raises:
        CardError: another name.
    """

    registered = "reward:best"
    systems = ("MaxCode",)

    of: str = "evidence"

    def __post_init__(self) -> None:
        check_known("measure of turns", TURN, self.of)

    def turn(self, outcome: Outcome) -> float:
        earlier = (turn.reward_parts.get(self.of, 0.0) for turn in outcome.turns[:-1])
        return max(0.0, of_turns(self.of)(outcome) - max(earlier, default=0.0))


@cache
def of_turns(name: str) -> Callable[[Outcome], float]:
    """A registered reward of turns as a function, 0 where it is not called.

    Raises:
        CardError: a name that is not registered (import paths are refused, because a record of
            strangers may hold one), or a reward of the end.
    """
    from searchgym.rewards import make_part

    check_known("reward part", REWARDS, name)
    part: Part = make_part(name)
    measure = part.on_turn
    if measure is None:
        raise CardError(f"'of' names a reward of turns, and {name!r} is one of the end")
    after = part.after or ()

    def value(outcome: Outcome) -> float:
        return float(measure(outcome)) if not after or type(outcome.action) in after else 0.0

    return value
