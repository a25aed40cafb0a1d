"""Rules: what follows is what a reading of the definitions by plain loops finds, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.errors import WorldError
from searchgym.worlds.checks import check_rules
from searchgym.worlds.export import world_digest
from searchgym.worlds.generate import generate
from searchgym.worlds.loader import load_schema, schema_to_dict, shipped_worlds
from searchgym.worlds.rules import RelationStep, parse_path, with_rules
from searchgym.worlds.rules import derived as derived_of
from searchgym.worlds.world import World

from .schemas import small

ASKED = {
    "question": [f"What is {{s}}'s ({k})?" for k in range(6)],
    "question_heldout": ["Whose is {s}?"],
    "noun": ["the one of {s}"],
    "noun_heldout": ["that of {s}"],
}
RULES = {
    "grandfather": {"path": "father/father", **ASKED},
    "sibling": {"path": "father/^father", **ASKED},
    "kin": {"path": "father|sibling|^taught", **ASKED},
    "uncle": {"path": "father/sibling", **ASKED},
    "eldest_child": {"path": "^father", "least": "born", **ASKED},
    "latest_dead_friend": {"path": "friend", "most": "died", **ASKED},
    "home_of_mayor": {"path": "mayor/home", **ASKED},
}


def ruled(entities: int, seed: int) -> World:
    return generate(load_schema({**small(), "rules": RULES}), entities=entities, seed=seed)


def brute(world: World, name: str) -> set[tuple[int, int]]:
    """Pairs of a relation or rule, read off the facts one by one."""
    rules = {rule.name: rule for rule in world.schema.rules}
    if name not in rules:
        prop = world.schema.property_index(name)
        rows = zip(world.subject_of, world.property_of, world.object_of, strict=True)
        return {(int(s), int(o)) for s, p, o in rows if p == prop}
    rule, pairs = rules[name], set()
    for path in parse_path(rule.path):
        ways = {(e, e) for e in range(world.n_entities)}
        for step in path:
            found = brute(world, step.name)
            found = {(b, a) for a, b in found} if step.inverse else found
            ways = {(a, d) for a, b in ways for c, d in found if b == c}
        pairs |= ways
    pairs = {(a, b) for a, b in pairs if a != b}
    if not (rule.least or rule.most):
        return pairs
    value = dict(brute(world, rule.least or rule.most))
    best = set()
    for start in {a for a, _ in pairs}:
        ends = {b for a, b in pairs if a == start}
        if len(ends) > 1 and all(e in value for e in ends):
            edge = (min if rule.least else max)(value[e] for e in ends)
            best |= {(start, e) for e in ends if value[e] == edge}
    return best


@settings(max_examples=15, deadline=None)
@given(st.integers(20, 70), st.integers(0, 10_000))
def test_what_follows_is_what_plain_loops_find(entities: int, seed: int) -> None:
    world = ruled(entities, seed)
    derived = derived_of(world)
    assert derived_of(derived) is derived
    assert derived.stated == world.n_facts
    for name in RULES:
        prop = derived.schema.property_index(name)
        rows = np.flatnonzero(derived.property_of == prop)
        found = [(int(derived.subject_of[r]), int(derived.object_of[r])) for r in rows]
        assert len(set(found)) == len(found)
        assert set(found) == brute(world, name), name


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_the_parts_alone_imply_the_fact(seed: int) -> None:
    world = ruled(50, seed)
    derived = derived_of(world)
    for fact in range(derived.stated, derived.n_facts, 7):
        parts = derived.parts(fact)
        assert parts
        assert all(part < world.n_facts for part in parts)
        keep = np.sort(np.array(parts))
        alone = replace(
            world,
            subject_of=world.subject_of[keep],
            property_of=world.property_of[keep],
            object_of=world.object_of[keep],
        )
        row = derived.fact(fact)
        assert (row.subject, row.object) in brute(alone, derived.prop(row).name)


def test_facts_by_entity_hold_the_implied_ones() -> None:
    world = derived_of(ruled(60, 3))
    listed = [f for e in range(world.n_entities) for f in world.facts_of(e)]
    assert sorted(f.id for f in listed) == list(range(world.n_facts))
    about = [f for e in range(world.n_entities) for f in world.facts_about(e)]
    assert sorted(f.id for f in about if f.id >= world.stated) == list(
        range(world.stated, world.n_facts)
    )
    for e in range(world.n_entities):
        assert world.facts_of(e) == sorted(world.facts_of(e), key=lambda f: (f.property, f.object))


def test_paths_are_read_as_sparql_has_them() -> None:
    assert parse_path("a/^b | ^c") == (
        (RelationStep("a", False), RelationStep("b", True)),
        (RelationStep("c", True),),
    )
    for wrong in ("", "a//b", "a|", "^", "^^a"):
        with pytest.raises(ValueError, match="expected steps"):
            parse_path(wrong)


def test_cardinality_and_symmetry_follow_from_the_path() -> None:
    schema = with_rules(load_schema({**small(), "rules": RULES}))
    kinds = {p.name: (p.source, p.target, p.cardinality, p.symmetric) for p in schema.properties}
    assert kinds["grandfather"] == ("person", "person", "n-1", False)
    assert kinds["sibling"] == ("person", "person", "n-n", True)
    assert kinds["eldest_child"] == ("person", "person", "n-1", False)
    assert kinds["home_of_mayor"] == ("town", "town", "n-1", False)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"path": "fathr/father"}, "did you mean 'father'"),
        ({"path": "home/father"}, "leads to a town and goes on from a person"),
        ({"path": "father|home"}, "join different types"),
        ({"path": "later"}, "unknown relation 'later'"),
        ({"path": "father/"}, "expected steps"),
        ({"path": "father", "least": "born"}, "has one end"),
        ({"path": "^father", "least": "size"}, "attribute of a person"),
        ({"path": "^father", "least": "born", "most": "born"}, "not both"),
        ({"path": "^father", "least": "born", "inverse": ["the {o}"]}, "forward only"),
        ({"path": "father", "question": ["{s}?"]}, "at least 6 in all"),
        ({"path": "father", "noun": []}, "noun"),
        ({"path": "father", "document": ["{s} {o}."]}, "unknown key 'document'"),
        ({"least": "born"}, "missing 'path'"),
    ],
)
def test_a_broken_rule_says_what_is_wrong(changed: dict[str, object], told: str) -> None:
    row = {**ASKED, **changed}
    with pytest.raises(WorldError, match=r"rules\.mine") as caught:
        load_schema({**small(), "rules": {"mine": row}})
    assert told.lower() in str(caught.value).lower()


def test_a_rule_cannot_bear_the_name_of_a_relation() -> None:
    with pytest.raises(WorldError, match="rename one"):
        load_schema({**small(), "rules": {"home": {"path": "father", **ASKED}}})


def test_too_many_walks_are_refused() -> None:
    rules = {"townsfolk": {"path": "home/^home", **ASKED}}
    schema = load_schema({**small(), "rules": rules})
    with pytest.raises(WorldError, match="relations that fewer things share"):
        derived_of(generate(schema, entities=3000, seed=0, popularity=2.0))


def test_rules_change_no_world_and_no_digest() -> None:
    plain = generate(load_schema(small()), entities=50, seed=1)
    assert world_digest(ruled(50, 1)) == world_digest(plain)


@pytest.mark.parametrize("name", shipped_worlds())
def test_shipped_rules_follow_and_are_read_back(name: str) -> None:
    schema = load_schema(name)
    assert load_schema(schema_to_dict(schema)) == schema
    world = derived_of(generate(schema, entities=1200, seed=5))
    counts = np.bincount(world.property_of, minlength=len(world.schema.properties))
    assert len(schema.rules) >= 5
    assert all(counts[len(schema.properties) :] > 0)


@pytest.mark.parametrize("name", shipped_worlds())
def test_the_rules_of_shipped_worlds_can_be_used(name: str) -> None:
    check_rules(load_schema(name), name)
