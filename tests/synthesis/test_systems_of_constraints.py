"""The numbers by which each system is defined."""

from __future__ import annotations

import json
from itertools import pairwise

import networkx as nx
import pytest

from searchgym.seeding import stream
from searchgym.tasks import Context, Solver
from searchgym_agents.synthesis.bmgq import contradicted
from searchgym_agents.synthesis.constraints import ConstraintGraph, Node, draft
from searchgym_agents.synthesis.constraints import answers as candidates
from searchgym_agents.synthesis.medresearcher import SAMPLERS, max_chain
from tests.tasks import brute
from tests.tasks.tiny import make_corpus, make_world

from . import constraint_worlds
from .constraint_worlds import answers, built, edges


def of(family, seed=0, number=12, **options):
    world, corpus, tasks = built(seed, {family: number}, **options)
    assert len(tasks) == number
    return world, corpus, tasks


# --- InfoSeek -------------------------------------------------------------------------------------
def test_infoseek_trees_have_two_hops_and_survive_json():
    world, _, tasks = of("infoseek")

    def walk(node, depth=0):
        yield node, depth
        for child in node["children"]:
            yield from walk(child, depth + 1)

    for task in tasks:
        tree = json.loads(json.dumps(task.meta["tree"]))
        assert tree == task.meta["tree"]
        nodes = list(walk(tree))
        assert max(depth for _, depth in nodes) >= 2
        assert task.hops >= 2
        assert tree["entity"] in task.answers
        assert tree["href"].endswith(str(world.titles.index(tree["entity"])))
        assert len(nodes) == len(edges(task)) + 1  # a tree
        for node, _ in nodes:
            assert [c["target_id"] for c in node["claims"]] == [c["id"] for c in node["children"]]
            if node["children"]:  # only leaves may be named
                assert node["entity"] not in task.question


# --- BMGQ -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("least", [3, 5])
def test_bmgq_clues_are_weak_alone_and_decisive_together(least):
    world, _, tasks = of("bmgq", number=8, least=least)
    for task in tasks:
        clues = [e for e in edges(task) if task.graph.answer in (e.subject, e.object)]
        left = []
        for clue in clues:
            rest = task.graph
            for other in clues:
                if other is not clue:
                    kept = tuple(e for e in rest.edges if e is not other)
                    rest = type(rest)(rest.nodes, kept, rest.answer, rest.operation)
            left.append(answers(rest, world))
        assert len(clues) >= 2
        assert all(len(found) >= least for found in left), task.id
        assert len(set.intersection(*left)) == 1


def test_bmgq_rejects_evidence_that_contradicts_itself():
    films = [(i, "director", 20) for i in range(20)]
    world = make_world(["film"] * 20 + ["person"] * 2, [*films, (3, "director", 21)])
    ctx = Context(world, make_corpus(world))
    facts = [world.fact(i) for i in range(world.n_facts)]
    assert [f.subject for f in facts if contradicted(ctx, f, 0.95)] == [3, 3]
    assert not any(contradicted(ctx, f, 0.96) for f in facts)


# --- REDSearcher ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("width", "shape"), [(1, "path"), (2, "ring"), (3, "tetrahedron")])
def test_redsearcher_has_the_treewidth_asked_for(width, shape):
    world, corpus, tasks = of("redsearcher", number=3 if width < 3 else 1, widths=[width])
    for task in tasks:
        assert (task.difficulty.treewidth, task.meta["shape"]) == (width, shape)
        joined = nx.Graph((e.subject, e.object) for e in edges(task))
        found = nx.approximation.treewidth_min_fill_in(joined)[0]  # exact on such small graphs
        assert found == width
        assert task.difficulty.dispersion == len({e.passage for e in edges(task)}) >= 2
        assert len(task.meta["distractors"]) == len(edges(task))
        if width == 3:
            continue  # nested loops take too long for a dozen constraints
        with_one = 0
        without = [answers(task.graph, world, without=e) for e in edges(task)]
        alone = answers(task.graph, world)
        for page in filter(None, task.meta["distractors"]):
            title = corpus[corpus.position(page)].title
            assert title not in alone  # it never meets all constraints
            assert any(title in found for found in without)  # but all others
            with_one += 1
        assert with_one >= 0.5 * len(edges(task))


