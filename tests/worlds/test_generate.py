from __future__ import annotations

from collections import Counter
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.errors import WorldError
from searchgym.worlds.export import world_digest
from searchgym.worlds.generate import generate
from searchgym.worlds.loader import load_schema, shipped_worlds
from searchgym.worlds.schema import Property
from searchgym.worlds.world import World

from .schemas import small
from .shipped import world_from_card

SMALL = load_schema(small())
DEFAULT = load_schema("encyclopedia")


def edges(world: World, p: Property) -> list[tuple[int, int]]:
    rows = np.flatnonzero(world.property_of == world.schema.property_index(p.name))
    return list(zip(world.subject_of[rows].tolist(), world.object_of[rows].tolist(), strict=True))


def check_world(world: World, max_degree: int) -> None:
    schema = world.schema
    keys = list(
        zip(
            world.subject_of.tolist(), world.property_of.tolist(), world.object_of.tolist(),
            strict=True,
        )
    )  # fmt: skip
    assert keys == sorted(set(keys)), "facts are sorted and none is there twice"
    for e in range(world.n_entities):
        assert all(f.subject == e for f in world.facts_of(e))
        assert all(f.object == e and world.prop(f).is_relation for f in world.facts_about(e))
    assert len(world.inverse_order) == sum(
        len(edges(world, p)) for p in schema.properties if p.is_relation
    )
    for p in schema.properties:
        pairs = edges(world, p)
        out = Counter(s for s, _ in pairs)
        assert all(schema.types[int(world.type_of[s])].name == p.source for s in out)
        if not p.is_relation:
            assert set(out.values()) <= {1}
            continue
        into = Counter(o for _, o in pairs)
        assert all(schema.types[int(world.type_of[o])].name == p.target for o in into)
        assert all(s != o for s, o in pairs)
        assert max(out.values(), default=0) <= max_degree
        if p.cardinality in ("1-1", "n-1"):
            assert max(out.values(), default=0) <= 1, p.name
        if p.cardinality in ("1-1", "1-n"):
            assert max(into.values(), default=0) <= 1, p.name
        if p.symmetric:
            assert {(o, s) for s, o in pairs} == set(pairs), p.name
        if p.acyclic:
            assert nx.is_directed_acyclic_graph(nx.DiGraph(pairs)), p.name
        if p.target_facet:
            facets = schema.types[schema.type_index(p.target or "")].facets
            assert all(facets[int(world.facet_of[o])] == p.target_facet for o in into), p.name
        if p.within:
            inside = set(edges(world, schema.properties[schema.property_index(p.within)]))
            own: dict[int, list[int]] = {s: [s] for s, _ in pairs}
            if p.of:
                own = {s: [] for s, _ in pairs}
                for s, o in edges(world, schema.properties[schema.property_index(p.of)]):
                    own.setdefault(s, []).append(o)
            assert all(any((o, g) in inside for g in own[s]) for s, o in pairs), p.name
    assert len(set(world.titles)) == world.n_entities


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**9), st.integers(2, 120), st.sampled_from([1, 3, 12]),
    st.floats(0, 3), st.sampled_from([0.0, 1.0]),
)  # fmt: skip
def test_every_rule_holds_in_small_worlds(
    seed: int, n: int, cap: int, zipf: float, popularity: float
) -> None:
    world = generate(SMALL, entities=n, seed=seed, max_degree=cap, zipf=zipf, popularity=popularity)
    assert world.n_entities == n
    check_world(world, cap)


@pytest.mark.parametrize("name", shipped_worlds())
@pytest.mark.parametrize("seed", [0, 7])
def test_every_rule_holds_in_shipped_worlds(name: str, seed: int) -> None:
    world = world_from_card(name, entities=1200, seed=seed)
    check_world(world, 12)
    for p in world.schema.properties:
        assert edges(world, p), f"{p.name} never occurs"


def test_ordered_values_follow_the_hierarchy() -> None:
    world = generate(SMALL, entities=500, seed=2)
    born = dict(edges(world, SMALL.properties[SMALL.property_index("born")]))
    pairs = edges(world, SMALL.properties[SMALL.property_index("father")])
    assert len(pairs) > 100
    assert all(born[s] > born[o] for s, o in pairs)
    died = edges(world, SMALL.properties[SMALL.property_index("died")])
    assert died
    assert all(born[s] < day for s, day in died)


