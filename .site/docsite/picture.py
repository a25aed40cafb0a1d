"""Place a question's reasoning graph top down, so that it fits a phone: names in the question
first, the answer last, each relation written on its arrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import networkx as nx

from searchgym.reports.report import listed
from searchgym.types import ReasoningGraph, Task
from searchgym.viewer.world import operation_words

WIDE, TALL, BESIDE, BELOW, EDGE = 186, 46, 14, 92, 8
"""A box's size, the gap between two, the distance between rows, the margin; in pixels."""
LETTERS = 25


class PlacedNode(NamedTuple):
    role: str
    """``given`` (named in the question), ``hidden`` or ``answer``."""
    kind: str
    text: str
    x: int
    y: int


class PlacedFact(NamedTuple):
    """A line from subject to object, with its label's place."""

    label: str
    x1: int
    y1: int
    x2: int
    y2: int
    x: int
    y: int
    computed: bool


class PlacedGraph(NamedTuple):
    width: int
    height: int
    boxes: tuple[PlacedNode, ...]
    arrows: tuple[PlacedFact, ...]


def picture(task: Task) -> PlacedGraph | None:
    """Place a task's reasoning graph; None where the task has none."""
    graph = task.graph
    if graph is None or not graph.nodes:
        return None
    rows = _rows(graph)
    widest = max(map(len, rows))
    width = widest * (WIDE + BESIDE) - BESIDE
    places = {
        node: (EDGE + (width - len(row) * (WIDE + BESIDE) + BESIDE) // 2 + i * (WIDE + BESIDE),
               EDGE + depth * BELOW)
        for depth, row in enumerate(rows)
        for i, node in enumerate(row)
    }  # fmt: skip
    several = _several(graph)
    answer = task.answers[0]
    boxes = []
    for node in graph.nodes:
        role = "answer" if node.id == graph.answer else "given" if node.given else "hidden"
        unknown = "stated nowhere" if task.should_abstain else answer
        text = node.value or unknown
        if several.get(node.id, 1) > 1:
            text = f"{several[node.id]} of them"
        boxes.append(_box(role, node.type, text, places[node.id]))
    if not graph.answer:
        boxes.append(_box("answer", operation_words(graph.operation), answer, places[""]))
    counted = Counter((e.subject, e.property, e.object) for e in graph.edges)
    arrows = [_arrow(prop, places[a], places[b], False) for (a, prop, b) in counted]
    if not graph.answer:
        arrows += [_arrow("", places[node], places[""], True) for node in computed_from(graph)]
    height = len(rows) * BELOW - (BELOW - TALL)
    return PlacedGraph(width + 2 * EDGE, height + 2 * EDGE, tuple(boxes), tuple(arrows))


def caption(task: Task) -> str:
    """Return what a question names and what has to be found, as its picture shows them."""
    graph = task.graph
    assert graph is not None
    known = {node.id: node for node in graph.nodes}
    nodes = [known[name] for row in _rows(graph) for name in row if name in known]
    kinds = {node.id: node.type.replace("_", " ") for node in nodes}
    given = [f"the {kinds[node.id]} {node.value}" for node in nodes if node.given]
    hidden = [f"the {kinds[n.id]}" for n in nodes if not n.given and n.id != graph.answer]
    named = f"The question names {listed(given)}." if given else "The question names nothing."
    if not hidden:
        return named
    have = "have" if len(hidden) > 1 else "has"
    return f"{named} {listed(hidden).capitalize()} {have} to be found before the answer."


def _box(role: str, kind: str, text: str, place: tuple[int, int]) -> PlacedNode:
    return PlacedNode(role, kind.replace("_", " "), shortened(text, LETTERS), *place)


def _several(graph: ReasoningGraph) -> Mapping[str, int]:
    """Number of things a node stands for: as many as facts reach it from one other node."""
    most: dict[str, int] = {}
    for (a, _, b), facts in Counter((e.subject, e.property, e.object) for e in graph.edges).items():
        given = {node.id for node in graph.nodes if node.given}
        for node in {a, b} - given:
            most[node] = max(most.get(node, 1), facts)
    return most


def _rows(graph: ReasoningGraph) -> list[list[str]]:
    """Ids of nodes by the number of facts from what the question names; "" is a computed answer."""
    depths = depths_of(graph)
    if graph.answer:  # below everything that leads to it
        depths[graph.answer] = max(depths.values())
    rows: list[list[str]] = [[] for _ in range(max(depths.values()) + 1)]
    for node, depth in depths.items():
        rows[depth].append(node)
    return [*rows, [""]] if not graph.answer else rows


def _arrow(label: str, a: tuple[int, int], b: tuple[int, int], computed: bool) -> PlacedFact:
    if a[1] == b[1]:  # side by side
        left = a[0] < b[0]
        x1, x2 = (a[0] + WIDE, b[0]) if left else (a[0], b[0] + WIDE)
        y1 = y2 = a[1] + TALL // 2
    else:
        down = a[1] < b[1]
        x1, x2 = a[0] + WIDE // 2, b[0] + WIDE // 2
        y1, y2 = (a[1] + TALL, b[1]) if down else (a[1], b[1] + TALL)
    words = label.replace("_", " ")
    return PlacedFact(words, x1, y1, x2, y2, (x1 + x2) // 2, (y1 + y2) // 2 + 4, computed)


def shortened(name: str, longest: int) -> str:
    """A name that fits: cut, with an ellipsis."""
    return name if len(name) <= longest else name[: longest - 1].rstrip() + "…"


def computed_from(graph: ReasoningGraph) -> list[str]:
    """Nodes that an operation reads: "argmin:n0=n2,n3=n5" compares n2 and n5."""
    arguments = graph.operation.partition(":")[2].split(",")
    read = [argument.rpartition("=")[2] for argument in arguments]
    known = {node.id for node in graph.nodes}
    return [node for node in read if node in known]


def depths_of(graph: ReasoningGraph) -> dict[str, int]:
    """Facts between each node and the nearest that the question names; nodes that none reaches
    stand in the first column."""
    joined: nx.Graph[str] = nx.Graph()
    joined.add_nodes_from(node.id for node in graph.nodes)
    joined.add_edges_from((e.subject, e.object) for e in graph.edges)
    given = [node.id for node in graph.nodes if node.given]
    reached = nx.multi_source_dijkstra_path_length(joined, given) if given else {}
    return {node.id: int(reached.get(node.id, 0)) for node in graph.nodes}
