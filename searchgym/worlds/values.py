"""Writes attribute values, and tells which written forms count as the same answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from .schema import Property

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve",
)  # fmt: skip
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
