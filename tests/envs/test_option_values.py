"""Numbers among an environment's options: each impossible one is one clear error."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from searchgym.core import LEAST, NONE_ALLOWED, SWITCHES, Rules
from searchgym.envs.options import Options
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError
from searchgym.rl import make
from tests.cli.conftest import SMALL, Cli, cli  # noqa: F401

IMPOSSIBLE = [True, "3", 2.0, math.nan, math.inf, -math.inf, [3], -1, -(10**400)]


@pytest.mark.parametrize("name", LEAST)
@pytest.mark.parametrize("value", IMPOSSIBLE, ids=lambda v: repr(v)[:12])
def test_a_number_that_cannot_be_is_named(name: str, value: Any) -> None:
    with pytest.raises(CardError, match=f"{name} must be"):
        Options.of({name: value})
    if name in Rules.__slots__:
        with pytest.raises(CardError, match=f"{name} must be"):
            Rules(tools=(), **{name: value})


@pytest.mark.parametrize("name", LEAST)
def test_the_least_value_is_accepted_and_none_where_it_means_something(name: str) -> None:
    Options.of({name: LEAST[name]})
    with pytest.raises(CardError, match=f"{name} must be at least"):
        Options.of({name: LEAST[name] - 1})
    if name in NONE_ALLOWED:
        Options.of({name: None})
    else:
        with pytest.raises(CardError, match=f"{name} must be a whole number, got None"):
            Options.of({name: None})


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_true_or_false(name: str) -> None:
    with pytest.raises(CardError, match=f"{name} must be true or false, got 'no'"):
        Options.of({name: "no"})


def test_every_number_among_the_options_has_a_least_value() -> None:
    numbers = {f.name for f in dataclasses.fields(Options) if f.type in ("int", "int | None")}
    assert numbers == set(LEAST)
    assert {f.name for f in dataclasses.fields(Options) if f.type == "bool"} == set(SWITCHES)


@pytest.mark.parametrize(
    "value", ["max_tasks=-3", "max_turns=1e400", "max_tokens=0", "k=true", "page_chars=-1",
              "k=NaN", 'k="3"'],
)  # fmt: skip
def test_on_the_command_line(cli: Cli, value: str) -> None:  # noqa: F811
    done = cli("eval", "SearchQA-v0", "-a", "random", "-n", 2, *SMALL, "-s", value)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{value.partition('=')[0]} must be" in done.err


def test_all_tasks_are_there_without_a_limit() -> None:
    small = {"world": {"entities": 400}, "tasks": {"simple": 12}}
    whole = len(SearchEnv(**small).tasks)
    assert len(SearchEnv(**{**small, "max_tasks": 10**6}).tasks) == whole
    assert len(SearchEnv(**{**small, "max_tasks": 5}).tasks) == 5


@pytest.mark.parametrize("digits", [20, 30, 400])
def test_a_number_of_many_digits_in_a_recipe_is_one_error(digits: int) -> None:
    with pytest.raises(CardError, match=r"longest < 2\*\*53"):
        make("reward", {"use": "overlong", "longest": 10**digits})
