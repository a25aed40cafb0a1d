from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from searchgym.errors import WorldError
from searchgym.worlds.loader import load_schema, schema_to_dict, shipped_worlds

from .schemas import small


def test_default_schema_is_as_rich_as_promised() -> None:
    schema = load_schema("encyclopedia")
    relations = [p for p in schema.properties if p.is_relation]
    attributes = [p for p in schema.properties if not p.is_relation]
    assert len(schema.types) >= 12
    assert len(relations) >= 32
    assert len(attributes) >= 10
    assert {p.cardinality for p in relations} == {"1-1", "n-1", "1-n", "n-n"}
    assert {p.value for p in attributes} == {"date", "year", "count", "category"}


@pytest.mark.parametrize("name", shipped_worlds())
def test_shipped_phrasings_are_many_and_disjoint(name: str) -> None:
    schema = load_schema(name)
    for p in schema.properties:
        for phrases in (p.document, p.question):
            assert len(phrases.train) >= 6, p.name
            assert phrases.heldout, p.name
        for phrases in (p.document, p.question, p.noun, p.inverse):
            train = {t.lower() for t in phrases.train}
            assert len(train) == len(phrases.train)
            assert not train & {t.lower() for t in phrases.heldout}, p.name
        if p.is_relation:
            assert p.inverse.train, p.name
            assert p.inverse.heldout, p.name


@pytest.mark.parametrize("name", shipped_worlds())
def test_schema_survives_its_own_mapping(name: str) -> None:
    schema = load_schema(name)
    assert load_schema(schema_to_dict(schema)) == schema


def test_toml_file_and_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    for text in (b"name = 'x'\n[types.a\n", b"name = '\xff'\n"):
        path.write_bytes(text)
        with pytest.raises(WorldError, match=r"schema\.toml: not valid TOML"):
            load_schema(path)
    with pytest.raises(WorldError, match="Did you mean 'encyclopedia'"):
        load_schema("encyclopaedia")
    with pytest.raises(WorldError, match="no schema at"):
        load_schema(tmp_path / "missing.toml")


