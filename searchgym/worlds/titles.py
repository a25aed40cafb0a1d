"""Unique page titles: a name, or where names collide a name with what tells it apart."""

from __future__ import annotations

from datetime import date

import numpy as np
from numpy.typing import NDArray

from .names import name_key
from .schema import Schema


def draw_titles(
    schema: Schema,
    names: list[str],
    type_of: NDArray[np.int16],
    subject: NDArray[np.int64],
    prop: NDArray[np.int64],
    obj: NDArray[np.int64],
) -> list[str]:
    """Titles (N,): the name where it is the only one, else "Name (film)", "Name (born 1931)",
    "Name (1994 film)" or, at last, "Name (film, 2)". Unique also when normalised."""
    if len(set(names)) == len(names):
        return list(names)
    groups: dict[str, list[int]] = {}
    for entity, name in enumerate(names):
        groups.setdefault(name, []).append(entity)
    titles = list(names)
    taken = {name_key(n) for n in groups}
    for name, members in groups.items():
        if len(members) == 1:
            continue
        nouns = [schema.types[int(type_of[e])].noun for e in members]
        for entity, noun in zip(members, nouns, strict=True):
            tags = [noun] if nouns.count(noun) == 1 else []
            tags += _dated(schema, entity, noun, subject, prop, obj)
            tags += [f"{noun}, {k}" for k in range(1, len(members) + 2)]
            for tag in tags:
                title = f"{name} ({tag})"
                if name_key(title) not in taken:
                    break
            taken.add(name_key(title))
            titles[entity] = title
    return titles


def _dated(
    schema: Schema,
    entity: int,
    noun: str,
    subject: NDArray[np.int64],
    prop: NDArray[np.int64],
    obj: NDArray[np.int64],
) -> list[str]:
    lo, hi = np.searchsorted(subject, [entity, entity + 1])
    for row in range(int(lo), int(hi)):
        p = schema.properties[int(prop[row])]
        if p.value == "year":
            return [f"{int(obj[row])} {noun}"]
        if p.value == "date":
            year = date.fromordinal(int(obj[row])).year
            return [f"born {year}" if "birth" in p.name or "born" in p.name else f"{year} {noun}"]
    return []
