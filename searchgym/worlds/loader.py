"""Reading a schema from TOML or a mapping, with one clear error for whatever is wrong with it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ..cards import catalog
from ..errors import WorldError, unknown
from ..objects import bare_hint, is_path
from .checks import check_schema
from .schema import Cardinality, EntityType, Phrases, Property, Rule, Schema, ValueKind

_TOP = ("name", "types", "relations", "attributes", "rules", "distractors", "distractors_heldout")
_TYPE = {
    "noun": str, "plural": str, "share": float, "names": str, "lead": list, "lead_heldout": list,
    "hub": bool, "facets": list, "pronouns": list, "reference": str, "alias": str,
}  # fmt: skip
_WORDING = ("document", "question", "noun", "inverse")
_BOTH = {
    "source": str, "like": str, "presence": float, "ordered": bool,
    **dict.fromkeys(_WORDING, list), **{f"{k}_heldout": list for k in _WORDING},
}  # fmt: skip
_RELATION = _BOTH | {
    "target": str, "cardinality": str, "acyclic": bool, "symmetric": bool, "target_facet": str,
    "gap": float, "within": str,
}  # fmt: skip
_ATTRIBUTE = _BOTH | {
    "value": str, "low": int, "high": int, "unit": str, "categories": list, "more": str,
    "less": str, "after": str, "latest": int,
}  # fmt: skip
_ASKED = ("question", "noun", "inverse")
_RULE = {
    "path": str, "least": str, "most": str,
    **dict.fromkeys((*_ASKED, *(f"{k}_heldout" for k in _ASKED)), list),
}  # fmt: skip
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

    Raises ``WorldError`` naming the first thing that is wrong: a misspelt key or type, too few or
    overlapping phrasings, a relation that no world could satisfy.
    """
    if isinstance(source, Mapping):
        return _build(source, str(source.get("name", "schema")))
    path = schema_path(source)
    return _of_file(str(path), path.read_bytes())


@lru_cache(maxsize=8)  # a training asks for the same schema with every world
def _of_file(where: str, content: bytes) -> Schema:
    try:
        data = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # no TOML, or no UTF-8
        raise WorldError(f"{where}: not valid TOML: {error}") from None
    return _build(data, where)


def schema_to_dict(schema: Schema) -> dict[str, Any]:
    """The mapping ``load_schema`` reads back into an equal schema (JSON and TOML types only)."""
    types: dict[str, Any] = {}
    for t in schema.types:
        types[t.name] = {
            "noun": t.noun, "plural": t.plural, "share": t.share, "names": t.names, "hub": t.hub,
            "lead": list(t.lead.train), "lead_heldout": list(t.lead.heldout),
            "facets": list(t.facets), "pronouns": list(t.pronouns), "reference": t.reference,
            "alias": t.alias,
        }  # fmt: skip
    tables: dict[str, dict[str, Any]] = {"relations": {}, "attributes": {}}
    for p in schema.properties:
        keys = _RELATION if p.is_relation else _ATTRIBUTE
        row: dict[str, Any] = {}
        for key in keys:
            if key == "like":
                continue
            if key.removesuffix("_heldout") in _WORDING:
                side = "heldout" if key.endswith("_heldout") else "train"
                row[key] = list(getattr(getattr(p, key.removesuffix("_heldout")), side))
            else:
                value = getattr(p, key)
                row[key] = list(value) if isinstance(value, tuple) else value
        tables["relations" if p.is_relation else "attributes"][p.name] = row
    made: dict[str, Any] = {
        "name": schema.name,
        "types": types,
        **tables,
        "distractors": list(schema.distractors.train),
        "distractors_heldout": list(schema.distractors.heldout),
    }
    if schema.rules:
        made["rules"] = {rule.name: _rule_row(rule) for rule in schema.rules}
    return made


def _rule_row(rule: Rule) -> dict[str, Any]:
    row: dict[str, Any] = {"path": rule.path, "least": rule.least, "most": rule.most}
    for kind in _ASKED:
        row |= {kind: list(getattr(rule, kind).train)}
        row |= {f"{kind}_heldout": list(getattr(rule, kind).heldout)}
    return row


def _build(data: Mapping[str, Any], where: str) -> Schema:
    _known(data, _TOP, where, "key")
    types = tuple(
        _type(name, _table(row, f"{where}: types.{name}"), f"{where}: types.{name}")
        for name, row in _table(data.get("types", {}), f"{where}: types").items()
    )
    relations = _table(data.get("relations", {}), f"{where}: relations")
    attributes = _table(data.get("attributes", {}), f"{where}: attributes")
    rows: dict[str, Mapping[str, Any]] = {}
    for kind, table in (("relations", relations), ("attributes", attributes)):
        for name, row in table.items():
            if name in rows:
                raise WorldError(
                    f"{where}: {name!r} is both a relation and an attribute; rename one"
                )
            rows[name] = _table(row, f"{where}: {kind}.{name}")
    properties = []
    for name, row in rows.items():
        kind = "relations" if name in relations else "attributes"
        here = f"{where}: {kind}.{name}"
        _keys(row, _RELATION if kind == "relations" else _ATTRIBUTE, here)
        properties.append(_property(name, row, rows, kind == "relations", here))
    name = str(data.get("name", Path(where).parent.name or "schema"))
    rules = tuple(
        _rule(name, _table(row, f"{where}: rules.{name}"), f"{where}: rules.{name}")
        for name, row in _table(data.get("rules", {}), f"{where}: rules").items()
    )
    schema = Schema(name, types, tuple(properties), _phrases(data, "distractors"), rules)
    check_schema(schema, where)
    if rules and not Path(where).is_relative_to(catalog("corpora")):
        # Those of shipped worlds are checked by the tests, and again where a task uses them.
        from .checks import check_rules

        check_rules(schema, where)
    return schema


