"""Rollouts that branch: an episode is forked at a turn, and siblings go on from there.

A tree is grown turn by turn, all groups' together in one batch. After each turn,
:meth:`Branching.grow` is asked where to cut and how many siblings begin there; that is all in which
methods differ. A branch's rows begin where it left its parent, so that each sampled token is
trained on once, and the parent is the member that wrote the turn before the cut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from ...core.episode import Episode
from ...core.rollout import step
from ...policies.causal_lm import CausalLMPolicy
from ...seeding import stream
from ...types import Task, TurnRequest
from ..slots.protocols import RolloutStrategy
from ..slots.records import Group, Played, TaskPlan, Workers
from .chains import played, start

Source = Literal["queries", "answer"]


def checked_source(source: Source) -> Source:
    """``ValueError`` unless it is one."""
    if source not in get_args(Source):
        raise ValueError(f"hint is 'queries' or 'answer', got {source!r}")
    return source


def hint_of(task: Task, source: Source) -> str:
    """The text that a question is followed by; empty where the task has nothing to tell."""
    told = "; ".join(task.queries) if source == "queries" else task.answers[0]
    return f"Hint: {told}\n" if told else ""


class WithHints:
    """The policy, told a hint in some episodes, which its record of them does not hold.

    Args:
        hints: Episode → text after the question.
    """

    def __init__(self, policy: CausalLMPolicy, hints: Mapping[str, str]) -> None:
        self.policy, self.hints = policy, hints

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        policy = self.policy
        plain = []
        for request in requests:
            if request.episode_id in self.hints:
                history = policy.memory.at(request)
                prompt = policy.renderer.render(request, history.ids(request))
                plain.append((request.turn, history, prompt))
        texts = policy.act([self._told(r) for r in requests])
        for turn, history, prompt in plain:
            history.written[turn] = history.written[turn]._replace(prompt=prompt)
        return texts

    def _told(self, request: TurnRequest) -> TurnRequest:
        if request.episode_id not in self.hints:
            return request
        told, segments = False, []
        for segment in request.segments:
            if segment.kind == "question" and not told:
                text = segment.text + self.hints[request.episode_id]
                segment, told = segment._replace(parts=(text,)), True
            segments.append(segment)
        return request._replace(segments=tuple(segments))


@dataclass(slots=True)
class GrowingBranch:
    """A member that is being played."""

    episode: Episode
    parent: int | None
    """Place of the branch that it left; None: it began with the question."""
    since: int
    """Turns of its parent's before its own."""
    root: int
    """Number of the chain that began with the question and from which it stems."""
    stopped: bool = False
    """True if it is not played on."""
    looked: int = 0
    """Turns after which :meth:`Branching.grow` has looked at it."""

    @property
    def going(self) -> bool:
        """True if it is played on."""
        return not self.stopped and self.episode.phase != "done"

    @property
    def broken(self) -> bool:
        """True if the infrastructure failed."""
        return self.episode.end == "infra_error"

    @property
    def turns(self) -> int:
        """Turns so far, its parent's included."""
        return len(self.episode.turns)

    @property
    def earned(self) -> float:
        """The sum of the environment's rewards."""
        return float(sum(turn.reward for turn in self.episode.turns))


@dataclass(slots=True)
class TurnTree:
    """The branches of one group, in the order in which they began."""

    plan: TaskPlan
    workers: Workers
    hints: dict[str, str]
    """Episode → what it is told after the question, besides (``hints.WithHints``)."""
    branches: list[GrowingBranch] = field(default_factory=list)
    rounds: int = 0
    """Times that it was grown, for methods that count them."""
    forks: dict[int, int] = field(default_factory=dict)
    """Place → how many branches have left it."""
    asides: list[Played] = field(default_factory=list)
    """Members of other roles, which come after the branches."""

    @property
    def going(self) -> bool:
        """True if some branch is played on."""
        return any(branch.going for branch in self.branches)

    def chain(self) -> int:
        """Begin a chain with the question; returns its place."""
        number = sum(branch.parent is None for branch in self.branches)
        episode = start(self.plan, self.workers, str(number), number)
        self.branches.append(GrowingBranch(episode, None, 0, number))
        return len(self.branches) - 1

    def fork(self, place: int, at: int) -> int:
        """Begin a branch that goes on after the first ``at`` turns of another; returns its place.

        Its parent is whoever wrote turn ``at - 1``, which need not be the branch at ``place``.

        Raises:
            ValueError: the other has ended after so many turns, or has not had them yet.
        """
        while at <= self.branches[place].since and self.branches[place].parent is not None:
            place = self.branches[place].parent  # type: ignore[assignment]
        parent = self.branches[place]
        if not 0 <= at < parent.turns + (parent.episode.phase != "done"):
            raise ValueError(
                f"nothing follows turn {at} of {parent.episode.config.episode_id!r}, which has "
                f"{parent.turns}: fork before an episode's last turn, or while it is played"
            )
        number = self.forks[place] = self.forks.get(place, 0) + 1
        episode = parent.episode.fork(at=at, branch=number)
        self.branches.append(GrowingBranch(episode, place, at, parent.root, looked=at))
        return len(self.branches) - 1

    def drop(self, places: Collection[int]) -> None:
        """Take branches from which no other has gone on out of the tree, as if never played. The
        places of those behind them change.

        Raises:
            ValueError: another branch has gone on from one of them.
        """
        gone = set(places)
        if gone & {b.parent for b in self.branches if b.parent is not None}:
            raise ValueError(f"other branches go on from some of the branches {sorted(gone)}")
        kept = [i for i in range(len(self.branches)) if i not in gone]
        now = {place: i for i, place in enumerate(kept)}
        self.workers.policy.forget(self.branches[i].episode.config.episode_id for i in gone)
        self.forks = {now[i]: count for i, count in self.forks.items() if i in now}
        self.branches = [self.branches[i] for i in kept]
        for branch in self.branches:
            branch.parent = None if branch.parent is None else now[branch.parent]

    def moved(self) -> list[int]:
        """Places of the branches that have played a turn since this was last asked."""
        places = [i for i, b in enumerate(self.branches) if b.turns > b.looked]
        for place in places:
            self.branches[place].looked = self.branches[place].turns
        return places