def test_out_degrees_have_a_zipf_like_tail() -> None:
    world = generate(DEFAULT, entities=12_000, seed=1)
    pairs = edges(world, DEFAULT.properties[DEFAULT.property_index("cast")])
    degrees = Counter(Counter(s for s, _ in pairs).values())
    total = sum(degrees.values())
    mass = np.arange(1, 13) ** -1.5
    expected = mass / mass.sum()
    for d in (1, 2, 3, 4, 8, 12):
        share, want = degrees[d] / total, expected[d - 1]
        assert abs(share - want) < 4 * (want / total) ** 0.5 + 0.004, (d, share, want)


def test_popularity_skews_targets() -> None:
    def top_share(popularity: float) -> float:
        world = generate(DEFAULT, entities=5000, seed=1, popularity=popularity)
        pairs = edges(world, DEFAULT.properties[DEFAULT.property_index("birthplace")])
        counts = sorted(Counter(o for _, o in pairs).values(), reverse=True)
        return sum(counts[:10]) / len(pairs)

    assert top_share(0.0) < 0.06
    assert top_share(1.0) > 0.3


def columns(world: World) -> list[Any]:
    return [
        world.type_of.tolist(), world.subject_of.tolist(), world.property_of.tolist(),
        world.object_of.tolist(), world.facet_of.tolist(),
    ]  # fmt: skip


def test_named_streams_are_independent() -> None:
    base = generate(DEFAULT, entities=400, seed=5)
    renamed = generate(DEFAULT, entities=400, seed=5, names_seed=6)
    assert columns(renamed) == columns(base)
    assert sum(a == b for a, b in zip(renamed.names, base.names, strict=True)) < 4
    rewired = generate(DEFAULT, entities=400, seed=5, graph_seed=6)
    assert columns(rewired) != columns(base)
    revalued = generate(DEFAULT, entities=400, seed=5, values_seed=6)
    relations = [p for p in DEFAULT.properties if p.is_relation]
    assert all(edges(revalued, p) == edges(base, p) for p in relations)
    assert revalued.names == base.names
    assert columns(revalued) != columns(base)


def test_digest_tells_worlds_apart() -> None:
    base = world_digest(generate(SMALL, entities=40, seed=1))
    assert base == world_digest(generate(SMALL, entities=40, seed=1))
    assert base != world_digest(generate(SMALL, entities=40, seed=1, names_seed=2))
    assert base != world_digest(generate(SMALL, entities=40, seed=1, values_seed=2))
    assert base != world_digest(generate(SMALL, entities=40, seed=1, graph_seed=2))


def test_tiny_worlds_work_or_say_what_to_change() -> None:
    for n in range(2, 12):
        check_world(generate(SMALL, entities=n, seed=n), 12)
    world = generate(DEFAULT, entities=16, seed=0)
    check_world(world, 12)
    with pytest.raises(WorldError, match="ask for at least 16"):
        generate(DEFAULT, entities=8)
    with pytest.raises(WorldError, match="max_degree >= 1"):
        generate(SMALL, max_degree=0)
    with pytest.raises(WorldError, match="lookalikes"):
        generate(SMALL, lookalikes=2.0)
    with pytest.raises(WorldError, match="homonyms"):
        generate(SMALL, homonyms=-1.0)


def test_lookalikes_share_all_but_one_property_and_change_no_fact() -> None:
    base = generate(DEFAULT, entities=600, seed=4)
    world = generate(DEFAULT, entities=600, seed=4, lookalikes=0.2)
    check_world(world, 12)
    n = base.n_entities
    assert 100 < world.n_entities - n <= 120
    assert world.n_facts > base.n_facts
    for old, new in zip(columns(base), columns(world), strict=True):
        assert new[: len(old)] == old

    def groups(e: int) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for f in world.facts_of(e):
            p = world.prop(f)
            if p.cardinality in ("n-1", "n-n") and not p.symmetric:
                found[f.property] = (*found.get(f.property, ()), f.object)
        return found

    for twin in range(n, world.n_entities):
        mine = groups(twin)
        peers = [e for e in range(n) if world.type_of[e] == world.type_of[twin]]
        differing = min(
            sum(mine.get(p) != objects for p, objects in groups(e).items())
            for e in peers
            if groups(e).keys() == mine.keys()
        )
        assert differing == 1
