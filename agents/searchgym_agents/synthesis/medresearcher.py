"""MedResearcher-R1's knowledge-informed synthesis (arXiv 2508.14880): questions from sub-graphs.

Samplers take a connected piece of a graph around a path: a long chain (``max_chain``), a shortest
path with neighbours (``augmented_chain``), a path through a dense community (``community_core``)
or between two hubs (``dual_core``). One end of the path is the answer, an entity that few pages
mention; the path is not named, and other names are left out by chance. What is not needed is
dropped. ``meta["solution"]`` is the cheat sheet: facts that lead from what is named to the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from searchgym.plugins import register
from searchgym.tasks.context import Context, pick
from searchgym.tasks.draft import Draft, family

from .constraints import ConstraintGraph, Node, any_answer, draft, is_unique, minimal, nearby
from .infoseek import ends

Near = Callable[[int], Sequence[int]]
"""Neighbours of a node."""
Sample = tuple[list[int], list[int]]
"""Nodes of a sampled graph, its path first; the path."""
COMMUNITY = 30
"""Most nodes of a community, as released."""
RELATIONS = 10
"""Most neighbours of a node that are looked at, as released."""


def max_chain(near: Near, rng: np.random.Generator, starts: Sequence[int], size: int = 8) -> Sample:
    """The longest simple path from up to ten random starts, of at most half the size; then
    neighbours of its nodes, and theirs."""
    best: list[int] = []
    for _ in range(10):
        path = _longest(near, pick(rng, starts), size // 2)
        best = max(best, path, key=len)
        if len(best) == size // 2:
            break
    return _filled(near, best, size), best


def augmented_chain(
    near: Near,
    rng: np.random.Generator,
    starts: Sequence[int],
    size: int = 8,
    length: tuple[int, int] = (3, 6),
    augment: float = 0.5,
) -> Sample:
    """A shortest path of so many nodes, between two that nothing joins, and by chance one or two
    neighbours of each of its nodes."""
    paths = _paths(near, pick(rng, starts), length[1])
    far = [path for path in paths.values() if len(path) >= length[0]]
    path = pick(rng, far) if far else []
    nodes = list(path)
    for node in path:
        if rng.random() < augment:
            fresh = [n for n in near(node) if n not in nodes]
            nodes += fresh[: int(rng.integers(1, 3))]
    return nodes[:size], path


def community_core(
    near: Near, rng: np.random.Generator, starts: Sequence[int], size: int = 8, degree: int = 2
) -> Sample:
    """The longest simple path through the nodes of a community that have at least so many
    neighbours in it, and some of their neighbours there."""
    inside, within = _community(near, pick(rng, starts))
    core = [n for n in inside if len(within(n)) >= degree]
    if not core:
        return [], []
    path = _longest(lambda n: [m for m in within(n) if m in core], core[0], size // 2)
    return _filled(within, path, size), path


def dual_core(near: Near, rng: np.random.Generator, starts: Sequence[int], size: int = 8) -> Sample:
    """The shortest path between the two nodes of a community with the most neighbours there that
    nothing joins directly, and some neighbours of both."""
    inside, within = _community(near, pick(rng, starts))
    cores = sorted(inside, key=lambda n: (-len(within(n)), n))
    first = cores[0]
    second = next((n for n in cores[1:] if n not in within(first)), None)
    path = _paths(within, first, size).get(second, []) if second is not None else []
    return _filled(within, path, size, around=[path[0], path[-1]] if path else []), path


SAMPLERS: dict[str, Callable[..., Sample]] = {
    "max_chain": max_chain, "augmented_chain": augmented_chain,
    "community_core": community_core, "dual_core": dual_core,
}  # fmt: skip


def _longest(near: Near, start: int, most: int) -> list[int]:
    best: list[int] = []
    stack = [[start]]
    while stack and len(best) < most:
        path = stack.pop()
        best = path if len(path) > len(best) else best
        stack += [[*path, n] for n in reversed(near(path[-1])) if n not in path]
    return best


def _paths(near: Near, start: int, most: int, reach: int = 300) -> dict[int, list[int]]:
    """A shortest path of at most so many nodes to each of the nodes next to a start."""
    paths = {start: [start]}
    queue = [start]
    for here in queue:
        if len(paths) >= reach or len(paths[here]) == most:
            break
        for node in near(here):
            if node not in paths:
                paths[node] = [*paths[here], node]
                queue.append(node)
    return paths


def _filled(near: Near, path: list[int], size: int, around: Sequence[int] = ()) -> list[int]:
    """Nodes of a path, then neighbours of ``around`` (of all its nodes), then theirs."""
    nodes = list(path)
    ring = list(around or path)
    for _ in range(2):
        ring = list(dict.fromkeys(n for here in ring for n in near(here) if n not in nodes))
        nodes += ring[: size - len(nodes)]
    return nodes[:size]


def _community(near: Near, start: int) -> tuple[list[int], Near]:
    inside = [*_paths(near, start, 4, COMMUNITY)][:COMMUNITY]
    links = {n: [m for m in near(n) if m in inside] for n in inside}
    return inside, links.__getitem__


@register("task family:medresearcher")
@family()
def medresearcher(
    ctx: Context,
    rng: np.random.Generator,
    turn: int,
    samplers: tuple[str, ...] = tuple(SAMPLERS),
    size: int = 8,
    anonymise: float = 0.3,
    rarity: float = 0.2,
) -> Draft | None:
    """A question from a sampled piece of the graph.

    Args:
        samplers: Names in ``SAMPLERS`` that take turns.
        size: Most nodes of a sample.
        anonymise: Chance that a node beside the path is not named.
        rarity: The answer's number of mentions is within this lowest share (ours; the paper
            publishes no cut).
    """
    shape = samplers[turn % len(samplers)]

    def near(entity: int) -> list[int]:
        return [*nearby(ctx, entity)][:RELATIONS]

    nodes, path = SAMPLERS[shape](near, rng, [any_answer(ctx, rng) for _ in range(10)], size)
    if len(path) < 3:
        return None
    if not _rare(ctx, path[0], rarity):
        path.reverse()
    if not _rare(ctx, path[0], rarity):
        return None
    graph = ConstraintGraph((Node(path[0]),))
    for near_end, far_end in pairwise(path):
        if (fact := nearby(ctx, near_end).get(far_end)) is None:
            return None
        graph = graph.with_fact(ctx, fact, given=False)
    graph = graph.changed(graph.place(path[-1]), given=ctx.names.given(path[-1]) is not None)
    for node in nodes[len(path) :]:
        links = [nearby(ctx, n)[node] for n in path[1:] if node in nearby(ctx, n)]
        named = rng.random() >= anonymise and ctx.names.given(node) is not None
        for fact in links:
            graph = graph.with_fact(ctx, fact, given=named)
    if not is_unique(ctx, graph):
        return None
    graph = minimal(ctx, graph)
    return (
        draft(ctx, "medresearcher", graph, shape=shape, meta={"solution": cheat_sheet(ctx, graph)})
        if max(graph.distances().values()) > 1
        else None
    )


def _rare(ctx: Context, entity: int, rarity: float) -> bool:
    if ("rare", rarity) not in ctx.memo:
        counts = [ctx.mentions(e) for e in range(ctx.world.n_entities)]
        ctx.memo["rare", rarity] = float(np.quantile(counts, rarity))
    return bool(ctx.mentions(entity) <= ctx.memo["rare", rarity])


def cheat_sheet(ctx: Context, graph: ConstraintGraph) -> list[list[str]]:
    """Facts (subject, property, object) from what is farthest from the answer to it."""
    far = graph.distances()
    edges = sorted(graph.edges, key=lambda e: -max(far[e.subject], far[e.object]))
    return [list(ends(ctx, e)) for e in edges]
