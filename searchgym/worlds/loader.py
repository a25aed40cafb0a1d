"""Reading a schema from TOML or a mapping, with one error that names all that is wrong with it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..cards import catalog
from ..errors import WorldError, unknown
from ..objects import bare_hint, is_path
from .checks import check_rules, check_schema
from .schema import EntityType, Phrases, Property, Prose, Rule, Schema

_TOP = (
    "extends", "name", "now", "types", "relations", "attributes", "rules", "distractors",
    "distractors_heldout",
    "prose",
)  # fmt: skip
_TYPE = {
    "noun": str, "plural": str, "share": float, "names": str, "lead": list, "lead_heldout": list,
    "hub": bool, "facets": list, "pronouns": list, "reference": str, "alias": str,
}  # fmt: skip
_JOINED = ("aside", "tail")
_WORDING = ("document", "question", "noun", "inverse", *_JOINED)
_BOTH = {
    "source": str, "like": str, "presence": float, "ordered": bool,
    **dict.fromkeys(_WORDING, list), **{f"{k}_heldout": list for k in _WORDING},
}  # fmt: skip
_RELATION = _BOTH | {
    "target": str, "cardinality": str, "acyclic": bool, "symmetric": bool, "target_facet": str,
    "gap": float, "within": str, "of": str, "fits": list, "follows": str, "stray": float,
    "lacks": str, "apart": str, "across": bool, "near": int, "along": str, "per": str,
}  # fmt: skip
_ATTRIBUTE = _BOTH | {
    "value": str, "low": int, "high": int, "unit": str, "categories": list, "more": str,
    "less": str, "after": str, "latest": int, "elder": int,
}  # fmt: skip
_FITTING = (
    "of", "fits", "follows", "stray", "lacks", "apart", "across", "near", "along", "per", "elder",
)  # fmt: skip
_ASKED = ("question", "noun", "inverse")
_RULE = {
    "path": str, "least": str, "most": str,
    **dict.fromkeys((*_ASKED, *(f"{k}_heldout" for k in _ASKED)), list),
}  # fmt: skip
_NOW: dict[str, type] = {"now": int}
_ASIDE: dict[str, type] = {"distractors": list, "distractors_heldout": list}
_KINDS = {str: "text", float: "a number", int: "a whole number", bool: "true or false",
          list: "a list of texts"}  # fmt: skip


def shipped_worlds() -> tuple[str, ...]:
    """Ids of the generated worlds in the catalogue, sorted."""
    return tuple(sorted(p.parent.name for p in catalog("corpora").glob("*/schema.toml")))


def schema_path(source: str | Path) -> Path:
    """The TOML file behind a shipped world's id, a folder or a path; ``WorldError`` if none."""
    if isinstance(source, str) and not is_path(source) and not source.endswith(".toml"):
        shipped = catalog("corpora") / source / "schema.toml"
        if shipped.is_file():
            return shipped
        raise WorldError(
            f"{unknown('world', source, shipped_worlds())}; or give a schema.toml"
            f"{bare_hint(source)}"
        )
    path = Path(source)
    if path.is_dir():
        path = path / "schema.toml"
    if path.is_file():
        return path
    shown = ", ".join(shipped_worlds())
    raise WorldError(f"no schema at {path}; give the path of a schema.toml or one of: {shown}")


def load_schema(source: str | Path | Mapping[str, Any]) -> Schema:
    """Load a schema from a TOML file, a mapping of the same shape, or a shipped world's id.

    A file may say ``extends = "encyclopedia"`` and state only what it changes of that world.

    Raises ``WorldError`` naming everything that is wrong: misspelt keys or types, too few or
    overlapping phrasings, a relation that no world could satisfy.
    """
    if isinstance(source, Mapping):
        return _build(source, str(source.get("name", "schema")))
    path = schema_path(source)
    return _of_file(str(path), *_contents(path))


def _contents(path: Path) -> tuple[bytes, bytes]:
    """Tables of a schema's file, and ``prose.toml`` beside it: further tables, its language."""
    beside = path.with_name("prose.toml")
    return path.read_bytes(), beside.read_bytes() if beside.is_file() else b""


@lru_cache(maxsize=8)  # a training asks for the same schema with every world
def _of_file(where: str, content: bytes, prose: bytes) -> Schema:
    return _build(_tables(where, content, prose), where)


