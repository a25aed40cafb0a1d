"""Edges of one relation, vectorised: exact cardinalities, Zipf out-degrees, no forbidden cycles.

All functions return two parallel arrays (E,): positions within the source type and within the
target type. ``order`` (n,) ranks the entities of a type; acyclic relations lead from a higher to a
lower rank, which is why no cycle can arise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Edges = tuple[Ints, Ints]
_ROUNDS = 24


def zipf_degrees(n: int, exponent: float, cap: int, rng: np.random.Generator) -> Ints:
    """``n`` degrees in 1..cap with P(d) proportional to d ** -exponent."""
    mass = np.arange(1, cap + 1, dtype=np.float64) ** -exponent
    return np.searchsorted(np.cumsum(mass / mass.sum()), rng.random(n), side="right") + 1


class Popularity:
    """Draws targets with P proportional to (a random rank) ** -exponent; 0 is uniform."""

    def __init__(self, targets: Ints, exponent: float, rng: np.random.Generator) -> None:
        self._targets = rng.permutation(targets)
        self._rng = rng
        mass = np.arange(1, len(targets) + 1, dtype=np.float64) ** -exponent
        self._cumulative = None if exponent == 0 else np.cumsum(mass / mass.sum())

    def draw(self, n: int) -> Ints:
        u = self._rng.random(n)
        if self._cumulative is None:
            return self._targets[(u * len(self._targets)).astype(np.int64)]
        place = np.searchsorted(self._cumulative, u, side="right")
        return self._targets[np.minimum(place, len(self._targets) - 1)]


def weights(n: int, exponent: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Popularity of n targets: (a random rank) ** -exponent; 0 is uniform."""
    rank = (1.0 + rng.permutation(n)).astype(np.float64)
    return rank**-exponent


def many_to_one(sources: Ints, popularity: Popularity, loops: bool) -> Edges:
    """One target per source; no entity points at itself where ``loops``."""
    targets = popularity.draw(len(sources))
    for _ in range(_ROUNDS if loops else 0):
        bad = np.flatnonzero(targets == sources)
        if not len(bad):
            break
        targets[bad] = popularity.draw(len(bad))
    keep = targets != sources if loops else np.ones(len(sources), bool)
    return sources[keep], targets[keep]


def one_to_one(sources: Ints, targets: Ints, loops: bool, rng: np.random.Generator) -> Edges:
    """A random matching of as many as fit."""
    n = min(len(sources), len(targets))
    s, t = rng.permutation(sources)[:n], rng.permutation(targets)[:n]
    if not loops:
        return s, t
    bad = np.flatnonzero(s == t)
    # Rotating the targets of the self-loops (and of one more edge) leaves a matching without them.
    if len(bad) == 1 and n > 1:
        bad = np.append(bad, (bad[0] + 1) % n)
    t[bad] = np.roll(t[bad], 1)
    keep = s != t
    return s[keep], t[keep]


def one_to_many(
    sources: Ints, targets: Ints, degrees: Ints, loops: bool, rng: np.random.Generator
) -> Edges:
    """Disjoint groups of targets, one per source, at least one target each while they last."""
    sources = rng.permutation(sources)[: len(targets)]
    extra = degrees[: len(sources)] - 1
    room = len(targets) - len(sources)
    used = np.minimum(np.cumsum(extra), room)
    extra = np.diff(used, prepend=0)
    s = np.repeat(sources, extra + 1)
    t = rng.permutation(targets)[: len(s)]
    if loops:
        keep = s != t
        s, t = s[keep], t[keep]
    return s, t


def tree_order(present: NDArray[np.bool_], degrees: Ints, gap: int) -> Edges:
    """Acyclic one-to-many on ranks 0..n-1: rank r takes the next free ranks as its objects.

    Objects come *later* here, so callers reverse the ranks. Each rank is taken at most once.
    """
    n = len(present)
    rank = np.arange(n)
    d = np.where(present, degrees, 0)
    before = np.cumsum(d) - d
    # First free place p[r] = max(p[r-1] + d[r-1], r + gap), unrolled as a running maximum.
    start = before + np.maximum.accumulate(rank + gap - before)
    s = np.repeat(rank, d)
    offset = np.arange(len(s)) - np.repeat(before, d)
    t = np.repeat(start, d) + offset
    keep = t < n
    return s[keep], t[keep]


def lower_rank(ranks: Ints, allowed: Ints, gap: int, rng: np.random.Generator) -> Edges:
    """Draw for each rank a random allowed rank at least ``gap`` below; ranks with none are dropped.

    ``allowed`` is sorted.
    """
    room = np.searchsorted(allowed, ranks - gap, side="right")
    keep = room > 0
    pick = (rng.random(int(keep.sum())) * room[keep]).astype(np.int64)
    return ranks[keep], allowed[pick]


def chain_below(sources: Ints, allowed: Ints, gap: int, n: int, rng: np.random.Generator) -> Edges:
    """Acyclic one-to-one on ranks: a random matching in which every object ranks lower.

    Ascending sources take a random free rank from those that have come into reach.
    """
    free: list[int] = []
    at = 0
    s, t = [], []
    draws = rng.random(len(sources)).tolist()
    ranks = np.sort(sources).tolist()
    pool = allowed.tolist()
    for rank, u in zip(ranks, draws, strict=True):
        while at < len(pool) and pool[at] <= rank - gap:
            free.append(pool[at])
            at += 1
        if free:
            # Swap-and-pop keeps the draw O(1).
            i = int(u * len(free))
            free[i], free[-1] = free[-1], free[i]
            s.append(rank)
            t.append(free.pop())
    return np.array(s, np.int64), np.array(t, np.int64)


def many_to_many(
    sources: Ints, degrees: Ints, popularity: Popularity, targets: int, loops: bool
) -> Edges:
    """``degrees[i]`` different targets per source, as far as there are that many."""
    degrees = np.minimum(degrees, targets - loops)
    kept = np.zeros(0, np.int64)
    base = int(popularity._targets.max(initial=0)) + 1
    want = np.repeat(sources, degrees)
    for _ in range(_ROUNDS):
        drawn = want * base + popularity.draw(len(want))
        if loops:
            drawn = drawn[drawn // base != drawn % base]
        kept = np.union1d(kept, drawn)
        have = np.bincount(kept // base, minlength=int(sources.max(initial=0)) + 1)
        missing = degrees - have[sources]
        if not (missing > 0).any():
            break
        want = np.repeat(sources, np.maximum(missing, 0))
    return kept // base, kept % base


def paired(members: Ints, rng: np.random.Generator) -> Edges:
    """Symmetric one-to-one: random couples, both directions."""
    order = rng.permutation(members)
    half = len(order) // 2
    a, b = order[:half], order[half : 2 * half]
    return np.concatenate([a, b]), np.concatenate([b, a])


def mutual(members: Ints, degrees: Ints, rng: np.random.Generator) -> Edges:
    """Symmetric many-to-many: stubs are joined at random (configuration model); loops and repeats
    are dropped, so a degree never exceeds the one asked for."""
    stubs = rng.permutation(np.repeat(members, np.minimum(degrees, len(members) - 1)))
    half = len(stubs) // 2
    a, b = stubs[:half], stubs[half : 2 * half]
    low, high = np.minimum(a, b), np.maximum(a, b)
    base = int(members.max(initial=0)) + 1
    pairs = np.unique((low * base + high)[low != high])
    low, high = pairs // base, pairs % base
    return np.concatenate([low, high]), np.concatenate([high, low])
