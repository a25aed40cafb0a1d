"""Writes attribute values, and tells which written forms count as the same answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date

import numpy as np
from numpy.typing import NDArray

from ..seeding import stream
from ..utils.english import NUMBER_WORDS
from .schema import Property, Schema

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
SMALL = tuple(NUMBER_WORDS)[:13]
STYLES = 2
"""Every kind of value is written in this many ways; ``style`` is taken modulo it."""


def format_value(prop: Property, value: int, style: int = 0) -> str:
    """A value as a page writes it, without its unit.

    Dates: "12 March 1931", "March 12, 1931". Counts: "1,234", "1234"; up to twelve "six", "6".
    Years and categories have one form.
    """
    return formatter(prop)(int(value), style)


def formatter(prop: Property) -> Callable[[int, int], str]:
    """``format_value`` for many values of one attribute (value, style) -> text."""
    if prop.value == "category":
        categories = prop.categories
        return lambda value, style: categories[value]
    return {"date": _date, "year": lambda value, style: str(value), "count": _count}[
        prop.value or "count"
    ]


def value_answers(prop: Property, value: int) -> tuple[str, ...]:
    """Accepted answers for a value, the canonical one (style 0) first."""
    forms = [format_value(prop, value, style) for style in range(STYLES)]
    if prop.value == "count":
        plain = str(int(value))
        forms.append(plain)
        if prop.unit:
            forms += [f"{form} {prop.unit}" for form in dict.fromkeys(forms)]
    return tuple(dict.fromkeys(forms))


def _date(value: int, style: int) -> str:
    d = date.fromordinal(value)
    if style % STYLES:
        return f"{MONTHS[d.month - 1]} {d.day}, {d.year}"
    return f"{d.day} {MONTHS[d.month - 1]} {d.year}"


def _count(value: int, style: int) -> str:
    if 0 <= value < len(SMALL):
        return str(value) if style % STYLES else SMALL[value]
    return str(value) if style % STYLES else f"{value:,}"


Ints = NDArray[np.int64]
DAYS = 365.2425


def draw_values(
    schema: Schema, order: Mapping[str, Ints], seed: int
) -> Iterator[tuple[Property, Ints, Ints]]:
    """Yield each attribute, the positions of the entities that have it, and a value of each entity
    of its type, had or not.

    Attributes that follow another one (``after``) are drawn when that one is known.
    """
    known: dict[str, tuple[Ints, Ints]] = {}
    for p in sorted(schema.properties, key=lambda p: bool(p.after)):
        if p.is_relation:
            continue
        ranks = order[p.source]
        n = len(ranks)
        rng = stream(seed, "values", p.name)
        values = known[p.after][1] + _years_later(p, n, rng) if p.after else _draw(p, n, rng)
        if p.ordered:
            values = values.copy()
            values[ranks] = np.sort(values)
        present = rng.random(n) < p.presence
        if p.elder:  # who would be older than that by now
            earliest = schema.now - p.elder
            if p.value == "date":
                earliest = date(earliest, 1, 1).toordinal()
            present |= known[p.after][1] < earliest
        if p.latest:
            last = date(p.latest, 12, 31).toordinal() if p.value == "date" else p.latest
            present &= values <= last
        where = np.flatnonzero(present)
        known[p.name] = (where, values)
        yield p, where, values


def _draw(p: Property, n: int, rng: np.random.Generator) -> Ints:
    if p.value == "category":
        # Some categories are common and some rare, as occupations and genres are.
        mass = np.arange(1, len(p.categories) + 1, dtype=np.float64) ** -0.7
        mass = rng.permutation(mass / mass.sum())
        return np.searchsorted(np.cumsum(mass)[:-1], rng.random(n), side="right").astype(np.int64)
    if p.value == "date":
        low, high = date(p.low, 1, 1).toordinal(), date(p.high, 12, 31).toordinal()
        return rng.integers(low, high, size=n, endpoint=True)
    if p.value == "year":
        return rng.integers(p.low, p.high, size=n, endpoint=True)
    if p.high > 50 * max(1, p.low):
        # Wide ranges (populations, prices) are spread evenly over orders of magnitude.
        low, high = np.log(max(1, p.low)), np.log(p.high + 1)
        drawn = np.exp(low + rng.random(n) * (high - low)).astype(np.int64)
        return np.clip(drawn, p.low, p.high)
    return rng.integers(p.low, p.high, size=n, endpoint=True)


def _years_later(p: Property, n: int, rng: np.random.Generator) -> Ints:
    if p.value == "year":
        return rng.integers(p.low, p.high, size=n, endpoint=True)
    return (rng.integers(p.low * 100, p.high * 100, size=n) * DAYS / 100).astype(np.int64) + 1