def _rule(name: str, row: Mapping[str, Any], where: str) -> Rule:
    _keys(row, _RULE, where)
    if "path" not in row:
        raise WorldError(f"{where}: missing 'path'")
    asked = {kind: _phrases(row, kind) for kind in _ASKED}
    least, most = str(row.get("least", "")), str(row.get("most", ""))
    return Rule(name, str(row["path"]), **asked, least=least, most=most)


def _type(name: str, row: Mapping[str, Any], where: str) -> EntityType:
    _keys(row, _TYPE, where)
    for key in ("share", "names", "lead"):
        if key not in row:
            raise WorldError(f"{where}: missing {key!r}")
    noun = str(row.get("noun", name.replace("_", " ")))
    facets = _texts(row, "facets")
    return EntityType(
        name=name,
        noun=noun,
        plural=str(row.get("plural", noun + "s")),
        share=float(row["share"]),
        names=str(row["names"]),
        lead=_phrases(row, "lead"),
        hub=bool(row.get("hub", False)),
        facets=facets,
        pronouns=_texts(row, "pronouns") or ("it/its",),
        reference=str(row.get("reference", f"the {noun}")),
        alias=str(row.get("alias", "")),
    )


def _property(
    name: str,
    row: Mapping[str, Any],
    rows: Mapping[str, Mapping[str, Any]],
    relation: bool,
    where: str,
) -> Property:
    merged = dict(row)
    if "like" in row:
        if row["like"] not in rows:
            raise WorldError(f"{where}: like: {unknown('property', str(row['like']), rows)}")
        like = rows[row["like"]]
        if "like" in like:
            raise WorldError(f"{where}: like: {row['like']!r} itself borrows its wording; copy it")
        for kind in _WORDING:
            # Wording is borrowed per kind, both sides at once, so train and held-out stay a pair.
            if kind not in row and f"{kind}_heldout" not in row:
                merged |= {k: like[k] for k in (kind, f"{kind}_heldout") if k in like}
    needed = ("source", "target", "cardinality") if relation else ("source", "value")
    for key in needed:
        if key not in merged:
            raise WorldError(f"{where}: missing {key!r}")
    return Property(
        name=name,
        source=merged["source"],
        target=merged["target"] if relation else None,
        cardinality=cast(Cardinality, merged.get("cardinality", "n-1")),
        **{kind: _phrases(merged, kind) for kind in _WORDING},
        acyclic=bool(merged.get("acyclic", False)),
        symmetric=bool(merged.get("symmetric", False)),
        presence=float(merged.get("presence", 1.0)),
        value=None if relation else cast(ValueKind, merged["value"]),
        low=int(merged.get("low", 0)),
        high=int(merged.get("high", 0)),
        unit=str(merged.get("unit", "")),
        categories=_texts(merged, "categories"),
        more=str(merged.get("more", "")),
        less=str(merged.get("less", "")),
        target_facet=str(merged.get("target_facet", "")),
        gap=float(merged.get("gap", 0.0)),
        ordered=bool(merged.get("ordered", False)),
        after=str(merged.get("after", "")),
        latest=int(merged.get("latest", 0)),
        within=str(merged.get("within", "")),
    )


def _texts(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(cast(Sequence[str], row.get(key, ())))


def _phrases(row: Mapping[str, Any], key: str) -> Phrases:
    return Phrases(_texts(row, key), _texts(row, f"{key}_heldout"))


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise WorldError(f"{where}: expected a table, got {type(value).__name__}")
    return value


def _known(row: Mapping[str, Any], allowed: Iterable[str], where: str, kind: str) -> None:
    names = tuple(allowed)
    for key in row:
        if key not in names:
            raise WorldError(f"{where}: {unknown(kind, str(key), names)}")


def _keys(row: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> None:
    _known(row, kinds, where, "key")
    for key, value in row.items():
        kind = kinds[key]
        fits = isinstance(value, (int, float) if kind is float else kind)
        if kind in (int, float) and isinstance(value, bool):
            fits = False
        if kind is list:
            fits = isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)
        if not fits:
            raise WorldError(f"{where}: {key} must be {_KINDS[kind]}, got {value!r}")
