from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from searchgym.worlds.export import to_graphml, to_jsonl
from searchgym.worlds.generate import generate
from searchgym.worlds.loader import load_schema
from searchgym.worlds.world import World


@pytest.fixture(scope="module")
def world() -> World:
    return generate(load_schema("encyclopedia"), entities=200, seed=8, homonyms=0.1)


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
