"""A task's reasoning graph, laid out from what the question names to what it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import networkx as nx

from ..types import GraphEdge, ReasoningGraph
from .neighbourhood import shortened

BOX, TALL, ACROSS, DOWN, EDGE = 224, 52, 310, 84, 16
"""Size of a node, distance between columns and between rows, margin; in pixels."""
LONGEST = 25
COMPUTED = " computed"
"""Node id of a computed answer; ids of nodes have no space."""
OPERATIONS: Mapping[str, str] = {
    "count": "their number",
    "argmin": "the least",
    "argmax": "the greatest",
    "equal": "the same?",
    "join": "both",
    "difference": "the difference",
}
"""Words for how an answer is computed (``tasks.solver``)."""


class Box(NamedTuple):
    """A node. ``role``: "given" (named in the question), "hidden" or "answer"; ``kind``: of what
    type it is, or how it is computed; ``title``: whose entity it is, "" where it is several."""

    role: str
    kind: str
    title: str
    text: str
    x: int
    y: int


class Arrow(NamedTuple):
    """Facts from their subject to their object; a step of computing has number 0."""

    number: int
    last: int
    """Number of the last of several facts that are drawn as one, as where things are counted."""
    label: str
    path: str
    x: int
    y: int


class Drawing(NamedTuple):
    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def operation_words(operation: str) -> str:
    """Put into words how an answer is computed: "the least"."""
    name = operation.partition(":")[0]
    return OPERATIONS.get(name, name)


def drawing(graph: ReasoningGraph, answer: str, names: Mapping[str, Sequence[str]]) -> Drawing:
    """Columns by the number of facts from what the question names; an answer that is computed
    (counted, compared) stands behind all others. Same graph, same picture.

    Args:
        graph: At least one node.
        answer: The task's first.
        names: All things that a node stands for, by its id: those counted are several.
    """
    places = _places(graph)
    boxes = []
    for node in graph.nodes:
        role = "answer" if node.id == graph.answer else "given" if node.given else "hidden"
        called = names.get(node.id) or (node.value,)
        text = shortened(called[0], LONGEST if len(called) == 1 else LONGEST - 9)
        if len(called) > 1:
            text += f" and {len(called) - 1} more"
        title = called[0] if len(called) == 1 else ""
        kind = node.type.replace("_", " ")
        boxes.append(Box(role, kind, title, text, *places[node.id]))
    if not graph.answer:
        words = operation_words(graph.operation)
        boxes.append(Box("answer", words, "", shortened(answer, LONGEST), *places[COMPUTED]))
    arrows = []
    seen: dict[tuple[str, str], int] = {}
    numbered = enumerate(graph.edges, 1)
    for (*ends, label), same in groupby(numbered, lambda pair: _drawn_as(pair[1])):
        number, *more = [n for n, _ in same]
        key = (min(ends), max(ends))
        lane = seen[key] = seen.get(key, -1) + 1
        path, x, y = _path(places[ends[0]], places[ends[1]], lane)
        last = more[-1] if more else number
        arrows.append(Arrow(number, last, label.replace("_", " "), path, x, y))
    for node_id in [] if graph.answer else computed_from(graph):
        path, x, y = _path(places[node_id], places[COMPUTED], 0)
        arrows.append(Arrow(0, 0, "", path, x, y))
    right = max([x + BOX for x, _ in places.values()] + [arrow.x + 10 for arrow in arrows])
    low = max([y + TALL for _, y in places.values()] + [arrow.y + 10 for arrow in arrows])
    return Drawing(right + EDGE, low + EDGE, tuple(boxes), tuple(arrows))


def _drawn_as(edge: GraphEdge) -> tuple[str, str, str]:
    """Neighbouring facts that agree in this are one arrow."""
    return edge.subject, edge.object, edge.property


def computed_from(graph: ReasoningGraph) -> list[str]:
    """Nodes that an operation reads: "argmin:n0=n2,n3=n5" compares n2 and n5."""
    arguments = graph.operation.partition(":")[2].split(",")
    read = [argument.rpartition("=")[2] for argument in arguments]
    known = {node.id for node in graph.nodes}
    return [node for node in read if node in known]


def _joined(graph: ReasoningGraph) -> nx.Graph[str]:
    joined: nx.Graph[str] = nx.Graph()
    joined.add_nodes_from(node.id for node in graph.nodes)
    joined.add_edges_from((e.subject, e.object) for e in graph.edges)
    return joined


def depths_of(graph: ReasoningGraph) -> dict[str, int]:
    """Facts between each node and the nearest that the question names; nodes that none reaches
    stand in the first column."""
    given = [node.id for node in graph.nodes if node.given]
    reached = nx.multi_source_dijkstra_path_length(_joined(graph), given) if given else {}
    return {node.id: int(reached.get(node.id, 0)) for node in graph.nodes}


def _places(graph: ReasoningGraph) -> dict[str, tuple[int, int]]:
    """Left upper corner of every node."""
    columns: dict[int, list[str]] = {}
    for name, depth in depths_of(graph).items():
        columns.setdefault(depth, []).append(name)
    if not graph.answer:
        columns[max(columns, default=-1) + 1] = [COMPUTED]
    tallest = max(map(len, columns.values()))
    placed = {}
    for column, (_, names) in enumerate(sorted(columns.items())):
        above = (tallest - len(names)) * DOWN // 2
        for row, name in enumerate(names):
            placed[name] = (EDGE + column * ACROSS, EDGE + above + row * DOWN)
    return placed


def _path(a: tuple[int, int], b: tuple[int, int], lane: int) -> tuple[str, int, int]:
    """Draw the path from box to box, and place its label. ``lane`` > 0 keeps two facts between the
    same nodes apart."""
    shift = lane * 22
    if a[0] == b[0]:  # one column: around on the right
        x, low, high = a[0] + BOX, a[1] + TALL // 2, b[1] + TALL // 2
        out = x + 44 + shift
        return f"M{x} {low} C{out} {low} {out} {high} {x} {high}", out - 6, (low + high) // 2
    forth = a[0] < b[0]
    x1, x2 = (a[0] + BOX, b[0]) if forth else (a[0], b[0] + BOX)
    y1, y2 = a[1] + TALL // 2, b[1] + TALL // 2
    bend = (x1 + x2) // 2
    y = (y1 + y2) // 2 + shift
    if lane:
        return f"M{x1} {y1} Q{bend} {y + shift} {x2} {y2}", bend, y
    return f"M{x1} {y1} C{bend} {y1} {bend} {y2} {x2} {y2}", bend, y
