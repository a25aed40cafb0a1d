"""Recipes whose trajectories branch off from each other."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from tests.rl.formulas.step import (
    Lines,
    Step,
    episode_mean,
    group_relative,
    gspo,
    kl,
    ppo,
    surrogate,
    together,
    token_mean,
    z,
)


def parent_of(s: Step, i: int) -> int:
    above = s.everyone[s.group[i]][s.members[i].parent]
    return next(j for j, other in enumerate(s.members) if other is above)


def path(s: Step, i: int) -> list[tuple[int, int]]:
    """(trajectory, turn) of all turns of a leaf, those of its parents included."""
    m = s.members[i]
    if m.parent is None:
        return [(i, int(k)) for k in s.turn[i].unique()]
    parent, since = parent_of(s, i), m.episode.parent[1]
    return [*(p for p in path(s, parent) if p[1] < since),
            *((i, int(k)) for k in s.turn[i].unique() if k >= since)]  # fmt: skip


def root(s: Step, i: int) -> int:
    m = s.members[i]
    if m.parent is None:
        return i
    return root(
        s, next(j for j, o in enumerate(s.members) if o is s.everyone[s.group[i]][m.parent])
    )


def copies(s: Step, leaf: Tensor) -> Lines:
    """A shared turn has the sum of its leaves' advantages."""
    by_turn = [torch.zeros(len(r)).double() for r in s.paid]
    for i in range(len(s)):
        for j, k in path(s, i):
            by_turn[j][k] += leaf[i]
    return s.spread(by_turn)


def branches(s: Step) -> Tensor:
    return ppo(s, copies(s, s.compared(s.reward, z)))


def tree_grpo(s: Step) -> Tensor:
    within = torch.zeros(len(s)).double()
    roots = [root(s, i) for i in range(len(s))]
    for top in set(roots):
        at = [i for i, r in enumerate(roots) if r == top]
        within[at] = z(s.reward[at])
    return ppo(s, copies(s, s.compared(s.reward, z) + within))


def mars2(s: Step) -> Tensor:
    return gspo(s, group_relative(s)) + 0.001 * kl(s, episode_mean)


def children(s: Step) -> dict[Hashable, list[tuple[int, int]]]:
    """State (the group's beginning, or after a turn) → the turns that were tried from it."""
    found: dict[Hashable, list[tuple[int, int]]] = {}
    for i in range(len(s)):
        before: Hashable = ("root", s.group[i])
        for node in path(s, i):
            if node not in found.setdefault(before, []):
                found[before].append(node)
            before = node
    return found


def below(s: Step) -> dict[Hashable, list[int]]:
    """Turn → the leaves whose paths hold it."""
    found: dict[Hashable, list[int]] = {}
    for i in range(len(s)):
        for node in path(s, i):
            found.setdefault(node, []).append(i)
    return found


def spo(s: Step) -> Tensor:
    tried = children(s)

    def worth(state: Any) -> Tensor:
        after = tried.get(state)
        return torch.stack([worth(n) for n in after]).mean() if after else s.reward[state[0]]

    by_turn = [torch.zeros(len(r)).double() for r in s.paid]
    for state, nodes in tried.items():
        for i, k in nodes:
            by_turn[i][k] = worth((i, k)) - worth(state)
    unsure = [o.exp() < 0.9 for o in s.old]
    assert not torch.cat(unsure).all(), "else the method is not seen"
    terms = [surrogate((n - o).exp(), a)[keep] for n, o, a, keep
             in zip(s.now, s.old, s.spread(by_turn), unsure, strict=True)]  # fmt: skip
    return token_mean(terms)


def step_apo(s: Step) -> Tensor:
    leaves, terms = below(s), []

    def gained(node: tuple[int, int]) -> Tensor:
        i, k = node
        return (s.now[i] - s.ref[i])[s.turn[i] == k].sum()

    for nodes in children(s).values():
        worth = {n: s.reward[leaves[n]].mean() for n in nodes}
        for w in nodes:
            for x in nodes:
                if (ahead := worth[w] - worth[x]) > 1e-6:
                    margin = 0.1 * (gained(w) - gained(x)) - ahead
                    terms.append(-torch.nn.functional.logsigmoid(margin))
    return torch.stack(terms).mean()


def vstar(s: Step) -> Tensor:
    leaves, by_turn = below(s), [torch.zeros(len(r)).double() for r in s.paid]
    for nodes in children(s).values():
        worth = torch.stack([s.reward[leaves[n]].mean() for n in nodes])
        if worth.max() - worth.min() > 1e-6:
            spread = (worth - worth.mean()) / (worth.std(correction=0) + 1e-4)
            for (i, k), value in zip(nodes, spread, strict=True):
                by_turn[i][k] += value
    whole = copies(s, s.compared(s.reward, z))
    adv = [a + b for a, b in zip(whole, s.spread(by_turn), strict=True)]
    return ppo(s, adv, episode_mean) + 0.001 * kl(s, token_mean)


def slate(s: Step) -> Tensor:
    scores = together(
        s, s.by_turn("turn_score"), lambda i, k: (s.group[i], k) if k in s.turn[i] else None
    )
    return ppo(s, s.spread(scores)) + 0.001 * kl(s, token_mean)


def r3l(s: Step) -> Tensor:
    first, a = [0] * len(s), torch.zeros(len(s)).double()
    for j, m in enumerate(s.members):
        if m.parent is not None:
            i = parent_of(s, j)
            first[i] = max(first[i], m.episode.parent[1])
    numbers = torch.tensor(s.group)
    for number in numbers.unique():
        at = numbers == number  # second tries are told something, and are the policy's all the same
        ahead = s.reward[at] - s.reward[at].mean()
        a[at] = torch.where(s.reward[at] >= 1, 1.0, torch.where(ahead >= 0, 3 * ahead, ahead))
    return token_mean([-(x * n / 2)[turn >= k] for x, n, turn, k
                       in zip(a, s.now, s.turn, first, strict=True)])  # fmt: skip
