"""Worlds of version 1 could be real: of each kind of contradiction there is less than one in a
hundred, and version 0 shows that the count finds them."""

from __future__ import annotations

from typing import Any

import pytest

from searchgym.worlds import constraints
from searchgym.worlds.names import name_key

from .contradictions import SPLITS, Facts, abroad, table, world_of
from .shipped import world_from_card

V1 = ("encyclopedia-v1", "research-v1")


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("corpus", V1)
def test_of_each_kind_of_contradiction_there_is_less_than_one_in_a_hundred(
    corpus: str, split: str
) -> None:
    found = table(world_of(corpus, split))
    assert {kind: n for kind, n in found.items() if n[0] >= 0.01 * n[1]} == {}
    assert min(cases for _, cases in found.values()) >= 10, "every kind could occur"


def test_the_count_finds_what_version_0_is_full_of() -> None:
    found = {
        kind: bad / cases for kind, (bad, cases) in table(world_of("encyclopedia", "train")).items()
    }
    assert found["founder no living adult at the founding"] > 0.6
    assert found["ground in another city"] > 0.9
    assert sum(share >= 0.01 for share in found.values()) > 35
    assert found["sequel before its film"] == 0.0


@pytest.mark.parametrize(
    "options", [{"lookalikes": 0.3}, {"popularity": 1.0}, {"entities": 9000}, {"entities": 1200}]
)
@pytest.mark.parametrize("corpus", V1)
def test_so_it_is_in_worlds_of_other_kinds(corpus: str, options: dict[str, Any]) -> None:
    found = table(world_from_card(corpus, seed=5, **options))
    assert {kind: n for kind, n in found.items() if n[0] >= 0.01 * n[1]} == {}


@pytest.mark.parametrize("corpus", V1)
def test_no_name_is_in_two_splits(corpus: str) -> None:
    names = [{name_key(name) for name in world_of(corpus, split).names} for split in SPLITS]
    assert not names[0] & names[1]
    assert not names[0] & names[2]
    assert not names[1] & names[2]


def test_most_people_are_citizens_of_the_country_of_their_birth() -> None:
    for split in SPLITS:
        strays, people = abroad(Facts(world_of("encyclopedia-v1", split)))
        assert 0.02 < strays / people < 0.1


def test_without_scipy_a_world_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which places are nearest is found by all distances then, in blocks."""
    options: dict[str, Any] = {"entities": 900, "seed": 3}
    first = world_from_card("encyclopedia-v1", **options)
    monkeypatch.setattr(constraints, "find_spec", lambda name: None)
    monkeypatch.setattr(constraints, "_ROWS", 7)
    again = world_from_card("encyclopedia-v1", **options)
    assert (again.object_of.tolist(), again.names) == (first.object_of.tolist(), first.names)
