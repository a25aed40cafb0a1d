"""V-STAR: trees grow where a value head expects most and the policy is unsure; children of a state
are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Over, Scored, TurnTree
from searchgym.rl.ops import RewardGroups, State, Std, checked_std, masked, mean, segments, spread

from .arpo import turn_entropy
from .turn_heads import KeepsHead, KeepsStates, TreeStates, TurnHead


class ValueGuided(KeepsHead, KeepsStates):
    """``chains`` chains, then in ``rounds`` rounds branches from the states of the group with the
    largest V + ``weight`` · U, until there are ``size`` leaves. A state is what stands before a
    turn, the question's being one; each is taken once before any is taken again. U is the turn's
    entropy, divided by the logarithm of the vocabulary's size (V-STAR's value-guided decoding,
    arXiv 2602.10699, with turns in place of tokens and of beams; rounds are ours).

    V is a head on the hidden state from which the turn's first token was drawn. It begins at 0 and
    learns along, by semi-gradient TD(0): V(state) → ``gamma`` · V(next state), and before the last
    turn the episode's reward.

    Args:
        size: Leaves of a group (paper: a beam of 8).
        chains: Default: half of ``size``.
        weight: λ (paper: .1).
        gamma: γ (paper: .99).
        lr, epochs: AdamW learning rate of the head, and its steps after each update.
        tokens: First tokens of a turn whose entropy counts.
    """

    registered = "rollout:value_guided"

    def __init__(
        self, size: int = 8, chains: int | None = None, rounds: int = 2, weight: float = 0.1,
        gamma: float = 0.99, lr: float = 0.02, epochs: int = 20, tokens: int = 20,
    ) -> None:  # fmt: skip
        super().__init__(size)
        chains = size // 2 if chains is None else chains
        if not 1 <= chains < size or not 1 <= rounds <= size - chains or tokens < 1:
            raise ValueError(
                "chains is between 1 and size - 1, rounds between 1 and size - chains, tokens at "
                f"least 1; got {chains}, {rounds} and {tokens} of size {size}"
            )
        if not 0 <= gamma <= 1 or weight < 0:
            raise ValueError(f"gamma is in [0, 1] and weight at least 0, got {gamma}, {weight}")
        self.chains, self.rounds, self.tokens = chains, rounds, tokens
        self.weight, self.gamma = float(weight), float(gamma)
        self.head = TurnHead(lr, epochs)
        self._states = TreeStates()

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.chains):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        if tree.going or tree.rounds == self.rounds:
            return
        more = self.size - self.chains
        count = more * (tree.rounds + 1) // self.rounds - more * tree.rounds // self.rounds
        tree.rounds += 1
        for place, at in self._chosen(tree, count):
            tree.fork(place, at)

    def _chosen(self, tree: TurnTree, count: int) -> list[State]:
        """Choose the states from which branches go on."""
        self._states.look(tree)
        policy, worth = tree.workers.policy, dict[State, float]()
        for place, branch in enumerate(tree.branches):
            name = branch.episode.config.episode_id
            for at, state in self._states.of(name).items():
                # all chains begin with one question, and a branch's first state is its parent's
                if not branch.broken and (at > branch.since or place == 0):
                    unsure = turn_entropy(policy, name, at, self.tokens)
                    worth[place, at] = self.head.value(state) + self.weight * unsure
        worth = worth or {(0, 0): 0.0}  # the infrastructure broke all chains
        left = [(b.parent, b.since) for b in tree.branches if b.parent is not None]
        chosen: list[State] = []
        for _ in range(count):
            used = [*left, *chosen]
            chosen.append(min(worth, key=lambda s: (used.count(s), -worth[s], s)))
        return chosen

    def fit(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        """Move the head towards what followed, in the episodes that were trained on."""
        now: list[Tensor] = []
        later: list[Tensor] = []
        paid: list[float] = []
        for s in scored:
            for i in s.training:
                name = s.group.members[i].episode.config.episode_id
                states = [state for _, state in sorted(self._states.of(name).items())]
                if states:
                    now += states
                    later += [*states[1:], torch.zeros_like(states[0])]
                    paid += [0.0] * (len(states) - 1) + [float(s.rewards.total[i])]
        self._states.clear()
        if not now:
            return {}
        self.head.value(now[0])  # has a width from now on
        here, there, reward = torch.stack(now), torch.stack(later), torch.tensor(paid)

        def loss(head: Tensor) -> Tensor:
            goal = reward + self.gamma * (there @ head.detach())
            return (here @ head - goal).square().mean()

        return {"value_guided/loss": self.head.fit(loss)}


class Siblings(Over):
    """``base`` + ``weight`` · (R̄ - mean) / (std + ``eps``) on the first turn of what was written
    from a state that several went on from. R̄ is the mean reward of the leaves that hold the turn;
    mean and standard deviation are those of R̄ over the turns written from that state.

    The paper compares tokens of a prefix tree; here they are the turns of a recorded tree, and
    equal texts are not merged (ours). Chains are siblings at the question.

    Args:
        base: The paper's GRPO trains on every leaf's whole path: ``branches`` with ``share =
            "copies"``.
        weight: Or ``coef["siblings"]`` (paper: 1).
    """

    registered = "advantage:siblings"
    reads = frozenset({"siblings"})

    def __init__(
        self, base: Any = "branches", weight: float = 1.0, std: Std = "population",
        eps: float = 1e-4,
    ) -> None:  # fmt: skip
        super().__init__(base)
        self.weight, self.eps = float(weight), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        spans = segments(batch.group, batch.number, batch.parent, batch.since)
        reward = batch.reward.double().tolist()
        worth = [mean([reward[i] for i in s.leaves if not math.isnan(reward[i])]) for s in spans]
        states: dict[State, int] = {}
        where = [states.setdefault(s.state, len(states)) for s in spans]
        groups = RewardGroups(torch.tensor(worth, dtype=torch.double), torch.tensor(where))
        apart = groups.reward - groups.mean[groups.index]
        score = groups.advantage(apart / (groups.std(self.std)[groups.index] + self.eps))
        more = torch.zeros(mask.shape)
        for segment, value in zip(spans, score.tolist(), strict=True):
            more[segment.line][batch.turn[segment.line] == segment.first] = value
        weight = coef.get("siblings", self.weight)
        return made._replace(adv=spread(made.adv, mask) + weight * masked(more, mask))
