"""Relations whose objects must fit their subjects: in time, in place, within the family.

Objects are drawn from those that fit, not drawn and filtered: they stand sorted by group (the
country they belong to) and by the attribute that bounds them (their birth), so that those a subject
may have are one slice, found by two binary searches. The keys of a schema are ``fits``, ``within``
and ``of``, ``follows`` and ``stray``, ``lacks``, ``across``, ``along`` and ``per``, ``near``
(:class:`searchgym.worlds.schema.Property`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import WorldError
from .relations import Edges, Ints
from .schema import Property, Schema
from .values import DAYS

Floats = NDArray[np.float64]
NOW = "now"
_ROUNDS = 24
_ROWS = 256
"""Places whose distances from all others are held at once."""


class Fit(NamedTuple):
    """The object's attribute less the subject's lies between ``low`` and ``high``."""

    object: str
    subject: str
    low: float
    high: float


def parse_fit(text: str) -> Fit:
    """Read ``"birth_date: company_founded -75..-20"``; an empty side is open. ``ValueError`` for
    another form."""
    attribute, colon, rest = text.partition(":")
    subject, _, bounds = rest.strip().partition(" ")
    low, dots, high = bounds.partition("..")
    if not (colon and subject and dots and (low.strip() or high.strip())):
        raise ValueError(f"expected a form such as 'birth_date: film_year -80..-20', got {text!r}")
    return Fit(attribute.strip(), subject, float(low or -math.inf), float(high or math.inf))


def drawing_order(schema: Schema) -> list[Property]:
    """Relations, each after those that its objects depend on. ``WorldError`` for a circle."""
    relations = {p.name: p for p in schema.properties if p.is_relation}
    needs = {
        p.name: [n for n in (p.within, p.of, p.lacks, p.apart, p.along, *p.follows.split("/")) if n]
        for p in relations.values()
    }
    try:
        return [relations[n] for n in TopologicalSorter(needs).static_order() if n in relations]
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise WorldError(f"relations wait for each other's objects: {circle}") from None


def bound_properties(schema: Schema) -> set[str]:
    """Names of the properties on which it depends whether facts fit together."""
    bound: set[str] = set()
    for p in schema.properties:
        asked = [name for text in p.fits for name in parse_fit(text)[:2]]
        asked += [p.within if p.of or p.fits else "", p.of, p.lacks, p.apart, p.along]
        asked += p.follows.split("/")
        if any(asked):
            bound |= {p.name, p.per.partition(" ")[0], *asked}
    return bound & {p.name for p in schema.properties}


def comparable(p: Property, values: Ints, where: Ints) -> Floats:
    """Values on one scale, dates as years with a fraction; NaN where there is none."""
    scaled = np.full(len(values), np.nan)
    scaled[where] = 1 + (values[where] - 1) / DAYS if p.value == "date" else values[where]
    return scaled


class Bounds:
    """Conditions that the ``fits`` of a relation set of the objects of given subjects."""

    def __init__(
        self, p: Property, sources: Ints, known: Mapping[str, Floats], now: int, targets: int
    ) -> None:
        fits = [parse_fit(text) for text in p.fits]
        first = fits[0].object if fits else ""
        self.key = known[first] if fits else np.zeros(targets)
        self.after = len(fits) == 1 and fits[0].high <= 0
        """The object is there before its subject, and that is all that is asked of it."""
        self.low = np.full(len(sources), -np.inf)
        self.high = np.full(len(sources), np.inf)
        self._others: list[tuple[Floats, Floats, Floats]] = []
        for fit in fits:
            at = np.full(len(sources), float(now))
            if fit.subject != NOW:
                at = known[fit.subject][sources]
            low, high = at + fit.low, at + fit.high
            if fit.object == first:  # fmax and fmin let an unknown bound be open
                self.low, self.high = np.fmax(self.low, low), np.fmin(self.high, high)
            else:
                self._others.append((known[fit.object], low, high))

    def others_hold(self, rows: Ints, targets: Ints) -> NDArray[np.bool_]:
        """Check whether targets satisfy what does not concern the key; what is unknown does."""
        held = np.ones(len(rows), bool)
        for values, low, high in self._others:
            at = values[targets]
            held &= ~((at < low[rows]) | (at > high[rows]))
        return held

    def hold(self, rows: Ints, targets: Ints) -> NDArray[np.bool_]:
        """Check whether targets satisfy everything."""
        at = self.key[targets]
        return self.others_hold(rows, targets) & (at >= self.low[rows]) & (at <= self.high[rows])


class Window:
    """Candidates sorted by group and key, drawn in proportion to their weights."""

    def __init__(self, targets: Ints, group: Ints, key: Floats, weight: Floats) -> None:
        self._least = float(key.min(initial=np.inf)) if len(key) else 0.0
        self._range = float(np.ptp(key)) if len(key) else 0.0
        place = self._place(group, key)
        order = np.argsort(place, kind="stable")
        self._places, self._targets = place[order], targets[order]
        self._mass = np.concatenate([[0.0], np.cumsum(weight[order])])

    def _place(self, group: Ints, key: Floats) -> Floats:
        offset: Floats = np.clip(key - self._least, -0.25, self._range + 0.25)
        return group * (self._range + 1) + offset

    def draw(self, group: Ints, low: Floats, high: Floats, u: Floats) -> Ints:
        """A target per row, of the row's group and with a key in the row's bounds; -1 if none."""
        lo = np.searchsorted(self._places, self._place(group, low), side="left")
        hi = np.searchsorted(self._places, self._place(group, high), side="right")
        some = hi > lo
        lo, hi = lo[some], hi[some]
        at = self._mass[lo] + u[some] * (self._mass[hi] - self._mass[lo])
        drawn = np.full(len(group), -1, np.int64)
        places = np.searchsorted(self._mass, at, side="right") - 1
        drawn[some] = self._targets[np.clip(places, lo, hi - 1)]
        return drawn

    def nearest(self, bounds: Bounds, rows: Ints) -> Ints:
        """For each row the target whose key comes first from its lower bound on, or last up to its
        upper one where the object is there before; of one group."""
        at = bounds.high[rows] if bounds.after else bounds.low[rows]
        place = self._place(np.zeros(len(at), np.int64), at)
        found = np.searchsorted(self._places, place, side="right" if bounds.after else "left")
        return self._targets[np.clip(found - bounds.after, 0, len(self._targets) - 1)]


def fitting(
    rows: Ints, group: Ints, window: Window, bounds: Bounds, loops: bool, once: bool, always: bool,
    rng: np.random.Generator,
) -> Edges:  # fmt: skip
    """An object for each of ``rows`` (a subject per wanted object) from its window.

    ``once``: no object for two subjects. ``always``: a subject for which nothing fits takes what
    nearly does. Shapes: ``rows``, ``group`` and the arrays of ``bounds`` are equally long.
    """
    base = len(bounds.key)
    open_ = np.arange(len(rows))
    used = np.zeros(base, bool)
    pairs = np.zeros(0, np.int64)
    for _ in range(_ROUNDS):
        u = rng.random(len(open_))
        t = window.draw(group[open_], bounds.low[open_], bounds.high[open_], u)
        open_, t = open_[t >= 0], t[t >= 0]
        if not len(open_):
            break
        fine = bounds.others_hold(open_, t)
        if loops:
            fine &= t != rows[open_]
        if once:
            fine &= ~used[t] & _first(t, fine & ~used[t])
        pair = rows[open_] * base + t
        fine &= _first(pair, fine) & ~np.isin(pair, pairs)
        pairs = np.concatenate([pairs, pair[fine]])
        used[t[fine]] = True
        open_ = open_[~fine]
    if always:
        lone, where = np.unique(rows, return_index=True)
        without = ~np.isin(lone, pairs // base)
        near = window.nearest(bounds, where[without])
        pairs = np.concatenate([pairs, lone[without] * base + near])
        pairs = pairs[pairs // base != pairs % base] if loops else pairs
    return pairs // base, pairs % base


def _first(keys: Ints, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Marks the first of equal keys among those marked."""
    at = np.flatnonzero(among)
    _, where = np.unique(keys[at], return_index=True)
    first = np.zeros(len(keys), bool)
    first[at[where]] = True
    return first