def _tables(where: str, content: bytes, prose: bytes) -> Mapping[str, Any]:
    """The tables of a file and of its prose, laid over those of the shipped world that it
    ``extends``: a key of a table replaces the same key, and what is not there stays."""
    spoken = _toml(str(Path(where).with_name("prose.toml")), prose)
    data = _laid_over(_toml(where, content), _laid_over(_language(where, spoken), spoken))
    if (name := data.pop("extends", None)) is None:
        return data
    known = [world for world in shipped_worlds() if str(schema_path(world)) != where]
    if name not in known:
        raise WorldError(f"{where}: extends: {unknown('world', str(name), known)}")
    path = schema_path(name)
    return _laid_over(_tables(str(path), *_contents(path)), data)


def _language(where: str, spoken: dict[str, Any]) -> dict[str, Any]:
    """The prose grammar of the shipped world whose ``language`` a world speaks."""
    if (name := spoken.pop("language", None)) is None:
        return {}
    if name not in shipped_worlds():
        raise WorldError(f"{where}: language: {unknown('world', str(name), shipped_worlds())}")
    path = schema_path(name)
    return {"prose": _tables(str(path), *_contents(path)).get("prose", {})}


def _toml(where: str, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # no TOML, or no UTF-8
        raise WorldError(f"{where}: not valid TOML: {error}") from None


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**base, **{
        key: _laid_over(base[key], value)
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping) else value
        for key, value in changes.items()
    }}  # fmt: skip


def schema_to_dict(schema: Schema) -> dict[str, Any]:
    """The mapping ``load_schema`` reads back into an equal schema (JSON and TOML types only)."""
    made: dict[str, Any] = {
        "name": schema.name,
        "types": {t.name: _row(t, _TYPE) for t in schema.types},
        "relations": {p.name: _row(p, _RELATION) for p in schema.properties if p.is_relation},
        "attributes": {p.name: _row(p, _ATTRIBUTE) for p in schema.properties if not p.is_relation},
        "distractors": list(schema.distractors.train),
        "distractors_heldout": list(schema.distractors.heldout),
    }
    if schema.now:
        made["now"] = schema.now
    if schema.prose:
        made["prose"] = {
            key: list(lines)
            for name, phrases in schema.prose
            for key, lines in ((name, phrases.train), (f"{name}_heldout", phrases.heldout))
        }
    if schema.rules:
        made["rules"] = {rule.name: _row(rule, _RULE) for rule in schema.rules}
    return made


