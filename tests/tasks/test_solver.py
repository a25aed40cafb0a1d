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


def graph(nodes, edges, answer="", operation="lookup"):
    """``"f film=Gamma, d person"``: a given and an unknown node; ``"f director d"``: an edge."""
    made = []
    for node in nodes.split(", "):
        kind, _, value = node.partition("=")
        made.append(GraphNode(*kind.split(), value, bool(value)))
    links = tuple(GraphEdge(*edge.split(), 0, "") for edge in edges.split(", "))
    return ReasoningGraph(tuple(made), links, answer, operation)


FILMS = "p person=Ann, f film, y release", "f director p, f release y", ""
TWO = "f film=Alpha, g film=Gamma, y release, z release", "f release y, g release z", ""


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        (("p person=Ann, f film", "f director p", "f"), ("Alpha", "Beta")),
        (("f film=Alpha, a person, d person, c city",
          "f actor a, f director d, a birthplace c, d birthplace c", "a"), ("Cat",)),
        (("p person=Bob, c city", "p birthplace c", "c"), ()),
        (("p person=Zoe, c city", "p birthplace c", "c"), ()),
        (("p film, c city=Roma", "p birthplace c", "p"), ()),
        (("f film, y release=1955", "f release y", "f"), ("Beta",)),
        (("p person=Ann, f film", "f director p", "", "count:f"), ("2",)),
        ((*FILMS, "argmin:f=y"), ("Beta",)),
        ((*FILMS, "argmax:f=y"), ("Alpha",)),
        ((*TWO, "argmin:f=y,g=z"), ("Alpha",)),
        ((*TWO, "argmax:f=y,g=z"), ("Gamma",)),
        ((*TWO, "equal:y,z"), ("no",)),
        ((*TWO, "difference:y,z"), ("12",)),
        ((*TWO, "join:y,z"), ("1960 and 1972",)),
    ],
)  # fmt: skip
def test_answers_read_off_a_world(world, asked, answers):
    """Several are ambiguous, none is unanswerable; types are constraints, given values are read."""
    assert Solver(world).solve(graph(*asked)) == answers


def test_a_lookup_reads_only_what_is_given(world):
    asked = graph("f film=Gamma, d person", "f director d", "d")
    recorded = replace(asked.nodes[1], value="WRONG")
    asked = replace(asked, nodes=(asked.nodes[0], recorded))
    assert Solver(world).solve(asked) == ("Bob",)


def test_an_extreme_with_an_unknown_competitor_is_no_answer():
    world = make_world(
        ["person", "film", "film"],
        [(1, "director", 0), (2, "director", 0), (1, "release", 1960)],
        ["Ann", "Alpha", "Beta"],
    )
    assert Solver(world).solve(graph(*FILMS, "argmin:f=y")) == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"operation": "lokup"}, r"operation 'lokup'.*lookup"),
        ({"operation": "argmin:d"}, "'argmin' does not take 'd'"),
        ({"answer": "x"}, "node 'x'"),
        ({"edges": (GraphEdge("f", "directer", "d", 0, ""),)}, r"property 'directer'.*director"),
    ],
)
def test_unreadable_graphs_are_errors(world, changes, said):
    good = graph("f film=Gamma, d person", "f director d", "d")
    with pytest.raises(TaskError, match=said):
        Solver(world).solve(replace(good, **changes))