# --- MedResearcher-R1 -----------------------------------------------------------------------------
def near_of(graph):
    return lambda node: sorted(graph[node])


def test_max_chain_of_a_path_of_ten_is_a_core_of_four():
    nodes, path = max_chain(near_of(nx.path_graph(10)), stream(0, "x"), range(10), 8)
    assert len(path) == 4
    assert all(abs(a - b) == 1 for a, b in pairwise(path))
    assert nodes[:4] == path
    assert 4 < len(nodes) <= 8


@pytest.mark.parametrize("name", SAMPLERS)
def test_samples_are_connected_and_small(name):
    for seed in range(10):
        graph = nx.gnm_random_graph(40, 70, seed=seed)
        for size in (5, 8):
            nodes, path = SAMPLERS[name](near_of(graph), stream(seed, "x"), range(40), size)
            assert len(nodes) == len(set(nodes)) <= size
            assert len(set(path)) == len(path)
            assert all(graph.has_edge(*p) for p in pairwise(path))
            assert not nodes or nx.is_connected(graph.subgraph(nodes))


def test_cheat_sheets_replay_to_the_answer():
    world, _, tasks = of("medresearcher")
    labels = {p.name.replace("_", " ") for p in world.schema.properties}
    stated = {
        (world.titles[int(s)], p.name, brute.text(world, int(k), int(o)))
        for s, k, o in zip(world.subject_of, world.property_of, world.object_of, strict=True)
        for p in [world.schema.properties[int(k)]]
    }
    for task in tasks:
        known = {n.value for n in task.graph.nodes if n.given}
        sheet = [tuple(step) for step in task.meta["solution"]]
        assert {step[1] for step in sheet} <= labels
        assert {(s, p.replace(" ", "_"), o) for s, p, o in sheet} <= stated
        for subject, _, obj in sheet:  # each step starts from what is known
            assert {subject, obj} & known, (task.question, sheet)
            known |= {subject, obj}
        assert {sheet[-1][0], sheet[-1][2]} & set(task.answers)


# --- ASearcher ------------------------------------------------------------------------------------
def test_asearcher_hops_are_the_injections_and_one():
    _world, _, tasks = of("asearcher", number=21)
    for task in tasks:
        log = task.meta["log"]
        assert {op for op, _ in log} <= {"inject", "fuzz", "brainstorm"}
        assert len(log) <= 16
        assert task.hops == log.count(["inject", True]) + 1
    assert {t.hops for t in tasks} == {2, 3, 4}
    kept = [kept for t in tasks for _, kept in t.meta["log"]]
    assert not all(kept)
    assert any(kept)


def test_a_value_between_two_others_is_solved_alike_three_times():
    world = constraint_worlds.random_world(0, people=80, films=70, cities=15)
    ctx = Context(world, make_corpus(world))
    year = world.schema.property_index("release")
    tried = 0
    for row in ctx.lookup.facts_with(year).tolist()[::9]:
        released = world.fact(row)
        film = released.subject
        graph = ConstraintGraph((Node(film),)).with_fact(ctx, released)
        for fact in ctx.lookup.objects(film, world.schema.property_index("director")):
            graph = graph.with_fact(ctx, fact)
        values = ctx.lookup.values_of(year)
        at = values.index(released.object)
        ends = values[max(0, at - 15)], values[min(len(values) - 1, at + 15)]
        graph = graph.changed(1, given=False, bounds=ends)
        found = {world.titles[e] for e in candidates(ctx, graph)}
        asked = draft(ctx, "spans", graph, shape="span")
        if asked is not None and len(graph.edges) == 2:
            tried += 1
            assert set(Solver(world).solve(asked.graph)) == answers(asked.graph, world) == found
    assert tried > 3