def matched(
    stubs: Ints, side: NDArray[np.int8] | None, p: Property, known: Mapping[str, Floats],
    rng: np.random.Generator,
) -> Edges:  # fmt: skip
    """Symmetric edges between members near each other in the key of the first of ``fits``: stubs
    are sorted by key and a fifth of the bound's width at random, and neighbours are joined, of
    different sides where ``side`` (a facet a member) is given. Shape of ``stubs``: a member per
    wanted edge."""
    fit = parse_fit(p.fits[0])
    key = known[fit.object][stubs] + rng.normal(0.0, fit.high / 5, len(stubs))
    if side is None:
        order = stubs[np.argsort(key, kind="stable")]
        half = len(order) // 2
        a, b = order[: 2 * half : 2], order[1 : 2 * half : 2]
    else:
        sides = [rng.permutation(np.flatnonzero(side[stubs] == k)) for k in (0, 1)]
        half = min(map(len, sides))
        a, b = (stubs[s[np.argsort(key[s], kind="stable")]] for s in (s[:half] for s in sides))
    base = len(known[fit.object])
    low, high = np.minimum(a, b), np.maximum(a, b)
    pairs = np.unique((low * base + high)[low != high])
    low, high = pairs // base, pairs % base
    held = np.ones(len(pairs), bool)
    for a, b in ((low, high), (high, low)):
        held &= Bounds(p, a, known, 0, base).hold(np.arange(len(a)), b)
    low, high = low[held], high[held]
    return np.concatenate([low, high]), np.concatenate([high, low])


