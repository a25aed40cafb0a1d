from __future__ import annotations

from datetime import date

from searchgym.worlds.loader import load_schema
from searchgym.worlds.values import format_value, value_answers

SCHEMA = load_schema("encyclopedia")


def prop(name: str):
    return SCHEMA.properties[SCHEMA.property_index(name)]


def test_dates() -> None:
    day = date(1931, 3, 12).toordinal()
    assert format_value(prop("birth_date"), day) == "12 March 1931"
    assert value_answers(prop("birth_date"), day) == ("12 March 1931", "March 12, 1931")


def test_counts_with_units_and_words() -> None:
    assert value_answers(prop("population"), 1234) == ("1,234", "1234")
    tracks = value_answers(prop("tracks"), 6)
    assert tracks[:2] == ("six", "6")
    assert "6 tracks" in tracks
    assert format_value(prop("tracks"), 13) == "13"


def test_years_and_categories_have_one_form() -> None:
    assert value_answers(prop("film_year"), 1994) == ("1994",)
    first = prop("occupation").categories[0]
    assert value_answers(prop("occupation"), 0) == (first,)
