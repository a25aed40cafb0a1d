"""Generating a world from a schema and a seed: types, facets, edges, values, names, look-alikes.

Independent named streams: ``graph`` (types' order, facets, edges), ``values`` (attributes) and
``names``. The wording has its own seed where pages are rendered. The recipe follows the synthetic
world of arXiv 2601.14615: Zipf-like out-degrees, cardinalities, hierarchies without cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from ..errors import WorldError
from ..objects import is_number
from ..seeding import stream
from . import relations as rel
from .checks import certain
from .constraints import (
    Bounds,
    Window,
    bound_properties,
    comparable,
    drawing_order,
    fitting,
    followed,
    matched,
    neighbours,
    one_each,
    walks,
)
from .names import add_homonyms, draw_names, draw_titles
from .schema import Property, Schema
from .values import draw_values
from .world import World

Ints = NDArray[np.int64]


def _with_lookalikes(
    schema: Schema,
    type_of: NDArray[np.int16],
    facet_of: NDArray[np.int8],
    subject: Ints,
    prop: Ints,
    obj: Ints,
    rate: float,
    seed: int,
) -> tuple[NDArray[np.int16], NDArray[np.int8], Ints, Ints, Ints]:
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
    bound = {schema.property_index(name) for name in bound_properties(schema)}
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
        swap = _other({p: facts[p] for p in facts if p not in bound}, rows, peers, rng)
        if swap is None:
            continue
        twin = n + len(original)
        original.append(e)
        for p, objects in facts.items():
            new += [(twin, p, o) for o in (swap[1] if p == swap[0] else objects)]
    twins = np.array(original, np.int64)
    added = np.array(new, np.int64).reshape(-1, 3)
    return (
        np.concatenate([type_of, type_of[twins]]),
        np.concatenate([facet_of, facet_of[twins]]),
        np.concatenate([subject, added[:, 0]]),
        np.concatenate([prop, added[:, 1]]),
        np.concatenate([obj, added[:, 2]]),
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


def generate(
    schema: Schema,
    *,
    entities: int = 3600,
    seed: int = 0,
    graph_seed: int | None = None,
    names_seed: int | None = None,
    values_seed: int | None = None,
    zipf: float = 1.5,
    max_degree: int = 12,
    popularity: float = 0.0,
    homonyms: float = 0.0,
    lookalikes: float = 0.0,
    names_part: tuple[int, int] | None = None,
) -> World:
    """Generate a world of ``entities`` entities; the same arguments give the same bytes everywhere.

    ``graph_seed``, ``names_seed`` and ``values_seed`` default to ``seed`` and change only their
    part. ``zipf``: exponent of the out-degrees of multi-valued relations, cut at ``max_degree``.
    ``popularity``: exponent of the targets' popularity (0: uniform; 1: a few entities are in many
    facts). ``homonyms``: share of entities whose name another entity of a like type also has (their
    titles stay different). ``lookalikes``: share of entities that get a twin of their type sharing
    all facts that can be shared but one; twins come *on top of* ``entities``, as the last ones, and
    are ordinary entities, so proofs that an answer is unique see them. ``names_part``: ``(0, 3)``
    takes the first of three parts of all names, so that worlds of other parts share none.

    Raises ``WorldError`` when the schema does not fit the size or an argument is out of range.
    """
    for name, number in (
        ("entities", entities), ("seed", seed), ("graph_seed", graph_seed),
        ("names_seed", names_seed), ("values_seed", values_seed), ("max_degree", max_degree),
    ):  # fmt: skip
        if number is not None and (isinstance(number, bool) or not isinstance(number, Integral)):
            raise WorldError(f"{name} of a world must be a whole number, got {number!r}")
    if (
        max_degree < 1
        or not (is_number(zipf) and zipf >= 0 and is_number(popularity))
        or (popularity < 0)
    ):
        raise WorldError(
            f"needs max_degree >= 1, zipf >= 0 and popularity >= 0, got {max_degree}, {zipf}, "
            f"{popularity}"
        )
    graph = seed if graph_seed is None else graph_seed
    names_from = seed if names_seed is None else names_seed
    type_of = _types(schema, entities)
    layout = _layout(schema, type_of, graph)
    columns = []
    known: dict[str, NDArray[np.float64]] = {}
    value_root = seed if values_seed is None else values_seed
    for p, where, values in draw_values(schema, layout.order, value_root):
        index = schema.property_index(p.name)
        columns.append((where + layout.first[p.source], index, values[where]))
        known[p.name] = comparable(p, values, where)
    done: dict[str, rel.Edges] = {}
    for p in drawing_order(schema):
        rng = stream(graph, "graph", p.name)
        edges = _edges(p, schema, layout, done, known, zipf, max_degree, popularity, rng)
        done[p.name] = edges
        base_s = layout.first[p.source]
        base_o = layout.first[p.target or ""]
        columns.append((edges[0] + base_s, schema.property_index(p.name), edges[1] + base_o))
    subject = np.concatenate([c[0] for c in columns])
    prop = np.concatenate([np.full(len(c[0]), c[1], np.int64) for c in columns])
    obj = np.concatenate([c[2] for c in columns])
    facet_of = layout.facet_of
    if lookalikes:
        type_of, facet_of, subject, prop, obj = _with_lookalikes(
            schema, type_of, facet_of, subject, prop, obj, lookalikes, graph
        )
    order = _sorted(subject, prop, obj)
    subject, prop, obj = subject[order], prop[order], obj[order]
    names, aliases = draw_names(schema, type_of, facet_of, names_from, names_part)
    add_homonyms(schema, names, aliases, type_of, facet_of, homonyms, names_from)
    return assemble(schema, seed, names, aliases, type_of, facet_of, subject, prop, obj)


def assemble(
    schema: Schema,
    seed: int,
    names: list[str],
    aliases: list[str],
    type_of: NDArray[np.int16],
    facet_of: NDArray[np.int8],
    subject: Ints,
    prop: Ints,
    obj: Ints,
) -> World:
    """A world from facts already sorted by (subject, property, object): titles and indices."""
    n = len(type_of)
    relation = np.array([p.is_relation for p in schema.properties])
    about = np.flatnonzero(relation[prop]) if len(prop) else np.zeros(0, np.int64)
    about = about[_sorted(obj[about], prop[about], subject[about])]
    titles = draw_titles(schema, names, type_of, subject, prop, obj)
    world = World(
        schema=schema,
        seed=seed,
        titles=titles,
        names=names,
        type_of=type_of,
        subject_of=subject.astype(np.int32),
        property_of=prop.astype(np.int16),
        object_of=obj.astype(np.int64),
        indptr=np.searchsorted(subject, np.arange(n + 1)).astype(np.int64),
        inverse_order=about.astype(np.int64),
        inverse_indptr=np.searchsorted(obj[about], np.arange(n + 1)).astype(np.int64),
        facet_of=facet_of,
        alias_of=aliases,
    )
    for name in (
        "type_of", "subject_of", "property_of", "object_of", "indptr", "inverse_order",
        "inverse_indptr", "facet_of",
    ):  # fmt: skip
        getattr(world, name).flags.writeable = False
    return world


def _sorted(first: Ints, second: Ints, third: Ints) -> Ints:
    b, c = int(second.max(initial=0)) + 1, int(third.max(initial=0)) + 1
    if (int(first.max(initial=0)) + 1) * b * c < 1 << 62:
        # One integer key sorts several times faster; equal keys would be equal facts.
        return np.argsort((first * b + second) * c + third)
    return np.lexsort((third, second, first))


def _types(schema: Schema, entities: int) -> NDArray[np.int16]:
    """Type of each entity: blocks in the schema's order, largest remainders, none empty."""
    least = len(schema.types)
    if entities < least:
        raise WorldError(
            f"{entities} entities are too few for the {least} types of schema {schema.name!r}; "
            f"ask for at least {least}"
        )
    share = np.array([t.share for t in schema.types], dtype=np.float64)
    ideal = share / share.sum() * (entities - least)
    counts = np.floor(ideal).astype(np.int64)
    by_rest = np.argsort(-(ideal - counts), kind="stable")
    counts[by_rest[: entities - least - int(counts.sum())]] += 1
    return np.repeat(np.arange(least), counts + 1).astype(np.int16)


