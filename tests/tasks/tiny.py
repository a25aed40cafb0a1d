"""A small schema, worlds of it made by hand (to be checked on paper) or at random, and pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from searchgym.corpora import GeneratedCorpus
from searchgym.seeding import stream
from searchgym.types import Passage
from searchgym.worlds import EntityType, Phrases, Property, Schema, World, format_value

NO = Phrases((), ())


def _phrases(*texts: str) -> Phrases:
    """The last one is held out."""
    return Phrases(texts[:-1], texts[-1:])


def _type(name: str, plural: str, hub: bool = False) -> EntityType:
    return EntityType(name, name, plural, 0.25, "", _phrases("{s} is", "{s} was"), hub=hub)


def _relation(
    name: str, source: str, target: str, cardinality: str, verb: str, **more: object
) -> Property:
    label = name.replace("_", " ")
    return Property(
        name, source, target, cardinality,  # type: ignore[arg-type]
        document=_phrases(f"{{s}} {verb} {{o}}.", f"As for its {label}, {{s}} has {{o}}."),
        question=_phrases(f"What is the {label} of {{s}}?", f"{{s}} has which {label}?"),
        noun=_phrases(f"the {label} of {{s}}", f"the {label} that {{s}} has"),
        inverse=_phrases(f"the {source} that {verb} {{o}}", f"the {source} with {label} {{o}}"),
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _attribute(name: str, source: str, kind: str, **more: object) -> Property:
    label = name.replace("_", " ")
    return Property(
        name, source, None, "n-1",
        document=_phrases(f"{{s}} has {label} {{o}}.", f"The {label} of {{s}}: {{o}}."),
        question=_phrases(f"What is the {label} of {{s}}?", f"{{s}} has which {label}?"),
        noun=_phrases(f"the {label} of {{s}}", f"the {label} that {{s}} has"),
        value=kind,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


AGE = {"more": "younger|youngest", "less": "older|oldest"}
NEW = {"more": "newer|newest", "less": "older|oldest"}
SIZE = {"more": "larger|largest", "less": "smaller|smallest"}

SCHEMA = Schema(
    "tiny",
    (
        _type("person", "people"),
        _type("film", "films"),
        _type("city", "cities"),
        _type("country", "countries", hub=True),
    ),
    (
        _relation("director", "film", "person", "n-1", "was directed by"),
        _relation("actor", "film", "person", "n-n", "starred"),
        _relation("spouse", "person", "person", "1-1", "married", symmetric=True),
        _relation("birthplace", "person", "city", "n-1", "was born in"),
        _relation("country", "city", "country", "n-1", "lies in"),
        _attribute("birth_date", "person", "date", low=1900, high=1990, **AGE),
        _attribute("release", "film", "year", low=1950, high=2000, **NEW),
        _attribute("genre", "film", "category", categories=("drama", "comedy", "western")),
        _attribute("residents", "city", "count", low=10, high=9000, **SIZE),
    ),
)  # fmt: skip

Row = tuple[int, str, int]


def make_world(
    types: Sequence[str],
    facts: Sequence[Row],
    names: Sequence[str] | None = None,
    titles: Sequence[str] | None = None,
    aliases: Sequence[str] | None = None,
) -> World:
    """A world from rows (subject, property name, object)."""
    rows = sorted((s, SCHEMA.property_index(p), o) for s, p, o in facts)
    n = len(types)
    subject = np.array([r[0] for r in rows], dtype=np.int32)
    prop = np.array([r[1] for r in rows], dtype=np.int16)
    obj = np.array([r[2] for r in rows], dtype=np.int64)
    related = np.array([SCHEMA.properties[r[1]].is_relation for r in rows], dtype=bool)
    order = np.array(
        sorted(np.flatnonzero(related).tolist(), key=lambda i: (obj[i], prop[i], subject[i])),
        dtype=np.int64,
    )
    names = list(names or [f"{t.title()}{_word(i)}" for i, t in enumerate(types)])
    return World(
        SCHEMA, 0, titles or names, names,
        np.array([SCHEMA.type_index(t) for t in types], dtype=np.int16),
        subject, prop, obj,
        np.searchsorted(subject, np.arange(n + 1)).astype(np.int64),
        order, np.searchsorted(obj[order], np.arange(n + 1)).astype(np.int64),
        np.zeros(n, dtype=np.int8), aliases or [""] * n,
    )  # fmt: skip


def _word(i: int) -> str:
    return "".join("aeiou"[int(d) % 5] + "bdklmnrstz"[int(d)] for d in f"{i:03d}")


def make_corpus(world: World, silent: frozenset[int] = frozenset()) -> GeneratedCorpus:
    """One page per entity, one sentence per fact; facts in ``silent`` are not stated."""
    passages, where = [], []
    for entity in range(world.n_entities):
        text = f"{world.names[entity]} is a {SCHEMA.types[int(world.type_of[entity])].noun}."
        for fact in world.facts_of(entity):
            about = SCHEMA.properties[fact.property]
            told = (
                world.names[fact.object] if about.is_relation else format_value(about, fact.object)
            )
            if fact.id in silent:
                continue
            sentence = (
                about.document.train[0].replace("{s}", world.names[entity]).replace("{o}", told)
            )
            where.append((fact.id, entity, len(text) + 1, len(text) + 1 + len(sentence)))
            text += f" {sentence}"
        passages.append(Passage(f"p{entity:05d}", world.titles[entity], text, f"w://{entity}"))
    columns = np.array(where, dtype=np.int64).reshape(-1, 4)
    return GeneratedCorpus(
        "tiny", passages, fact=columns[:, 0], passage=columns[:, 1],
        start=columns[:, 2].astype(np.int32), end=columns[:, 3].astype(np.int32),
        page_of=np.arange(world.n_entities),
    )  # fmt: skip


def random_world(seed: int, people: int = 150, films: int = 150, cities: int = 40) -> World:
    """A world of this schema with every kind of fact, some missing."""
    rng = stream(seed, "tiny")
    countries = 5
    types = ["person"] * people + ["film"] * films + ["city"] * cities + ["country"] * countries
    film0, city0, country0 = people, people + films, people + films + cities
    facts: list[Row] = []
    pairs = rng.permutation(people)
    for a, b in zip(pairs[0 : people // 2 : 2], pairs[1 : people // 2 : 2], strict=False):
        facts += [(int(a), "spouse", int(b)), (int(b), "spouse", int(a))]
    for p in range(people):
        if rng.random() < 0.9:
            facts.append((p, "birthplace", int(rng.integers(city0, country0))))
        if rng.random() < 0.9:
            facts.append((p, "birth_date", int(rng.integers(700_000, 720_000))))
    for f in range(film0, city0):
        if rng.random() < 0.9:
            facts.append((f, "director", int(rng.integers(people))))
        cast = rng.choice(people, int(rng.integers(0, 6)), replace=False)
        facts += [(f, "actor", int(a)) for a in cast]
        facts.append((f, "release", int(rng.integers(1950, 2001))))
        facts.append((f, "genre", int(rng.integers(3))))
    for c in range(city0, country0):
        facts.append((c, "country", int(rng.integers(country0, country0 + countries))))
        facts.append((c, "residents", int(rng.integers(10, 9001))))
    return make_world(types, facts)
