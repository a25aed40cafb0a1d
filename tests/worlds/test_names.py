from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.errors import WorldError
from searchgym.text import normalise_answer
from searchgym.worlds.generate import generate
from searchgym.worlds.grammar import SHIPPED, check_grammar, parse_grammar, stop_names, stop_words
from searchgym.worlds.loader import load_schema, shipped_worlds
from searchgym.worlds.names import draw_titles, name_key

from .schemas import small

DEFAULT = load_schema("encyclopedia")
NAME = re.compile(r"[A-Z][A-Za-z'&,\- ]*[A-Za-z]")


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**12), st.sampled_from(shipped_worlds()))
def test_names_look_like_names_and_are_nobodys(seed: int, schema: str) -> None:
    world = generate(load_schema(schema), entities=500, seed=seed)
    forms = [*world.names, *(a for a in world.alias_of if a)]
    for form in forms:
        assert NAME.fullmatch(form), form
        assert normalise_answer(form) not in stop_names(), form
        assert name_key(form) == normalise_answer(form)
    keys = [normalise_answer(f) for f in forms]
    assert len(set(keys)) == len(keys)
    assert list(world.titles) == list(world.names)


def test_stop_list_is_substantial_and_names_no_person_part() -> None:
    assert len(stop_words()) > 900
    assert {"germany", "berlin", "michael", "smith", "toyota", "albert einstein"} <= stop_names()
    world = generate(DEFAULT, entities=6000, seed=9)
    people = world.entities_of(DEFAULT.type_index("person"))
    parts = {w.lower() for e in people.tolist() for w in re.split(r"[ -]", world.names[e])}
    assert len(parts) > 400
    assert not parts & stop_words()


def test_aliases_are_other_forms_of_the_same_words() -> None:
    world = generate(DEFAULT, entities=3000, seed=2)
    person, country = DEFAULT.type_index("person"), DEFAULT.type_index("country")
    full = [e for e in world.entities_of(person).tolist() if world.aliases(e)]
    assert len(full) > 150
    for e in full:
        first, _, last = world.alias_of[e].split()
        assert world.names[e] == f"{first} {last}"
    for e in world.entities_of(country).tolist():
        assert all(a.startswith(world.names[e]) for a in world.aliases(e))
    assert world.aliases(int(world.entities_of(country)[0]))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.3, 0.9]))
def test_homonyms_share_names_but_not_titles(seed: int, rate: float) -> None:
    world = generate(DEFAULT, entities=400, seed=seed, homonyms=rate)
    plain = generate(DEFAULT, entities=400, seed=seed)
    counts: dict[str, int] = {}
    for name in world.names:
        counts[name] = counts.get(name, 0) + 1
    shared = sum(c for c in counts.values() if c > 1)
    assert abs(shared - rate * 400) <= 24
    assert shared > 0
    assert len({normalise_answer(t) for t in world.titles}) == 400
    for title, name in zip(world.titles, world.names, strict=True):
        assert title == name if counts[name] == 1 else title.startswith(f"{name} (")
    assert all(
        counts[world.names[e]] == 1 for e in range(400) if DEFAULT.types[int(world.type_of[e])].hub
    )
    assert world.object_of.tolist() == plain.object_of.tolist()


def test_disambiguators_say_type_year_or_number() -> None:
    schema = load_schema(small())
    world = generate(schema, entities=60, seed=0)
    names = list(world.names)
    a, b = world.entities_of(0)[:2].tolist()
    c = int(world.entities_of(1)[0])
    names[b] = names[c] = names[a]
    columns = (world.subject_of, world.property_of, world.object_of)
    titles = draw_titles(schema, names, world.type_of, *columns)  # type: ignore[arg-type]
    assert re.fullmatch(re.escape(names[a]) + r" \(born \d{4}\)", titles[a])
    assert titles[c] == f"{names[a]} (town)"
    assert len(set(titles)) == 60


def test_grammars() -> None:
    for grammar in SHIPPED:
        check_grammar(grammar, "here")
    (pattern,) = parse_grammar("{family} & {=Sons,Co} => {family}")
    assert pattern.pieces == ("", " & ", "")
    assert pattern.slots == ("family", "=Sons,Co")
    assert pattern.alias_slots == ("family",)


def test_a_grammar_that_runs_out_says_so() -> None:
    data = small()
    data["types"]["town"]["names"] = "{given}"
    with pytest.raises(WorldError, match="ran out of different names"):
        generate(load_schema(data), entities=3000)