@dataclass(frozen=True, slots=True)
class _Layout:
    first: dict[str, int]
    count: dict[str, int]
    order: dict[str, Ints]
    """Entity positions of each type by rank, (n,); acyclic relations and ordered values follow
    it."""
    rank: dict[str, Ints]
    facet_of: NDArray[np.int8]
    facet: dict[tuple[str, str], Ints]
    """Positions of the entities of a type's facet."""


def _layout(schema: Schema, type_of: NDArray[np.int16], seed: int) -> _Layout:
    facet_of = np.zeros(len(type_of), np.int8)
    first, count, order, rank = {}, {}, {}, {}
    facet: dict[tuple[str, str], Ints] = {}
    for i, t in enumerate(schema.types):
        lo, hi = np.searchsorted(type_of, [i, i + 1])
        n = int(hi - lo)
        first[t.name], count[t.name] = int(lo), n
        rng = stream(seed, "graph", "order", t.name)
        order[t.name] = rng.permutation(n)
        rank[t.name] = np.argsort(order[t.name])
        if t.facets:
            drawn = rng.integers(len(t.facets), size=n)
            facet_of[lo:hi] = drawn
            for k, name in enumerate(t.facets):
                facet[t.name, name] = np.flatnonzero(drawn == k)
    return _Layout(first, count, order, rank, facet_of, facet)


