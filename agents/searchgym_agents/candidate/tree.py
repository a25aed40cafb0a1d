"""The tree of decision points under each question: grown where it pays, valued from its leaves.

In a generated world every answer's score is known, and what evidence a search brings is one engine
call away. So a state's group is *all* its legal actions, not a sample of them: each answer with its
F1; each search with the value of the state it leads to where that was visited, else with the
evidence it brings and the value of answering here (to search and learn nothing changes nothing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from searchgym.rl.ops.tokens import require_rows

from .arena import Arena, Node, follow, roots
from .encoder import Progress

Floats = NDArray[np.float32]
GUIDED = 0.7
"""Probability that a state without a useful visited child is given one (ours)."""


class Tree:
    """Tree of the searches that one training run has followed. The states themselves belong to the
    arenas, which other runs share; what a run has seen must not depend on those."""

    def __init__(self, arenas: Sequence[Arena]) -> None:
        self.arenas = list(arenas)
        self._children: dict[int, dict[int, Node]] = {}
        self._roots: dict[tuple[int, int], Node] = {}

    def children(self, node: Node) -> dict[int, Node]:
        """Followed searches by candidate index, in the order they were first followed."""
        return self._children.get(id(node), {})

    def roots(
        self, chosen: Sequence[tuple[int, int]], progress: Progress | None = None
    ) -> list[Node]:
        """First states of (arena, task) pairs."""
        nodes = roots([(self.arenas[a], task) for a, task in chosen], progress)
        self._roots.update(zip(chosen, nodes, strict=True))
        return nodes

    def follow(
        self, steps: Sequence[tuple[Node, int]], progress: Progress | None = None
    ) -> list[Node]:
        """Follow (node, candidate) searches."""
        made = follow(steps, progress)
        for (node, pick), child in zip(steps, made, strict=True):
            self._children.setdefault(id(node), {})[pick] = child
        return made

    def under(self, root: Node) -> list[Node]:
        """A state and all followed below it, parents before children."""
        states = [root]
        for node in states:
            states.extend(self.children(node).values())
        return states

    # --- on disk --------------------------------------------------------------------------------
    def to_json(self) -> list[Any]:
        """``[arena, task, shape]`` per root; a shape is a list of [candidate, shape]."""

        def shape(node: Node) -> list[Any]:
            return [[pick, shape(child)] for pick, child in self.children(node).items()]

        return [[a, task, shape(node)] for (a, task), node in self._roots.items()]

    def regrow(self, saved: Sequence[Any], progress: Progress | None = None) -> None:
        """Visit again what :meth:`to_json` told, a level at a time."""
        nodes = self.roots([(a, task) for a, task, _ in saved], progress)
        level = [(node, shape) for (_, _, shape), node in zip(saved, nodes, strict=True)]
        while level:
            steps = [(node, pick) for node, shape in level for pick, _ in shape]
            below = [shape for _, shapes in level for _, shape in shapes]
            level = list(zip(self.follow(steps, progress), below, strict=True))


def choose_search(
    node: Node,
    followed: Mapping[int, Node],
    logp: Floats,
    *,
    room: bool,
    explore: float,
    rng: np.random.Generator,
) -> int | None:
    """Choose the search to follow from a state; None if it has none.

    Drawn from the policy's own odds among searches, mixed with ``explore`` of uniform ones. Where
    no followed search has brought new evidence though one would, such a one is mostly drawn (the
    world knows; the policy is not told). Without ``room`` only followed searches are repeated.
    """
    picks = np.flatnonzero(node.is_search)
    if not room:
        picks = np.asarray([i for i in picks if i in followed], dtype=np.int64)
    if not len(picks):
        return None
    odds = np.exp(logp[picks] - logp[picks].max())
    odds = (1 - explore) * odds / odds.sum() + explore / len(picks)
    gains = node.gains[picks]
    if rng.random() < GUIDED and gains.max() > 0 and not any(node.gains[i] > 0 for i in followed):
        odds = odds * (gains >= gains.max())
    noise = rng.gumbel(size=len(picks))  # Gumbel-max: one draw from the odds
    return int(picks[int(np.argmax(np.log(odds + 1e-30) + noise))])


def action_values(
    nodes: Sequence[Node],
    policy: Sequence[Floats],
    tree: Tree,
    weights: Mapping[str, float],
) -> list[Floats]:
    """Compute the value of each action of each state, (n,) per state.

    ``nodes`` with parents before children; ``policy`` their (n,) action probabilities; ``weights``
    the reward's parts (``f1``, ``search``, ``evidence``).
    """
    value: dict[int, float] = {}
    worth: list[Floats] = [np.zeros(0, np.float32)] * len(nodes)
    f1, search, evidence = (weights.get(name, 0.0) for name in ("f1", "search", "evidence"))
    for k in range(len(nodes) - 1, -1, -1):
        node, chance = nodes[k], policy[k]
        q = (f1 * node.f1).astype(np.float32)
        answers = np.where(node.is_search, 0, chance)
        total = float(answers.sum())
        here = float(answers @ q) / total if total > 0 else 0.0
        q[node.is_search] = here + search + evidence * node.gains[node.is_search]
        for pick, child in tree.children(node).items():
            q[pick] = value[id(child)] + search + evidence * (child.evidence - node.evidence)
        value[id(node)] = float(chance @ q)
        worth[k] = q
    return worth


def enumerated_advantages(worth: Tensor, logp: Tensor, group: Tensor, groups: int) -> Tensor:
    """Advantages of groups that hold *every* action, each with the odds the policy gives it.

    ``A(a) = best · π(a) · (Q(a) - V) / (V + ε)`` with ``V = Σ π Q``, ``best = max Q`` (at most 1),
    Q clipped at 0, ε = 1e-3. Summed with ``∇ log π`` this is the exact gradient of
    ``best · log V``: a policy gradient without sampling noise whose steps do not shrink while the
    right action is still unlikely. States where nothing is worth anything do not count.

    Args:
        worth: (N,) value Q of each action.
        logp: (N,) log-probabilities; each group's sum to one.
        group: (N,) integers in [0, groups).
        groups: how many groups there are.

    Returns:
        (N,) detached; each group's sum to zero.
    """
    require_rows(worth=worth, logp=logp, group=group)
    odds, worth = logp.detach().exp(), worth.detach().clamp_min(0)
    zero = torch.zeros(groups, dtype=worth.dtype, device=worth.device)
    mean = zero.index_add(0, group, odds * worth)
    best = zero.scatter_reduce(0, group, worth, "amax").clamp_max(1)
    return best[group] * odds * (worth - mean[group]) / (mean[group] + 1e-3)
