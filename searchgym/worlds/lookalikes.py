"""Look-alike entities: twins that share all facts but one with an entity.

They are ordinary entities of the world, so a solver that proves an answer unique has seen them, and
no page can make a fact of the original false. A fact is shared only where the relation allows a
second subject (n-1, n-n, attributes); 1-1 and 1-n facts belong to the original alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import WorldError
from ..seeding import stream
from .schema import Schema

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LookalikePlan:
    """A world's columns with the twins appended; ``original`` (T,) is whose twin each is."""

    type_of: NDArray[np.int16]
    facet_of: NDArray[np.int8]
    subject: Ints
    property: Ints
    object: Ints
    original: Ints


def plan_lookalikes(
    schema: Schema,
    type_of: NDArray[np.int16],
    facet_of: NDArray[np.int8],
    subject: Ints,
    prop: Ints,
    obj: Ints,
    rate: float,
    seed: int,
) -> LookalikePlan:
    """Append ``rate * N`` twins. Each takes over one group of facts (all objects of one property)
    from a third entity of its type instead of from its original."""
    if not 0.0 < rate <= 1.0:
        raise WorldError(f"lookalikes must be a share in [0, 1], got {rate}")
    rng = stream(seed, "graph", "lookalikes")
    n = len(type_of)
    shareable = np.array(
        [
            not p.is_relation or (p.cardinality in ("n-1", "n-n") and not p.symmetric)
            for p in schema.properties
        ]
    )
    rows: dict[int, dict[int, list[int]]] = {}
    chosen = np.sort(rng.permutation(n)[: max(1, round(rate * n))])
    keep = np.flatnonzero(shareable[prop])
    for s, p, o in zip(
        subject[keep].tolist(), prop[keep].tolist(), obj[keep].tolist(), strict=True
    ):
        rows.setdefault(s, {}).setdefault(p, []).append(o)
    new: list[tuple[int, int, int]] = []
    original: list[int] = []
    by_type = [np.flatnonzero(type_of == t) for t in range(len(schema.types))]
    for e in chosen.tolist():
        facts = rows.get(e, {})
        peers = by_type[int(type_of[e])]
        swap = _other(facts, rows, peers, rng)
        if swap is None:
            continue
        twin = n + len(original)
        original.append(e)
        for p, objects in facts.items():
            new += [(twin, p, o) for o in (swap[1] if p == swap[0] else objects)]
    twins = np.array(original, np.int64)
    added = np.array(new, np.int64).reshape(-1, 3)
    return LookalikePlan(
        np.concatenate([type_of, type_of[twins]]),
        np.concatenate([facet_of, facet_of[twins]]),
        np.concatenate([subject, added[:, 0]]),
        np.concatenate([prop, added[:, 1]]),
        np.concatenate([obj, added[:, 2]]),
        twins,
    )


def _other(
    facts: dict[int, list[int]],
    rows: dict[int, dict[int, list[int]]],
    peers: Ints,
    rng: np.random.Generator,
) -> tuple[int, list[int]] | None:
    """A property of the original and different objects for it, taken from a peer."""
    if not facts:
        return None
    properties = sorted(facts)
    for _ in range(20):
        p = properties[int(rng.integers(len(properties)))]
        objects = rows.get(int(peers[int(rng.integers(len(peers)))]), {}).get(p)
        if objects and sorted(objects) != sorted(facts[p]):
            return p, objects
    return None
