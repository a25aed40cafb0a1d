from __future__ import annotations

from dataclasses import replace

import pytest

from searchgym.errors import TaskError
from searchgym.tasks.solver import Solver
from searchgym.types import GraphEdge, GraphNode, ReasoningGraph

from .tiny import make_world

ANN, BOB, CAT, DAN, FILM_A, FILM_B, FILM_C, ROME, OSLO = range(9)
NAMES = ["Ann", "Bob", "Cat", "Dan", "Alpha", "Beta", "Gamma", "Roma", "Osla"]


@pytest.fixture
def world():
    return make_world(
        ["person"] * 4 + ["film"] * 3 + ["city"] * 2,
        [
            (FILM_A, "director", ANN),
            (FILM_B, "director", ANN),
            (FILM_C, "director", BOB),
            (FILM_A, "actor", CAT),
            (FILM_A, "actor", DAN),
            (FILM_A, "release", 1960),
            (FILM_B, "release", 1955),
            (FILM_C, "release", 1972),
            (CAT, "birthplace", ROME),
            (DAN, "birthplace", OSLO),
            (ANN, "birthplace", ROME),
        ],
        NAMES,
    )


def _graph(nodes, edges, answer="", operation="lookup"):
    return ReasoningGraph(
        tuple(GraphNode(i, t, v, g) for i, t, v, g in nodes),
        tuple(GraphEdge(s, p, o, 0, "") for s, p, o in edges),
        answer,
        operation,
    )


def solve(graph, world):
    return Solver(world).solve(graph)


def test_lookup_reads_only_what_is_given(world):
    graph = _graph(
        [("f", "film", "Gamma", True), ("d", "person", "WRONG", False)],
        [("f", "director", "d")],
        "d",
    )
    assert solve(graph, world) == ("Bob",)


def test_ambiguity_shows_as_several_answers(world):
    graph = _graph(
        [("p", "person", "Ann", True), ("f", "film", "", False)], [("f", "director", "p")], "f"
    )
    assert solve(graph, world) == ("Alpha", "Beta")


def test_intersection_and_a_ring(world):
    nodes = [
        ("f", "film", "Alpha", True),
        ("a", "person", "", False),
        ("d", "person", "", False),
        ("c", "city", "", False),
    ]
    edges = [
        ("f", "actor", "a"),
        ("f", "director", "d"),
        ("a", "birthplace", "c"),
        ("d", "birthplace", "c"),
    ]
    assert solve(_graph(nodes, edges, "a"), world) == ("Cat",)


def test_no_answer(world):
    graph = _graph(
        [("p", "person", "Bob", True), ("c", "city", "", False)], [("p", "birthplace", "c")], "c"
    )
    assert solve(graph, world) == ()
    nobody = _graph(
        [("p", "person", "Zoe", True), ("c", "city", "", False)], [("p", "birthplace", "c")], "c"
    )
    assert solve(nobody, world) == ()


def test_types_are_constraints(world):
    graph = _graph(
        [("p", "film", "", False), ("c", "city", "Roma", True)], [("p", "birthplace", "c")], "p"
    )
    assert solve(graph, world) == ()


def test_operations(world):
    ann = ("p", "person", "Ann", True)
    films = [ann, ("f", "film", "", False), ("y", "release", "", False)]
    edges = [("f", "director", "p"), ("f", "release", "y")]
    solver = Solver(world)
    assert solver.solve(_graph(films[:2], edges[:1], "", "count:f")) == ("2",)
    assert solver.solve(_graph(films, edges, "", "argmin:f=y")) == ("Beta",)
    assert solver.solve(_graph(films, edges, "", "argmax:f=y")) == ("Alpha",)
    two = [
        ("f", "film", "Alpha", True),
        ("g", "film", "Gamma", True),
        ("y", "release", "", False),
        ("z", "release", "", False),
    ]
    pair = [("f", "release", "y"), ("g", "release", "z")]
    assert solver.solve(_graph(two, pair, "", "argmin:f=y,g=z")) == ("Alpha",)
    assert solver.solve(_graph(two, pair, "", "equal:y,z")) == ("no",)
    assert solver.solve(_graph(two, pair, "", "difference:y,z")) == ("12",)
    assert solver.solve(_graph(two, pair, "", "join:y,z")) == ("1960 and 1972",)


def test_given_values_are_read(world):
    graph = _graph(
        [("f", "film", "", False), ("y", "release", "1955", True)], [("f", "release", "y")], "f"
    )
    assert solve(graph, world) == ("Beta",)


def test_an_extreme_with_an_unknown_competitor_is_no_answer():
    world = make_world(
        ["person", "film", "film"],
        [(1, "director", 0), (2, "director", 0), (1, "release", 1960)],
        ["Ann", "Alpha", "Beta"],
    )
    graph = _graph(
        [("p", "person", "Ann", True), ("f", "film", "", False), ("y", "release", "", False)],
        [("f", "director", "p"), ("f", "release", "y")],
        "",
        "argmin:f=y",
    )
    assert solve(graph, world) == ()


def test_unreadable_graphs_are_errors(world):
    good = _graph(
        [("f", "film", "Gamma", True), ("d", "person", "", False)], [("f", "director", "d")], "d"
    )
    with pytest.raises(TaskError, match=r"operation 'lokup'.*lookup"):
        solve(replace(good, operation="lokup"), world)
    with pytest.raises(TaskError, match=r"'argmin' does not take 'd'"):
        solve(replace(good, operation="argmin:d"), world)
    with pytest.raises(TaskError, match="node 'x'"):
        solve(replace(good, answer="x"), world)
    with pytest.raises(TaskError, match=r"property 'directer'.*director"):
        solve(replace(good, edges=(GraphEdge("f", "directer", "d", 0, ""),)), world)
