from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from searchgym.errors import DataError
from searchgym.worlds.export import to_graphml, to_jsonl
from searchgym.worlds.generate import generate
from searchgym.worlds.loader import load_schema
from searchgym.worlds.storage import COLUMNS, load_world, save_world, world_digest
from searchgym.worlds.world import World


@pytest.fixture(scope="module")
def world() -> World:
    return generate(load_schema("encyclopedia"), entities=200, seed=8, homonyms=0.1)


@pytest.mark.parametrize("mapped", [False, True])
def test_round_trip(world: World, tmp_path: Path, mapped: bool) -> None:
    back = load_world(save_world(world, tmp_path / "w"), mmap_mode=mapped)
    assert back.schema == world.schema
    assert back.seed == world.seed
    for name in COLUMNS:
        assert np.array_equal(getattr(back, name), getattr(world, name))
        assert getattr(back, name).dtype == getattr(world, name).dtype
        assert not getattr(back, name).flags.writeable
    assert list(back.titles) == list(world.titles)
    assert back.titles[-1] == world.titles[-1]
    assert list(back.names[10:20]) == list(world.names[10:20])
    assert [back.aliases(e) for e in range(200)] == [world.aliases(e) for e in range(200)]
    assert world_digest(back) == world_digest(world)
    assert isinstance(back.object_of, np.memmap) == mapped


def test_damage_is_noticed(world: World, tmp_path: Path) -> None:
    folder = save_world(world, tmp_path / "w")
    names = (folder / "names.txt").read_bytes()
    (folder / "names.txt").write_bytes(names.swapcase())
    with pytest.raises(DataError, match="do not match the digest"):
        load_world(folder)
    (folder / "names.txt").write_bytes(names[:-3])
    with pytest.raises(DataError, match="bytes, expected"):
        load_world(folder)
    (folder / "subject_of.npy").write_bytes(b"")
    with pytest.raises(DataError, match="subject_of"):
        load_world(folder)
    with pytest.raises(DataError, match="made by save_world"):
        load_world(tmp_path)
    for text, said in (
        (b"{", "not valid JSON"),
        (b'"\xff"', "not valid JSON"),
        (b"[]", "expected an object, got list"),
        (b'{"format": 1, "seed": 0, "digest": ""}', "no schema"),
    ):
        (folder / "world.json").write_bytes(text)
        with pytest.raises(DataError, match=said):
            load_world(folder)


def test_networkx_and_graphml(world: World, tmp_path: Path) -> None:
    graph = world.to_networkx()
    relations = [f for f in map(world.fact, range(world.n_facts)) if world.prop(f).is_relation]
    assert graph.number_of_nodes() == 200
    assert graph.number_of_edges() == len(relations)
    for f in relations:
        assert graph.edges[f.subject, f.object, world.prop(f).name]["fact"] == f.id
    film = int(world.entities_of(world.schema.type_index("film"))[0])
    assert graph.nodes[film]["type"] == "film"
    assert graph.nodes[film]["film_year"].isdigit()
    to_graphml(world, tmp_path / "w.graphml")
    back = nx.read_graphml(tmp_path / "w.graphml")
    assert back.number_of_edges() == len(relations)
    assert back.nodes[str(film)]["title"] == world.titles[film]


def test_jsonl(world: World, tmp_path: Path) -> None:
    assert to_jsonl(world, tmp_path / "w.jsonl") == 200
    rows = [json.loads(line) for line in (tmp_path / "w.jsonl").read_text().splitlines()]
    assert sum(len(r["facts"]) for r in rows) == world.n_facts
    for e, row in enumerate(rows):
        assert row["title"] == world.titles[e]
        for fact in row["facts"]:
            if fact["object"] is not None:
                assert world.titles[fact["object"]] == fact["value"]