def _edges(
    p: Property,
    schema: Schema,
    layout: _Layout,
    done: dict[str, rel.Edges],
    known: dict[str, NDArray[np.float64]],
    zipf: float,
    cap: int,
    popularity: float,
    rng: np.random.Generator,
) -> rel.Edges:
    assert p.target is not None
    n, m = layout.count[p.source], layout.count[p.target]
    present = rng.random(n) < p.presence
    sources = np.flatnonzero(present)
    targets = layout.facet[p.target, p.target_facet] if p.target_facet else np.arange(m)
    loops = p.source == p.target
    if p.near:
        return neighbours(sources, p.near, rng)
    if p.within and not (p.of or p.fits):
        return _inside(sources, done[p.within], p.cardinality, rng)
    if not len(sources) or not len(targets) or (loops and m < 2):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    degrees = rel.zipf_degrees(len(sources), zipf, cap, rng)
    if p.along:
        by, _, each = p.per.partition(" ")
        wanted = np.minimum(1 + known[by][sources] // float(each), cap).astype(np.int64)
        return walks(sources, wanted, done[p.along], targets, rng)
    if p.fits or p.within or p.follows or p.lacks:
        weight = rel.weights(m, popularity, rng)
        return _fitting(p, schema, layout, done, known, sources, targets, degrees, weight, rng)
    if p.symmetric:
        if p.cardinality == "1-1":
            return rel.paired(sources, rng)
        return rel.mutual(sources, degrees, rng)
    if p.acyclic:
        return _acyclic(p, layout, sources, targets, degrees, rng)
    if p.cardinality == "1-1":
        return rel.one_to_one(sources, targets, loops, rng)
    if p.cardinality == "1-n":
        return rel.one_to_many(sources, targets, degrees, loops, rng)
    drawer = rel.Popularity(targets, popularity, rng)
    if p.cardinality == "n-1":
        return rel.many_to_one(sources, drawer, loops)
    return rel.many_to_many(sources, degrees, drawer, len(targets), loops)


def _fitting(
    p: Property,
    schema: Schema,
    layout: _Layout,
    done: dict[str, rel.Edges],
    known: dict[str, NDArray[np.float64]],
    sources: Ints,
    targets: Ints,
    degrees: Ints,
    weight: NDArray[np.float64],
    rng: np.random.Generator,
) -> rel.Edges:
    n, m, first = layout.count[p.source], len(weight), layout.first[p.source]
    if p.symmetric:
        stubs = sources if p.cardinality == "1-1" else np.repeat(sources, degrees)
        return matched(
            stubs, layout.facet_of[first : first + n] if p.across else None, p, known, rng
        )
    given: rel.Edges = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if p.follows:
        steps = [schema.properties[schema.property_index(s)] for s in p.follows.split("/")]
        sizes = [layout.count[step.source] for step in steps]
        to = followed([step.name for step in steps], done, sizes, rng)[sources]
        led = (to >= 0) & (rng.random(len(sources)) >= p.stray)
        at, to, sources = sources[led], to[led], sources[~led]
        held = Bounds(p, at, known, schema.now, m).hold(np.arange(len(at)), to)
        given = at[held], to[held]
        degrees = degrees[~led]
    if p.within:
        own = one_each(done[p.of], n, rng)[sources] if p.of else sources
        sources, own, degrees = sources[own >= 0], own[own >= 0], degrees[own >= 0]
        inside, group = done[p.within]
        keep = np.isin(inside, targets)
        targets, group = inside[keep], group[keep]
    else:
        own, group = np.zeros(len(sources), np.int64), np.zeros(len(targets), np.int64)
    if p.lacks:
        free = ~np.isin(targets, done[p.lacks][0])
        targets, group = targets[free], group[free]
    if not len(targets) or not len(sources):
        return given
    if p.cardinality in ("1-n", "n-n"):
        sources, own = np.repeat(sources, degrees), np.repeat(own, degrees)
    bounds = Bounds(p, sources, known, schema.now, m)
    window = Window(targets, group, bounds.key[targets], weight[targets])
    loops, once = p.source == p.target, p.cardinality in ("1-1", "1-n")
    s, t = fitting(sources, own, window, bounds, loops, once, certain(p), rng)
    s, t = np.concatenate([given[0], s]), np.concatenate([given[1], t])
    if p.apart:
        whose, other = one_each((s, t), n, rng), one_each(done[p.apart], n, rng)[s]
        shared = (other >= 0) & (other < s) & (whose[other] == t)
        s, t = s[~shared], t[~shared]
    return s, t


def _acyclic(
    p: Property,
    layout: _Layout,
    sources: Ints,
    targets: Ints,
    degrees: Ints,
    rng: np.random.Generator,
) -> rel.Edges:
    order, rank = layout.order[p.source], layout.rank[p.source]
    n = len(order)
    gap = max(1, round(p.gap * n))
    ranks, allowed = rank[sources], np.sort(rank[targets])
    if p.cardinality == "1-1":
        s, t = rel.chain_below(ranks, allowed, gap, n, rng)
    elif p.cardinality == "n-1":
        s, t = rel.lower_rank(ranks, allowed, gap, rng)
    elif p.cardinality == "1-n":
        # Ranks are reversed because a one-to-many source takes objects that come after it.
        present = np.zeros(n, bool)
        present[n - 1 - ranks] = True
        spread = np.zeros(n, np.int64)
        spread[n - 1 - ranks] = degrees
        s, t = rel.tree_order(present, spread, gap)
        s, t = n - 1 - s, n - 1 - t
        keep = np.isin(t, allowed)
        s, t = s[keep], t[keep]
    else:
        s, t = rel.lower_rank(np.repeat(ranks, degrees), allowed, gap, rng)
        pairs = np.unique(s * n + t)
        s, t = pairs // n, pairs % n
    return order[s], order[t]


def _inside(sources: Ints, via: rel.Edges, cardinality: str, rng: np.random.Generator) -> rel.Edges:
    """Draw for each source a random object among those whose ``within`` relation leads to it."""
    shuffle = rng.permutation(len(via[0]))
    objects, holders = via[0][shuffle], via[1][shuffle]
    holder, where = np.unique(holders, return_index=True)
    is_source = np.isin(holder, sources)
    s, t = holder[is_source], objects[where[is_source]]
    if cardinality == "1-1":
        t, where = np.unique(t, return_index=True)
        s = s[where]
    return s, t