def neighbours(members: Ints, count: int, rng: np.random.Generator) -> Edges:
    """Symmetric edges of a map: members get places in a square, and each touches the ``count``
    nearest."""
    places = rng.random((len(members), 2))
    near = _nearest(places, min(count, len(members) - 1))
    a, b = np.repeat(np.arange(len(members)), near.shape[1]), near.ravel()
    pairs = np.unique(np.concatenate([a * len(members) + b, b * len(members) + a]))
    a, b = pairs // len(members), pairs % len(members)
    return members[a[a != b]], members[b[a != b]]


def _nearest(places: Floats, count: int) -> Ints:
    """The ``count`` places nearest to each of ``places`` (n, 2): by scipy's tree where it is
    installed, which large worlds need, else by all distances."""
    if find_spec("scipy") is not None:
        from scipy.spatial import cKDTree

        found: Ints = cKDTree(places).query(places, k=count + 1)[1]
        return found.reshape(len(places), -1)[:, 1:]
    near = np.empty((len(places), count), np.int64)
    for at in range(0, len(places), _ROWS):
        rows = np.arange(at, min(at + _ROWS, len(places)))
        far = np.square(places[rows, None] - places).sum(-1)
        far[rows - at, rows] = np.inf
        near[rows] = np.argpartition(far, max(0, count - 1))[:, :count]
    return near


def walks(
    sources: Ints, wanted: Ints, via: Edges, targets: Ints, rng: np.random.Generator
) -> Edges:
    """Up to ``wanted[i]`` objects per source that lie one beside the other along ``via``."""
    order = np.argsort(via[0], kind="stable")
    beside = np.append(via[1][order], -1)
    starts = np.searchsorted(via[0][order], np.arange(int(targets.max(initial=0)) + 2))
    path = np.full((len(sources), int(wanted.max(initial=1))), -1, np.int64)
    path[:, 0] = targets[(rng.random(len(sources)) * len(targets)).astype(np.int64)]
    for step in range(1, path.shape[1]):
        at = path[:, step - 1]
        room = np.where(at >= 0, starts[at + 1] - starts[at], 0)
        pick = starts[at] + (rng.random(len(sources)) * room).astype(np.int64)
        going = (room > 0) & (wanted > step)
        to = np.where(going, beside[np.where(going, pick, 0)], -1)
        path[:, step] = np.where((path == to[:, None]).any(axis=1), -1, to)
    rows, steps = np.nonzero(path >= 0)
    return sources[rows], path[rows, steps]


def one_each(edges: Edges, n: int, rng: np.random.Generator) -> Ints:
    """One of each subject's objects at random (n,); -1 where there is none."""
    found = np.full(n, -1, np.int64)
    shuffle = rng.permutation(len(edges[0]))
    found[edges[0][shuffle]] = edges[1][shuffle]
    return found


def followed(names: Iterable[str], done: Mapping[str, Edges], sizes: Iterable[int],
             rng: np.random.Generator) -> Ints:  # fmt: skip
    """Places where a path of relations leads from each subject; -1 where it leads nowhere."""
    at: Ints | None = None
    for name, n in zip(names, sizes, strict=True):
        step = np.append(one_each(done[name], n, rng), -1)
        at = step[:-1] if at is None else step[at]
    assert at is not None
    return at