def test_a_file_states_what_it_changes_of_a_shipped_world(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(
        'extends = "research"\nname = "mine"\n[relations.advisor]\ngap = 0.1\n', encoding="utf-8"
    )
    base, mine = schema_to_dict(load_schema("research")), schema_to_dict(load_schema(path))
    assert mine["name"] == "mine"
    assert mine["relations"]["advisor"].pop("gap") == 0.1
    assert base["relations"]["advisor"].pop("gap") == 0.05
    assert {**mine, "name": "research"} == base
    path.write_text('extends = "reserch"\n', encoding="utf-8")
    with pytest.raises(WorldError, match=r"extends: unknown world 'reserch'.*'research'"):
        load_schema(path)


def test_like_borrows_a_kind_of_wording_as_a_whole() -> None:
    data = small()
    home = data["relations"]["home"]
    data["relations"]["office"] = {
        "source": "person", "target": "town", "cardinality": "n-1", "like": "home",
        "noun": ["the office of {s}"], "noun_heldout": ["{s}'s office"],
    }  # fmt: skip
    schema = load_schema(data)
    office = schema.properties[schema.property_index("office")]
    assert office.document.train == tuple(home["document"])
    assert office.noun.heldout == ("{s}'s office",)


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    *keys, last, value = path

    def change(data: dict[str, Any]) -> None:
        for key in keys:
            data = data[key]
        data[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("relations", "home", "targte", "town"), "Did you mean 'target'"),
        (_set("relations", "home", "target", "twon"), "unknown type 'twon'.*Did you mean 'town'"),
        (_set("relations", "home", "source", "persn"), "unknown type 'persn'.*'person'"),
        (_set("relations", "home", "cardinality", "1-m"), "unknown cardinality '1-m'"),
        (_set("relations", "home", "document", ["{s} is at {o}."]), "1 train .* at least 6"),
        (_set("relations", "home", "question_heldout", []), "7|6 train \\+ 0 held-out"),
        (_set("relations", "home", "question_heldout", ["what does {s} KNOWS (1)?"]), "disjoint"),
        (_set("relations", "home", "noun_heldout", ["what {s}  knowss"]), "disjoint"),
        (_set("relations", "home", "acyclic", True), "acyclic needs source and target of one type"),
        (_set("relations", "married", "cardinality", "n-1"), "symmetric relation is 1-1 or n-n"),
        (_set("relations", "home", "symmetric", True), "symmetric needs source and target"),
        (_set("relations", "friend", "acyclic", True), "exclude each other"),
        (_set("relations", "father", "target_facet", "man"), "unknown facet 'man'"),
        (_set("relations", "hero", "within", "mayor"), "must lead from person to town"),
        (_set("relations", "hero", "within", "homme"), "Did you mean 'home'"),
        (_set("relations", "home", "presence", 0.0), r"presence must be in \(0, 1\]"),
        (_set("relations", "home", "presence", "often"), "presence must be a number, got 'often'"),
        (_set("relations", "home", "like", "hom"), "Did you mean 'home'"),
        (_set("attributes", "born", "high", 1800), "low < high"),
        (_set("attributes", "born", "value", "day"), "unknown value 'day'"),
        (_set("attributes", "died", "after", "size"), "must be a date of the same type"),
        (_set("attributes", "kind", "categories", ["port"]), "at least two different"),
        (_set("attributes", "born", "more", "younger"), "older\\|oldest"),
        (_set("attributes", "home", {"source": "person"}), "both a relation and an attribute"),
        (_set("types", "town", "share", 0), "share must be above 0"),
        (_set("types", "town", "names", "citty"), "unknown name grammar 'citty'.*'city'"),
        (_set("types", "town", "names", "{plaace} Hill"), "Did you mean 'place'"),
        (_set("types", "town", "names", "The {adj} {noun}"), "needs an invented word"),
        (_set("types", "town", "lead", ["A town is {s}."]), "must begin with"),
        (_set("types", "town", "lead", ["{s} is led by {mayor}."]), "every town has"),
        (_set("types", "town", "lead", ["{s} has {sise}."]), "Did you mean 'size'"),
        (_set("types", "person", "pronouns", ["he"]), "'it/its'"),
        (_set("types", "person", "alias", "aka"), "'full' or contain"),
        (_set("distractors", ["{s} met {o}."]), "unknown slot 'o'"),
        (_set("realtions", {}), "Did you mean 'relations'"),
        (_set("types", {}), "no types"),
        (_set("relations", "home", "fits", ["size: born"]), "'birth_date: film_year -80..-20'"),
        (_set("relations", "home", "fits", ["born: born 0..9"]), "attribute of town 'born'"),
        (_set("relations", "home", "fits", ["size: born 0..9"]), "compares a number with a year"),
        (_set("relations", "mayor", "fits", ["born: now -80..-30"]), "needs the year `now`"),
        (_set("relations", "taught", "fits", ["born: born 0..30"]), "keep an acyclic relation's"),
        (_set("relations", "married", "fits", ["born: born 3.."]), "a symmetric relation's first"),
        (_set("relations", "hero", "of", "home"), "of: unknown relation of town 'home'"),
        (_set("relations", "home", "follows", "father/hom"), "unknown relation of person 'hom'"),
        (_set("relations", "likes", "follows", "father/home"), "in an n-1 relation"),
        (_set("relations", "mayor", "lacks", "hero"), "lacks: unknown relation of person 'hero'"),
        (_set("relations", "father", "apart", "hero"), "apart: unknown relation of person 'hero'"),
        (_set("relations", "married", "across", True), "across goes with symmetric and fits"),
        (_set("relations", "married", "near", 3), "near goes with a symmetric n-n relation"),
        (
            _set("relations", "likes", "along", "friend"),
            "along: needs a symmetric relation of town",
        ),
        (_set("attributes", "died", "elder", 96), "needs the year `now` of the schema"),
        (_set("now", "soon"), "now must be a whole number, got 'soon'"),
        (_set("now", 10**30), "now is a year from 1000 to 9000"),
        (_set("types", "town", "share", float("inf")), "at most a million"),
        (_set("attributes", "size", "high", 10**30), "numbers end at 10"),
    ],
)
def test_bad_schemas_say_what_is_wrong(
    change: Callable[[dict[str, Any]], None], message: str
) -> None:
    data = small()
    change(data)
    with pytest.raises(WorldError, match=message) as caught:
        load_schema(data)
    assert "\n" not in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    data = small()
    wrong: list[tuple[tuple[Any, ...], str]] = [
        (("relations", "home", "targte", "town"), "relations.home: unknown key 'targte'"),
        (("relations", "home", "noun_heldout", []), "home: noun: needs phrases in both noun and"),
        (("relations", "home", "document", ["{s} is at {o}."]), "home: document: 1 train +"),
        (("relations", "likes", "target", "twon"), "likes: unknown type 'twon'"),
        (("relations", "married", "presence", "often"), "presence must be a number, got 'often'"),
        (("attributes", "size", {}), "attributes.size: missing 'source'"),
        (("attributes", "kind", "categories", ["port"]), "kind: categories must be at least two"),
        (
            ("types", "person", "names", "citty"),
            "types.person: names: unknown name grammar 'citty'",
        ),
        (("types", "town", "lead", ["A town is {s}."]), "types.town: lead: must begin with {s}"),
        (("distractors", ["{s} met {o}."]), "distractors: unknown slot 'o'"),
    ]
    for change, _ in wrong:
        _set(*change)(data)
    with pytest.raises(WorldError) as caught:
        load_schema(data)
    told = str(caught.value)
    assert [line for _, line in wrong if line not in told] == []
    assert told.startswith("small: ")
    assert "mistakes: (1) " in told


def test_the_small_schema_itself_is_good() -> None:
    assert len(load_schema(small()).properties) == 15
