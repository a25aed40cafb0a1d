"""Communities of a knowledge graph and search through them with a beam (Deep GraphRAG)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import EngineError
from .graph import IntArray, KnowledgeGraph
from .rankings import Floats, Groups, TextVectors, best

LEVELS = 3
"""Largest number of levels: L0, L1 and L2."""
BEAM = 3


@dataclass(frozen=True, eq=False)
class Communities:
    """A hierarchy of communities: ``labels[0]`` is the coarsest level (L0), the last the finest.

    Each (N,) array numbers the communities of its level by their first entity; levels are nested.
    """

    labels: tuple[IntArray, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Communities per level."""
        return tuple(int(level.max()) + 1 for level in self.labels)

    def parents(self, level: int) -> IntArray:
        """(G,) community in the level above of each community of ``level``."""
        fine, coarse = self.labels[level], self.labels[level - 1]
        _, first = np.unique(fine, return_index=True)
        return coarse[first]

    def members(self, level: int, community: int) -> IntArray:
        return np.flatnonzero(self.labels[level] == community)


def find_communities(
    graph: KnowledgeGraph, *, seed: int = 0, resolution: float = 1.0, levels: int = LEVELS
) -> Communities:
    """Weighted Louvain (Blondel et al., 2008) by ``networkx``: two entities are joined as strongly
    as they share facts. The coarsest ``levels`` of its hierarchy; same seed, same communities.

    Pure Python: about 10 s for 250,000 pairs.
    """
    import networkx as nx

    indptr, other, _ = graph.adjacency
    here = np.repeat(np.arange(graph.n_entities), np.diff(indptr))
    once = here < other
    pairs, counts = np.unique(
        np.stack((here[once], other[once]), 1).reshape(-1, 2), axis=0, return_counts=True
    )
    network: nx.Graph[int] = nx.Graph()
    network.add_nodes_from(range(graph.n_entities))
    network.add_weighted_edges_from(
        (a, b, float(w)) for (a, b), w in zip(pairs.tolist(), counts.tolist(), strict=True)
    )
    if not len(pairs):  # nothing joins anything: everybody is alone
        return Communities((np.arange(graph.n_entities),))
    partitions = list(
        nx.community.louvain_partitions(network, weight="weight", resolution=resolution, seed=seed)
    )
    chosen = partitions[::-1][:levels]
    return Communities(tuple(_numbered(p, graph.n_entities) for p in chosen))


def _numbered(partition: Sequence[set[int]], n: int) -> IntArray:
    labels = np.empty(n, np.int64)
    for number, members in enumerate(sorted(partition, key=min)):
        labels[list(members)] = number
    return labels


class CommunitySearch:
    """Beam search down the hierarchy, then a ranking of the entities that are left.

    At each level the ``beam`` best communities survive: at the top by the cosine of query and
    community, below by that of query and (parent, community) together, the two vectors added at
    equal length. Entities of the surviving communities are ranked by their own cosine, so with an
    unlimited beam this is the exhaustive search. Communities and entities without any term of the
    query are never kept.
    """

    def __init__(
        self, communities: Communities, vectors: TextVectors, order: IntArray | None = None
    ) -> None:
        self.communities, self.vectors, self._order = communities, vectors, order
        self._groups: list[Groups] = [vectors.group(level) for level in communities.labels]
        self._parents: list[IntArray] = [np.zeros(0, np.int64)]
        self._joint: list[Floats] = [np.zeros(0)]  # length of parent + child, both of length 1
        for level in range(1, len(communities.labels)):
            parent = communities.parents(level)
            fine, coarse = self._groups[level], self._groups[level - 1]
            self._parents.append(parent)
            self._joint.append(np.sqrt(2 + 2 * vectors.affinity(fine, coarse, parent)))

    def descend(self, scores: Floats, beam: float = BEAM) -> list[list[int]]:
        """Return, for each level, the communities that survive a query's ``scores``, best first."""
        if not beam >= 1:
            raise EngineError(f"the beam must be at least 1, got {beam}")
        kept: list[list[int]] = []
        above: Floats | None = None
        for level, groups in enumerate(self._groups):
            own = self.vectors.group_scores(scores, groups)
            width = len(own) if math.isinf(beam) else int(beam)
            if above is None:
                kept.append(best(own, width))
            else:
                parent = self._parents[level]
                alive = np.zeros(len(above), np.bool_)
                alive[kept[-1]] = True
                joint = np.where(own > 0, (own + above[parent]) / self._joint[level], 0.0)
                kept.append(best(joint, width, alive[parent]))
            above = own
        return kept

    def search(self, query: str, k: int, beam: float = BEAM) -> list[tuple[int, float]]:
        """``(entity, cosine)`` of the ``k`` best entities in the surviving communities, best first,
        ties by ``order`` (default: by number)."""
        scores = self.vectors.scores(query)
        last = self.descend(scores, beam)[-1]
        alive = np.zeros(self.communities.sizes[-1], np.bool_)
        alive[last] = True
        among = alive[self.communities.labels[-1]]
        return [(e, float(scores[e])) for e in best(scores, k, among, self._order)]
