"""The world at a glance: kinds of entities on a circle, joined by lines as wide as their facts."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .atlas import Atlas

if TYPE_CHECKING:
    from .pages import Links

WIDTH, HEIGHT, RADIUS = 480, 420, 132
_LEAST, _MOST = 5, 17
"""Radii of circles, by the square root of how many entities they stand for."""
_WIDEST = 9.0
"""Width of the line with most facts; others by the square root of theirs."""


class KindNode(NamedTuple):
    """A kind, where its circle is, and where its name stands outside of it."""

    kind: int
    words: str
    lines: tuple[str, ...]
    members: int
    x: int
    y: int
    r: int
    text_x: int
    text_y: int
    anchor: str
    address: str | None


class KindTie(NamedTuple):
    """The facts between two kinds, or within one."""

    told: str
    """"city – country: 1,203 facts (capital of, in, …)"."""
    path: str
    wide: float


class SchemaGraph(NamedTuple):
    width: int
    height: int
    nodes: tuple[KindNode, ...]
    edges: tuple[KindTie, ...]
    """Order: those with most facts first."""


def schema_graph(atlas: Atlas, links: Links) -> SchemaGraph | None:
    """Draw the kinds that occur; None for a graph whose entities have no kinds."""
    members = atlas.members()
    kinds = [kind for kind, count in enumerate(members) if count]
    if len(kinds) < 2:
        return None
    facts, relations = facts_by_kinds(atlas)
    most = max(members)
    nodes = {}
    for place, kind in enumerate(kinds):
        angle = 2 * math.pi * place / len(kinds) - math.pi / 2
        r = round(_LEAST + (_MOST - _LEAST) * math.sqrt(members[kind] / most))
        nodes[kind] = _node(atlas, links, kind, members[kind], angle, r)
    widest = max(facts.values(), default=1)
    ties = []
    for (a, b), count in facts.most_common():
        words = ", ".join(name for name, _ in relations[a, b].most_common(3))
        told = f"{atlas.kinds[a]} – {atlas.kinds[b]}: {count:,} facts ({words})"
        wide = round(max(0.6, _WIDEST * math.sqrt(count / widest)), 1)
        ties.append(KindTie(told, _path(nodes[a], nodes[b]), wide))
    return SchemaGraph(WIDTH, HEIGHT, tuple(nodes.values()), tuple(ties))


def facts_by_kinds(
    atlas: Atlas,
) -> tuple[Counter[tuple[int, int]], dict[tuple[int, int], Counter[str]]]:
    """Facts between entities by their two kinds, and by the words of their relations."""
    graph = atlas.graph
    kind = np.array([atlas.kind(e) for e in range(graph.n_entities)])
    joined = graph.tail >= 0
    ends = np.sort(np.stack([kind[graph.head[joined]], kind[graph.tail[joined]]], axis=1), axis=1)
    rows = np.column_stack([ends, graph.relation[joined]])
    facts: Counter[tuple[int, int]] = Counter()
    relations: dict[tuple[int, int], Counter[str]] = {}
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    for (a, b, relation), count in zip(distinct.tolist(), counts.tolist(), strict=True):
        facts[a, b] += count
        relations.setdefault((a, b), Counter())[graph.relation_words[relation]] += count
    return facts, relations


def _node(atlas: Atlas, links: Links, kind: int, members: int, angle: float, r: int) -> KindNode:
    words = atlas.kinds[kind]
    lines = tuple(words.split(" ", 1)) if len(words) > 11 else (words,)
    across, down = math.cos(angle), math.sin(angle)
    x, y = round(WIDTH / 2 + RADIUS * across), round(HEIGHT / 2 + RADIUS * down)
    away = RADIUS + r + 7
    anchor = "middle" if abs(across) < 0.2 else "start" if across > 0 else "end"
    text_y = round(HEIGHT / 2 + away * down) + 5 - 7 * (len(lines) - 1)
    if anchor == "middle":
        text_y += round(5 * down) - (7 * (len(lines) - 1) if down < 0 else 0)
    return KindNode(
        kind, words, lines, members, x, y, r, round(WIDTH / 2 + away * across), text_y, anchor,
        links.kind(kind),
    )  # fmt: skip


def _path(a: KindNode, b: KindNode) -> str:
    """A curve that bends towards the middle; within one kind, a loop inside the circle."""
    cx, cy = WIDTH // 2, HEIGHT // 2
    if a is b:
        dx, dy = (cx - a.x) / RADIUS, (cy - a.y) / RADIUS
        one = (round(a.x + 44 * dx - 26 * dy), round(a.y + 44 * dy + 26 * dx))
        two = (round(a.x + 44 * dx + 26 * dy), round(a.y + 44 * dy - 26 * dx))
        return f"M{a.x} {a.y} C{one[0]} {one[1]} {two[0]} {two[1]} {a.x} {a.y}"
    mx, my = round((a.x + b.x + cx) / 3), round((a.y + b.y + cy) / 3)
    return f"M{a.x} {a.y} Q{mx} {my} {b.x} {b.y}"
