"""A picture of what is around an entity: what is said of it on the left, what it says on the right,
grouped by relation, a line each. Two to forty neighbours fit without touching each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..kgs.graph import Triple
from .atlas import Atlas

MOST = 40
"""Neighbours drawn; the table beside the picture holds all."""
WIDTH, ROW, HEADING, TOP = 960, 26, 24, 28
LEFT, MIDDLE, RIGHT = 300, 480, 660
"""x of the left ends of lines, of the entity, and of the right ends of lines."""
LONGEST = 36
"""Characters of a name in the picture."""


class Spot(NamedTuple):
    """A neighbour. ``entity`` is None for a value (a date, a number). ``arrow``: where its line
    ends, an SVG path from the middle or to it."""

    entity: int | None
    kind: int | None
    name: str
    x: int
    y: int
    path: str


class Heading(NamedTuple):
    """The relation above its neighbours, and how many of them are not drawn."""

    words: str
    more: int
    x: int
    y: int


class NeighbourSide(NamedTuple):
    """One half of the picture."""

    anchor: str
    """SVG's text-anchor."""
    headings: tuple[Heading, ...]
    spots: tuple[Spot, ...]


class Picture(NamedTuple):
    width: int
    height: int
    middle: tuple[int, int]
    about: NeighbourSide
    says: NeighbourSide

    @property
    def drawn(self) -> int:
        return len(self.about.spots) + len(self.says.spots)


def picture(atlas: Atlas, entity: int, most: int = MOST) -> Picture:
    """The picture of an entity. Where there are more than ``most`` neighbours every relation keeps
    some, and its heading counts the rest."""
    says, about = atlas.facts(entity)
    left, right = _groups(about), _groups(says)
    shares = _shares([len(g) for g in (*left, *right)], most)
    kept_left, kept_right = shares[: len(left)], shares[len(left) :]
    height = TOP + max(_height(kept_left), _height(kept_right), 3 * ROW) + TOP // 2
    middle = (MIDDLE, height // 2)
    return Picture(
        WIDTH, height, middle,
        _side(atlas, left, kept_left, LEFT, middle, height, about=True),
        _side(atlas, right, kept_right, RIGHT, middle, height, about=False),
    )  # fmt: skip


def _groups(facts: Sequence[Triple]) -> list[list[Triple]]:
    groups: dict[int, list[Triple]] = {}
    for fact in facts:
        groups.setdefault(fact.relation, []).append(fact)
    return list(groups.values())


def _shares(sizes: Sequence[int], most: int) -> list[int]:
    """Return how many of each group are drawn: all of small ones, the rest of the room to large
    ones."""
    kept = [0] * len(sizes)
    left = most
    while left > 0 and (open_ := [i for i, n in enumerate(sizes) if kept[i] < n]):
        for i in open_[:left]:
            kept[i] += 1
        left -= len(open_[:left])
    return kept


def _height(kept: Sequence[int]) -> int:
    return sum(HEADING + ROW * n for n in kept if n)


def _side(
    atlas: Atlas, groups: Sequence[Sequence[Triple]], kept: Sequence[int], x: int,
    middle: tuple[int, int], height: int, *, about: bool,
) -> NeighbourSide:  # fmt: skip
    graph = atlas.graph
    y = (height - _height(kept)) // 2
    headings, spots = [], []
    for group, n in zip(groups, kept, strict=True):
        if not n:
            continue
        words = graph.relation_words[group[0].relation]
        headings.append(Heading(words, len(group) - n, x, y + HEADING - 8))
        y += HEADING
        for fact in group[:n]:
            other = fact.head if about else fact.tail
            at = y + ROW // 2
            valued = other < 0
            name = fact.value if valued else graph.titles[other]
            spots.append(
                Spot(
                    None if valued else other, None if valued else atlas.kind(other),
                    shortened(name), x, at, _line(x, at, middle, about),
                )
            )  # fmt: skip
            y += ROW
    return NeighbourSide("end" if about else "start", tuple(headings), tuple(spots))


def _line(x: int, y: int, middle: tuple[int, int], about: bool) -> str:
    """A curve that leaves and arrives horizontally, in the direction of the fact."""
    mx, my = middle
    gap = 9 if about else -9
    near = x + gap
    centre = mx - 14 if about else mx + 14
    bend = (near + centre) // 2
    if about:
        return f"M{near} {y} C{bend} {y} {bend} {my} {centre} {my}"
    return f"M{centre} {my} C{bend} {my} {bend} {y} {near} {y}"


def shortened(name: str, longest: int = LONGEST) -> str:
    """A name that fits: cut, with an ellipsis."""
    return name if len(name) <= longest else name[: longest - 1].rstrip() + "…"
