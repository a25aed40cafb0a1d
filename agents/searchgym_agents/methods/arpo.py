"""ARPO's rollout: branches where the policy becomes unsure after a tool's results."""

from __future__ import annotations

import math

import numpy as np

from searchgym import CausalLMPolicy
from searchgym.rl import Branching, TurnTree
from searchgym.seeding import stream


class EntropyBranches(Branching):
    """``chains`` chains; a turn that follows a tool's results is written again, up to ``beam`` - 1
    times, each with probability clip(``base`` + ``slope`` · ΔH, 0, 1). ΔH is how much higher than
    in the chain's first turn the entropy of the turn's first ``tokens`` tokens is. What is left of
    ``size`` in the end are further chains (ARPO, Dong et al., arXiv 2507.19849).

    Entropies are those that the generator gives, divided by the logarithm of the vocabulary's size;
    of one that gives none, -log π of the sampled tokens, whose mean the entropy is. The released
    code takes the ten likeliest tokens alone.

    Args:
        size: Leaves of a group: exactly so many.
        chains: Default: half of ``size``.
    """

    registered = "rollout:entropy_branches"

    def __init__(
        self,
        size: int = 16,
        chains: int | None = None,
        base: float = 0.5,
        slope: float = 0.2,
        beam: int = 2,
        tokens: int = 20,
    ) -> None:
        super().__init__(size)
        self.chains = size // 2 if chains is None else chains
        if not 1 <= self.chains <= size or beam < 1 or tokens < 1:
            raise ValueError(
                f"chains is between 1 and size = {size}, beam and tokens at least 1; got "
                f"{self.chains}, {beam}, {tokens}"
            )
        self.base, self.slope, self.beam, self.tokens = float(base), float(slope), beam, tokens

    def odds(self, rise: float) -> float:
        """Probability of a branch where the entropy has risen by ``rise``."""
        return min(max(self.base + self.slope * rise, 0.0), 1.0)

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.chains):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        for place in tree.moved():
            branch = tree.branches[place]
            turn, turns = branch.turns - 1, branch.episode.turns
            own = turn > branch.since or branch.parent is None
            if branch.broken or turn < 1 or not own or not turns[turn - 1].calls:
                continue
            policy, name = tree.workers.policy, branch.episode.config.episode_id
            here, first = (turn_entropy(policy, name, t, self.tokens) for t in (turn, 0))
            rise = here - first
            draw = stream(tree.plan.key, "branch", place, turn)
            for _ in range(self.beam - 1):
                if draw.random() < self.odds(rise) and len(tree.branches) < self.size:
                    tree.fork(place, turn)
        if not tree.going:
            while len(tree.branches) < self.size:
                tree.chain()


def turn_entropy(policy: CausalLMPolicy, name: str, turn: int, tokens: int) -> float:
    """Mean entropy of the first ``tokens`` tokens of an episode's turn, divided by the logarithm of
    the vocabulary's size; 0 for an empty turn. Of a generator that gives no entropies, -log π of
    what was sampled, whose mean the entropy is."""
    said = policy.memory.written(name)[turn].completion
    assert said.logp is not None  # asked for when sampling
    values = -said.logp if said.entropy is None else said.entropy
    if not len(values):
        return 0.0
    return float(np.mean(values[:tokens])) / math.log(policy.vocabulary or 10)
