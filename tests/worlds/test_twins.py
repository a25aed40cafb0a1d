"""Twins: other names, and everything else the same, down to each question."""

from __future__ import annotations

import numpy as np
import pytest

from searchgym.corpora import words_of
from searchgym.envs import SearchEnv
from searchgym.errors import WorldError
from searchgym.worlds.export import COLUMNS
from searchgym.worlds.generate import generate
from searchgym.worlds.loader import load_schema, shipped_worlds
from searchgym.worlds.names import name_key
from searchgym.worlds.twins import STYLES, twin
from searchgym.worlds.world import World


def shared(world: World) -> list[int]:
    """For every name and alias, the first that is the same."""
    first: dict[str, int] = {}
    return [first.setdefault(name_key(n), i) for i, n in enumerate((*world.names, *world.alias_of))]


@pytest.mark.parametrize("schema", shipped_worlds())
@pytest.mark.parametrize("style", STYLES)
def test_names_change_and_nothing_else(schema: str, style: str) -> None:
    world = generate(load_schema(schema), entities=900, seed=3, homonyms=0.1)
    other = twin(world, style, seed=1)
    assert all(np.array_equal(getattr(world, c), getattr(other, c)) for c in COLUMNS)
    assert shared(world) == shared(other)
    assert [bool(a) for a in world.alias_of] == [bool(a) for a in other.alias_of]
    assert len(set(other.titles)) == len(other.titles)
    assert not set(map(name_key, world.names)) & set(map(name_key, other.names))
    again = twin(world, style, seed=1)
    assert again.names == other.names
    assert again.titles == other.titles
    assert twin(world, style, seed=2).names != other.names


def test_a_word_is_exchanged_for_one_word_everywhere() -> None:
    world = generate(load_schema("encyclopedia"), entities=900, seed=3)
    other = twin(world)
    table: dict[str, str] = {}
    for old, new in zip(world.names, other.names, strict=True):
        assert len(words_of(old)) == len(words_of(new)), (old, new)
        for a, b in zip(words_of(old), words_of(new), strict=True):
            if a not in ("A", "An") and b not in ("A", "An"):
                assert table.setdefault(a.lower(), b.lower()) == b.lower(), (old, new)


def test_known_names_are_real_ones_and_fit_the_person() -> None:
    world = twin(generate(load_schema("encyclopedia"), entities=900, seed=3), "known")
    people = [i for i in range(world.n_entities) if world.type_of[i] == 0]
    given = {(world.names[i].split()[0], int(world.facet_of[i])) for i in people}
    assert {("Mary", 1), ("Robert", 0)} <= given
    assert not {("Mary", 0), ("Robert", 1)} & given


def test_tasks_have_their_counterpart() -> None:
    keywords = {"tasks": {"simple": 40, "chain": 40, "comparison": 20, "set": 20}}
    env = SearchEnv(world={"entities": 700}, **keywords)
    other = SearchEnv(world={"entities": 700, "twin": "known"}, **keywords)
    mine, theirs = ({task.id: task for task in e.tasks} for e in (env, other))
    both = sorted(mine.keys() & theirs.keys())
    assert len(both) >= 0.9 * len(mine)
    for key in both:
        a, b = mine[key], theirs[key]
        assert a.question != b.question
        assert [e.fact for e in a.graph.edges] == [e.fact for e in b.graph.edges]
        assert (a.evidence, a.difficulty, a.meta) == (b.evidence, b.difficulty, b.meta)


def test_what_is_no_twin() -> None:
    world = generate(load_schema("encyclopedia"), entities=200, seed=3)
    with pytest.raises(WorldError, match="unknown style"):
        twin(world, "real")
    world.names[0] = "x y z 7"
    with pytest.raises(WorldError, match="was not made by the grammar"):
        twin(world)