class Branching(RolloutStrategy):
    """A rollout whose groups are trees; ``Played.siblings`` tells a group's chains apart.

    Args:
        size: Members of a group, at most.
    """

    def __init__(self, size: int = 8) -> None:
        if size < 2:
            raise ValueError(f"size must be at least 2, got {size}")
        self.size = size

    def plant(self, tree: TurnTree) -> None:
        """Begin a group's first chains."""
        raise NotImplementedError

    def grow(self, tree: TurnTree) -> None:
        """Begin further branches, or stop some, after each turn; asked until nothing goes on."""
        raise NotImplementedError

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        hints: dict[str, str] = {}
        agent = WithHints(workers.policy, hints)
        trees = [TurnTree(plan, workers, hints) for plan in plans]
        for tree in trees:
            self.plant(tree)
        while going := [b.episode for tree in trees for b in tree.branches if b.going]:
            step(going, agent, workers.env.toolbox)
            for tree in trees:
                self.grow(tree)
        return [Group(tree.plan, self._members(tree)) for tree in trees]

    def _members(self, tree: TurnTree) -> tuple[Played, ...]:
        policy = tree.workers.policy
        members = []
        for b in tree.branches:
            member = played(b.episode, policy, parent=b.parent, siblings=b.root)
            if b.episode.config.episode_id in tree.hints:
                member = replace(member, purpose="expert")
            members.append(member)
        return (*members, *tree.asides)


class SecondTries(Branching):
    """Half of ``size`` chains, some of which are written anew from a turn on, once all have ended.
    Both a chain and its second try are members.

    Args:
        size: Members of a group, at most; an even number.
    """

    def __init__(self, size: int = 8) -> None:
        super().__init__(size)
        if size % 2:
            raise ValueError(f"size must be even, got {size}")

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.size // 2):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        if not tree.going and not tree.rounds:
            tree.rounds += 1
            self.again(tree)

    def again(self, tree: TurnTree) -> None:
        """Fork the chains that are tried again."""
        raise NotImplementedError


def returns(tree: TurnTree) -> Mapping[int, float]:
    """Place → return of the finished branches that the infrastructure did not break."""
    return {
        i: b.earned
        for i, b in enumerate(tree.branches)
        if b.episode.phase == "done" and not b.broken
    }


class Expand(Branching):
    """``trees`` chains, then in ``rounds`` rounds branches from states drawn at random, until there
    are ``size`` leaves (Tree-GRPO, Ji et al., arXiv 2509.21240: M trees, N nodes of each a round, L
    rounds, M (L N + 1) leaves).

    A state is a completed turn after which something follows. A tree that has none, since its
    chain answered at once, gets another chain from the question.

    Args:
        size: Leaves of a group; a multiple of ``trees``.
    """

    registered = "expand"

    def __init__(self, size: int = 8, trees: int = 2, rounds: int = 1) -> None:
        super().__init__(size)
        if trees < 1 or size % trees or not 1 <= rounds < max(size // trees, 2):
            raise ValueError(
                "size must be a multiple of trees, and rounds between 1 and the branches of a "
                f"tree, size / trees - 1; got size {size}, trees {trees}, rounds {rounds}"
            )
        self.trees, self.rounds = trees, rounds

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.trees):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        if tree.going or tree.rounds == self.rounds:
            return
        more = self.size // self.trees - 1
        count = more * (tree.rounds + 1) // self.rounds - more * tree.rounds // self.rounds
        tree.rounds += 1
        for root in range(self.trees):
            own = [i for i, b in enumerate(tree.branches) if b.root == root]
            states = [
                (i, at)
                for i in own
                for at in range(tree.branches[i].since + 1, tree.branches[i].turns)
                if not tree.branches[i].broken
            ] or [(own[0], 0)]
            draw = stream(tree.plan.key, "expand", tree.rounds, root)
            for n in draw.choice(len(states), size=count, replace=len(states) < count):
                tree.fork(*states[int(n)])