def _row(item: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key in kinds.keys() - {"like"}:
        value = getattr(item, key.removesuffix("_heldout"))
        if isinstance(value, Phrases):
            value = value.heldout if key.endswith("_heldout") else value.train
        if not value and key.removesuffix("_heldout") in (*_FITTING, *_JOINED):
            continue  # schemas without such keys are the mapping that they always were
        row[key] = list(value) if isinstance(value, tuple) else value
    return row


class _Rows:
    """Tables of a schema as they are read: what is wrong is noted, and what is left goes on, so
    that one reading tells all mistakes."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.found: list[str] = []
        self.incomplete: set[str] = set()
        """Types and properties that lack what they need."""

    def table(self, value: object, where: str) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        self.found.append(f"{where}: expected a table, got {type(value).__name__}")
        return {}

    def tables(self, data: Mapping[str, Any], kind: str) -> dict[str, Mapping[str, Any]]:
        here = f"{self.where}: {kind}"
        rows = self.table(data.get(kind, {}), here)
        return {name: self.table(row, f"{here}.{name}") for name, row in rows.items()}

    def sound(
        self, name: str, row: Mapping[str, Any], kinds: Mapping[str, type], needed: Sequence[str],
        where: str,
    ) -> Mapping[str, Any]:  # fmt: skip
        wrong = dict(_wrong(row, kinds, where))
        self.found += wrong.values()
        if lacking := [key for key in needed if key not in row]:
            self.found += [f"{where}: missing {key!r}" for key in lacking]
        if lacking or any(key in wrong for key in needed):
            self.incomplete.add(name)
        return {key: value for key, value in row.items() if key not in wrong}


def _build(data: Mapping[str, Any], where: str) -> Schema:
    read = _Rows(where)
    read.found += [f"{where}: {unknown('key', key, _TOP)}" for key in data if key not in _TOP]
    types = []
    for name, row in read.tables(data, "types").items():
        row = read.sound(name, row, _TYPE, ("share", "names", "lead"), f"{where}: types.{name}")
        types.append(_type(name, row))
    relations, attributes = read.tables(data, "relations"), read.tables(data, "attributes")
    for name in relations.keys() & attributes.keys():
        read.found.append(f"{where}: {name!r} is both a relation and an attribute; rename one")
    rows = {**attributes, **relations}
    properties = []
    for name in [*relations, *(name for name in attributes if name not in relations)]:
        relation = name in relations
        here = f"{where}: {'relations' if relation else 'attributes'}.{name}"
        kinds = _RELATION if relation else _ATTRIBUTE
        needed = ("source", "target", "cardinality") if relation else ("source", "value")
        row = read.sound(name, rows[name], kinds, needed, here)
        properties.append(_property(name, _with_wording(row, rows, here, read), relation))
    rules = []
    for name, row in read.tables(data, "rules").items():
        row = read.sound(name, row, _RULE, ("path",), f"{where}: rules.{name}")
        rules.append(_rule(name, row))
    name = str(data.get("name", Path(where).parent.name or "schema"))
    aside = read.sound("", {k: data[k] for k in _ASIDE if k in data}, _ASIDE, (), where)
    now = read.sound("", {k: data[k] for k in _NOW if k in data}, _NOW, (), where).get("now", 0)
    distractors = _phrases(aside, "distractors")
    prose = _prose(read, data)
    schema = Schema(name, tuple(types), tuple(properties), distractors, tuple(rules), now, prose)
    check_schema(schema, where, read.found, read.incomplete)
    if rules and not Path(where).is_relative_to(catalog("corpora")):
        # Those of shipped worlds are checked by the tests, and again where a task uses them.
        check_rules(schema, where)
    return schema


def _prose(read: _Rows, data: Mapping[str, Any]) -> Prose:
    here = f"{read.where}: prose"
    table = read.table(data.get("prose", {}), here)
    table = read.sound("", table, dict.fromkeys(table, list), (), here)
    symbols = dict.fromkeys(key.removesuffix("_heldout") for key in table)
    return tuple((symbol, _phrases(table, symbol)) for symbol in symbols)


def _plain(row: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    """The entries of a row that are no phrases, as a schema keeps them."""
    made: dict[str, Any] = {}
    for key, value in row.items():
        if key != "like" and key.removesuffix("_heldout") not in (*_WORDING, "lead"):
            kind = kinds[key]
            made[key] = tuple(value) if kind is list else float(value) if kind is float else value
    return made


def _rule(name: str, row: Mapping[str, Any]) -> Rule:
    made: dict[str, Any] = {kind: _phrases(row, kind) for kind in _ASKED}
    return Rule(name, **{"path": "", **made, **_plain(row, _RULE)})


def _type(name: str, row: Mapping[str, Any]) -> EntityType:
    noun = row.get("noun", name.replace("_", " "))
    made = {"noun": noun, "plural": f"{noun}s", "share": 1.0, "names": "",
            "reference": f"the {noun}", **_plain(row, _TYPE)}  # fmt: skip
    if not made.get("pronouns"):
        made["pronouns"] = ("it/its",)
    return EntityType(name, lead=_phrases(row, "lead"), **made)


def _with_wording(
    row: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], where: str, read: _Rows
) -> Mapping[str, Any]:
    """The row with the wording that it borrows from the property it is ``like``."""
    if "like" not in row:
        return row
    like = rows.get(row["like"])
    if like is None:
        read.found.append(f"{where}: like: {unknown('property', row['like'], rows)}")
        like = {}
    elif "like" in like:
        read.found.append(f"{where}: like: {row['like']!r} itself borrows its wording; copy it")
    merged = dict(row)
    for kind in _WORDING:
        # Wording is borrowed per kind, both sides at once, so train and held-out stay a pair.
        if kind not in row and f"{kind}_heldout" not in row:
            sides = (kind, f"{kind}_heldout")
            merged |= {k: like[k] for k in sides if not _misfit(k, like.get(k), list)}
    return merged


def _property(name: str, row: Mapping[str, Any], relation: bool) -> Property:
    made: dict[str, Any] = {"source": "", "target": None, "cardinality": "n-1"}
    made |= {"target": ""} if relation else {"value": "count"}
    made |= _plain(row, _RELATION if relation else _ATTRIBUTE)
    made |= {kind: _phrases(row, kind) for kind in _WORDING}
    return Property(name, **made)


def _phrases(row: Mapping[str, Any], key: str) -> Phrases:
    return Phrases(tuple(row.get(key, ())), tuple(row.get(f"{key}_heldout", ())))


def _wrong(
    row: Mapping[str, Any], kinds: Mapping[str, type], where: str
) -> Iterator[tuple[str, str]]:
    for key, value in row.items():
        if key not in kinds:
            yield key, f"{where}: {unknown('key', str(key), kinds)}"
        elif (misfit := _misfit(key, value, kinds[key])) is not None:
            yield key, f"{where}: {misfit}"


def _misfit(key: str, value: object, kind: type) -> str | None:
    fits = isinstance(value, (int, float) if kind is float else kind)
    if kind in (int, float) and isinstance(value, bool):
        fits = False
    if kind is list:
        fits = isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)
    return None if fits else f"{key} must be {_KINDS[kind]}, got {value!r}"
