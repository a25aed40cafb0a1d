"""A generated world, and a graph whose every name and fact means harm."""

from __future__ import annotations

import pytest

from searchgym.envs.search import SearchEnv
from searchgym.kgs.build import Entity, from_triples
from searchgym.kgs.corpus import kg_corpus
from searchgym.types import GraphEdge, GraphNode, ReasoningGraph, Task
from searchgym.world_browser.atlas import Atlas

SCRIPT = '<script>document.title = "owned"</script>'
IMAGE = '"><img src=x onerror="document.title=\'owned\'">'
TURNED = "safe\u202eevil\u2066"
ADDRESS = "javascript:document.title='owned'"
TEMPLATE = "{{ 7 * 7 }} {% raise %} </title></svg></style>"


@pytest.fixture(scope="session")
def world() -> SearchEnv:
    return SearchEnv(
        **{"world": {"entities": 400}, "tasks": {"simple": 20, "chain-2": 10, "comparison": 10,
         "count": 5, "parallel": 5, "unanswerable": 5}}
    )  # fmt: skip


@pytest.fixture(scope="session")
def atlas(world: SearchEnv) -> Atlas:
    return Atlas(world)


@pytest.fixture(scope="session")
def hostile() -> Atlas:
    """Five entities, named by an attacker, with a task of the same kind."""
    names = (SCRIPT, IMAGE, TURNED, ADDRESS, TEMPLATE)
    entities = {f"e{i}": Entity(name, name, (name,)) for i, name in enumerate(names)}
    triples = [(f"e{i}", f"{names[i]} of", f"e{(i + 1) % 5}") for i in range(5)]
    corpus = kg_corpus(from_triples(triples, name=SCRIPT, entities=entities))
    nodes = (GraphNode("a", IMAGE, SCRIPT, True), GraphNode("b", SCRIPT, IMAGE))
    task = Task(
        "../" + SCRIPT, SCRIPT + TURNED, (IMAGE,), ("e0", IMAGE), (TEMPLATE,), IMAGE, 1,
        graph=ReasoningGraph(nodes, (GraphEdge("a", SCRIPT, "b", 0, "e0"),), "b"),
    )  # fmt: skip
    return Atlas(SearchEnv(**{"corpus": corpus, "tasks": [task]}))
