"""Published rewards of turns that compare one with a limit or with the turns before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from searchgym import CardError
from searchgym.errors import check_known
from searchgym.rewards import REWARDS, TURN, Outcome, Part


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
