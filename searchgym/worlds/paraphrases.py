"""Paraphrases of a schema's phrases, for training on generated worlds.

A model that has read each relation in a dozen wordings knows those wordings; one that has read it
in a hundred begins to know what is meant. A world's own pages and questions stay as they are: these
are used only where they are asked for (``wording.paraphrases``), and none of them says nearly what
a held-out phrase says, so that unseen wording stays unseen.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import WorldError, unknown
from ..seeding import stream
from .checks import check_schema
from .schema import Phrases, Property, Schema

FILE = "paraphrases.toml"
MOST = 12
"""Variants of one line, so that a line of many choices does not crowd out the others."""
BOUND = 10_000
"""Variants that one line may stand for at all."""
NEAR = 0.8
"""Share of the words of two phrases together that both have, from which they count as the same."""
_BANKS = ("document", "question", "noun", "inverse")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_WORD = re.compile(r"[a-z0-9{}]+")
_SPACE_BEFORE = re.compile(r"(?<! ) ++(?=[.,?;])")


def paraphrased(schema: Schema, source: Path | Mapping[str, Any]) -> Schema:
    """The schema with more training phrases, from a TOML file or a mapping of the same shape.

    A table per property holds lists ``document``, ``question``, ``noun`` and ``inverse``, the table
    ``lead`` lists per type. A line such as ``"{s} [was|got] made [in|during] {o}."`` stands for its
    variants (at most ``MOST`` of them, always the same). Those that share ``NEAR`` of their words
    with a held-out phrase of that bank, or more, are left out.

    Raises ``WorldError`` for a file that cannot be read, and for names, slots or lines that do not
    fit the schema.
    """
    if isinstance(source, Mapping):
        return _checked(schema, "paraphrases", source)
    try:
        return _of_file(schema, str(source), source.read_bytes())
    except FileNotFoundError:
        raise WorldError(f"{source}: no such file; this world has no paraphrases") from None


@lru_cache(maxsize=2)  # two seconds, and the same for every world of a training
def _of_file(schema: Schema, where: str, content: bytes) -> Schema:
    try:
        data = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # no TOML, or no UTF-8
        raise WorldError(f"{where}: not valid TOML: {error}") from None
    return _checked(schema, where, data)


def _checked(schema: Schema, where: str, data: Mapping[str, Any]) -> Schema:
    known = [p.name for p in schema.properties]
    for name, row in data.items():
        fits = isinstance(row, Mapping) and all(
            isinstance(lines, list) and all(isinstance(line, str) for line in lines)
            for lines in row.values()
        )
        if not fits:
            raise WorldError(f"{where}: {name}: expected a table of lists of texts")
        if name != "lead" and name not in known:
            raise WorldError(f"{where}: {unknown('property', name, known)}")
        within = [t.name for t in schema.types] if name == "lead" else _BANKS
        for key in row:
            if key not in within:
                raise WorldError(f"{where}: {name}: {unknown('key', key, within)}")
    leads = data.get("lead", {})
    types = [
        replace(t, lead=_widened(t.lead, leads.get(t.name, ()), f"{where}: lead.{t.name}"))
        for t in schema.types
    ]
    properties: list[Property] = []
    for p in schema.properties:
        changed: dict[str, Any] = {
            bank: _widened(getattr(p, bank), lines, f"{where}: {p.name}.{bank}")
            for bank, lines in data.get(p.name, {}).items()
        }
        properties.append(replace(p, **changed))
    wide = replace(schema, types=tuple(types), properties=tuple(properties))
    check_schema(wide, where)
    return wide


def variants(line: str) -> Iterator[str]:
    """Expand a line with choices in brackets into its variants, in order. ``ValueError`` for
    brackets that are nested or not closed, and for more than ``BOUND`` variants."""
    options = _options(line)
    for place in range(math.prod(map(len, options))):
        yield _variant(options, place)


def _options(line: str) -> list[list[str]]:
    parts = _CHOICE.split(line)
    if any(mark in part for part in parts[::2] for mark in "[]"):
        raise ValueError(f"brackets must close and cannot be nested: {line!r}")
    options = [part.split("|") if i % 2 else [part] for i, part in enumerate(parts)]
    if (number := math.prod(map(len, options))) > BOUND:
        raise ValueError(f"{number} variants are too many, at most {BOUND}: {line!r}")
    return options


def _variant(options: list[list[str]], place: int) -> str:
    """The variant at a place of the order, in which the last choice changes first."""
    chosen = []
    for choices in reversed(options):
        place, i = divmod(place, len(choices))
        chosen.append(choices[i])
    return _SPACE_BEFORE.sub("", " ".join("".join(reversed(chosen)).split()))


def near(one: str, other: str) -> float:
    """Share of the words of two phrases together that both have (Jaccard), letter case and
    punctuation apart."""
    return _shared(set(_words(one)), set(_words(other)))


def _shared(a: Set[str], b: Set[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 1.0


def _words(phrase: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(phrase.lower()))


def _widened(phrases: Phrases, lines: Iterable[str], where: str) -> Phrases:
    taken = {_words(phrase) for phrase in phrases.train}
    heldout = [set(_words(phrase)) for phrase in phrases.heldout]
    added: list[str] = []
    for line in lines:
        try:
            options = _options(line)
        except ValueError as error:
            raise WorldError(f"{where}: {error}") from None
        number = math.prod(map(len, options))
        order = stream(0, "variants", line).permutation(number)[:MOST]
        for variant in (_variant(options, place) for place in sorted(order.tolist())):
            said = _words(variant)
            words = set(said)
            if said in taken or any(_shared(words, h) >= NEAR for h in heldout):
                continue
            taken.add(said)
            added.append(variant)
    return replace(phrases, train=phrases.train + tuple(added))
