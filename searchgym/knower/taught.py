"""Draws which facts are taught; a larger share holds all facts of a smaller one.

Facts that give one another away are taught together or not at all: the two sides of a symmetric
relation (A is married to B, B to A), and facts that imply another by the schema (the capital of a
country lies in it).
"""

from __future__ import annotations

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from ..seeding import derive, stream, unit
from ..worlds.world import World


def taught_facts(world: World, share: float, seed: int) -> NDArray[np.bool_]:
    """(F,) mask of the facts that are taught: as many as fit into ``share`` of all. With equal
    seeds those of a smaller share are among those of a larger."""
    units = _units(world)
    names, counts = np.unique(units, return_counts=True)
    order = stream(seed, "knower", "taught").permutation(len(names))
    fits = np.cumsum(counts[order]) <= round(share * world.n_facts)
    return np.isin(units, names[order[fits]])


def shown_facts(world: World, share: float, seed: int) -> NDArray[np.bool_]:
    """(F,) mask of the facts at which a model is shown what not to know looks like, unless they
    are taught. Each by a draw of its own, whatever is taught."""
    units = _units(world)
    names = np.unique(units)
    chosen = [unit(derive(seed, "knower", "shown", int(name))) < share for name in names]
    return np.isin(units, names[np.array(chosen, dtype=bool)])


def _units(world: World) -> NDArray[np.int64]:
    """(F,) facts that are taught together have one number, the least of theirs."""
    pairs: list[tuple[int, int]] = []
    for row in range(world.n_facts):
        fact = world.fact(row)
        prop = world.prop(fact)
        back = fact.property if prop.symmetric else None
        if prop.within:
            back = world.schema.property_index(prop.within)
        if back is not None:
            pairs += [
                (row, other.id)
                for other in world.objects(fact.object, back)
                if other.object == fact.subject
            ]
    units = np.arange(world.n_facts)
    for part in nx.connected_components(nx.Graph(pairs)):
        units[list(part)] = min(part)
    return units
