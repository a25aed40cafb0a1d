"""Search-R2: a chain that is not accepted is cut where it went wrong, and goes on anew."""

from __future__ import annotations

from typing import Literal, get_args

from searchgym import Episode, Search
from searchgym.rl import SecondTries, Source, TurnTree, checked_source, hint_of, returns
from searchgym.seeding import stream

Where = Literal["evidence", "random"]


def first_fruitless(episode: Episode) -> int:
    """The first turn that searched and showed no gold passage that was not seen before, or no valid
    action; the last one if there is none."""
    for number, turn in enumerate(episode.turns[:-1]):
        fruitful = turn.reward_parts.get("evidence", 0.0) > 0
        if "invalid" in turn.reward_parts or (isinstance(turn.action, Search) and not fruitful):
            return number
    return len(episode.turns) - 1


class Retry(SecondTries):
    """Half of ``size`` chains, each of which that is not accepted is cut at one turn, and goes on
    anew from before it. Both the chain and its second try are members.

    Search-R2 (arXiv 2602.03647) lets the policy judge and cut; here the reward judges and the world
    knows where nothing was found (ours). R³L (arXiv 2601.03715) tries all again, from where the
    policy says.

    Args:
        size: Members of a group, at most; an even number.
        accept: Return from which a chain is accepted; None: none is.
        cut: ``"evidence"``: the first turn that brought nothing (:func:`first_fruitless`), or
            ``"random"``.
        hint: What a second try is told after the question, as in the rollout ``hinted``: the
            ``"queries"`` of the task or its ``"answer"``. No row holds it, and such members are
            ``expert``. R³L lets the policy write what it is told.
    """

    registered = "rollout:retry"

    def __init__(
        self,
        size: int = 8,
        accept: float | None = None,
        cut: Where = "evidence",
        hint: Source | None = None,
    ) -> None:
        super().__init__(size)
        if cut not in get_args(Where):
            raise ValueError(f"cut is 'evidence' or 'random', got {cut!r}")
        self.accept, self.cut = accept, cut
        self.hint = None if hint is None else checked_source(hint)

    def again(self, tree: TurnTree) -> None:
        for place, earned in returns(tree).items():
            if self.accept is None or earned < self.accept:
                second = tree.fork(place, self._where(tree, place))
                if self.hint and (text := hint_of(tree.plan.task, self.hint)):
                    tree.hints[tree.branches[second].episode.config.episode_id] = text

    def _where(self, tree: TurnTree, place: int) -> int:
        episode = tree.branches[place].episode
        if self.cut == "evidence":
            return first_fruitless(episode)
        draw = stream(tree.plan.key, "cut", place)
        return int(draw.integers(len(episode.turns)))
