"""Questions about relations that no page states: proofs, evidence and the oracle's way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from searchgym.corpora import GeneratedCorpus, render
from searchgym.engines import build_engine
from searchgym.envs import SearchEnv, check_env
from searchgym.errors import TaskError
from searchgym.tasks.audit import Prover, verify
from searchgym.tasks.build import build_tasks
from searchgym.tasks.families import make_family
from searchgym.tasks.records import task_from_dict, task_to_dict
from searchgym.tasks.solver import Solver
from searchgym.types import ABSTAIN, GraphEdge, GraphNode, ReasoningGraph, Task
from searchgym.worlds import Phrases, Rule, World, generate, load_schema
from searchgym.worlds import derived as derived_of

from . import brute
from .tiny import SCHEMA, make_corpus, make_world, random_world


def asked(label: str, inverse: bool = True) -> dict[str, Phrases]:
    return {
        "question": Phrases((f"What is the {label} of {{s}}?",), (f"{{s}} has which {label}?",)),
        "noun": Phrases((f"the {label} of {{s}}",), (f"the {label} that {{s}} has",)),
        "inverse": Phrases(
            (f"the person with the {label} {{o}}",), (f"the person whose {label} {{o}} is",)
        )
        if inverse
        else Phrases((), ()),
    }  # fmt: skip


RULES = (
    Rule("birth_country", "birthplace/country", **asked("birth country")),
    Rule("in_law_city", "spouse/birthplace", **asked("city in law")),
    Rule("boss", "^actor/director", **asked("boss")),
    Rule("eldest_actor", "actor", **asked("eldest actor", inverse=False), least="birth_date"),
    Rule("colleague", "^actor/actor", **asked("colleague")),
)
RULED = replace(SCHEMA, rules=RULES)
COUNTS = {
    "derived-simple": 30, "derived-chain": 30, "derived-comparison": 30,
    "derived-intersection": 10, "derived-count": 15, "derived-parallel": 15,
    "derived-superlative": 8, "derived-unanswerable": 10, "derived-set": 15, "derived-chain-5": 10,
}  # fmt: skip
NAMES = {rule.name for rule in RULES}


@pytest.fixture(scope="module", params=[0, 1])
def asked_of(request: pytest.FixtureRequest) -> tuple[World, GeneratedCorpus, list[Task]]:
    world = replace(random_world(request.param), schema=RULED)
    corpus = make_corpus(world)
    return world, corpus, build_tasks(world, corpus, counts=COUNTS, seed=request.param)


def test_every_family_asks_of_a_rule(asked_of) -> None:
    _, _, tasks = asked_of
    assert Counter(t.family for t in tasks) == COUNTS
    for task in tasks:
        assert any(e.property in NAMES for e in task.graph.edges), task.question
        assert task.hops == task.difficulty.hops >= 1


def test_the_solver_agrees_with_nested_loops_over_all_facts(asked_of) -> None:
    world, _, tasks = asked_of
    solver = Solver(world)
    for task in tasks[::4]:
        found = set(solver.solve(task.graph))
        assert found == brute.answers(task.graph, derived_of(world)), task.question
        if not task.should_abstain:
            assert found <= set(task.answers)


def test_the_parts_are_stated_where_the_evidence_says(asked_of) -> None:
    world, corpus, tasks = asked_of
    for task in tasks:
        if task.answers == (ABSTAIN,):
            continue
        for edge in task.graph.edges:
            assert bool(edge.parts) == (edge.property in NAMES)
            for fact, passage in edge.stated():
                where = corpus.position(passage)
                assert where in {s.passage for s in corpus.statements(fact)}
                assert passage in task.evidence
                assert fact < world.n_facts
        assert len(task.evidence) == len(task.queries)


def test_the_audit_keeps_the_true_and_rejects_the_forged(asked_of) -> None:
    world, corpus, tasks = asked_of
    engine = build_engine("bm25", corpus)
    kept = verify(tasks, world, corpus, engine, k=20).kept
    assert len(kept) > 0.7 * len(tasks)
    forged = 0
    for task in kept:
        edges = list(task.graph.edges)
        at = next((i for i, e in enumerate(edges) if len(e.parts) > 1), None)
        if at is None:
            continue
        edges[at] = replace(edges[at], parts=edges[at].parts[:-1])
        graph = replace(task.graph, edges=tuple(edges))
        (reject,) = verify([replace(task, graph=graph)], world, corpus, engine, k=20).rejected
        assert reject.reason == "wrong fact"
        assert "does not follow" in reject.detail
        forged += 1
        if forged == 10:
            break
    assert forged == 10


def test_records_keep_the_parts(asked_of) -> None:
    _, _, tasks = asked_of
    assert [task_from_dict(task_to_dict(t)) for t in tasks] == tasks


def test_a_worked_example() -> None:
    """Ann was born in Bo, which lies in Cy: Cy is her country of birth, on no page."""
    world = make_world(
        ("person", "city", "country"),
        [(0, "birthplace", 1), (1, "country", 2)],
        ("Ann", "Bo", "Cy"),
    )
    world = replace(world, schema=replace(SCHEMA, rules=RULES[:1]))
    corpus = make_corpus(world)
    (task,) = build_tasks(world, corpus, counts={"derived-simple": 1})
    assert task.question == "What is the birth country of Ann?"
    assert task.answers == ("Cy",)
    assert task.hops == 2
    assert task.difficulty.dispersion == 2
    assert task.evidence == ("p00000", "p00001")
    assert task.queries == ("Ann", "Bo")
    (edge,) = task.graph.edges
    assert edge.fact == -1
    assert edge.parts == ((0, "p00000"), (1, "p00001"))


def test_what_readers_take_for_granted_leaves_a_question_uncertain() -> None:
    """A page that names a father and no mother suggests his wife: nobody asks for her children."""
    world = generate(load_schema("encyclopedia-v1"), entities=1500, seed=0)
    index = world.schema.property_index
    stated = {
        name: {s: o for s, p, o in zip(world.subject_of.tolist(), world.property_of.tolist(),
                                       world.object_of.tolist(), strict=True) if p == index(name)}
        for name in ("father", "mother", "spouse")
    }  # fmt: skip
    wife_of = {y: stated["spouse"].get(f) for y, f in stated["father"].items()}
    unsure = {w for y, w in wife_of.items() if w and y not in stated["mother"]}
    prover = Prover(world, render(world))
    faults: dict[bool, set[str]] = {True: set(), False: set()}
    for mother in {*unsure, *stated["mother"].values()}:
        for prop in ("mother", "parent"):
            nodes = (
                GraphNode("a", "person", world.titles[mother], True),
                GraphNode("b", "person", ""),
            )
            graph = ReasoningGraph(nodes, (GraphEdge("b", prop, "a", -1, ""),), "", "count:b")
            fault = prover.fault(Task("", "", ("0",), graph=graph))
            faults[mother in unsure].add(fault[0])
    assert faults[True] == {"not certain"}
    assert faults[False] & {"answer differs", "wrong fact"}
    assert "not certain" not in faults[False]


def test_without_rules_and_with_families_that_cannot_use_them() -> None:
    world = random_world(0)
    with pytest.raises(TaskError, match="has no rules"):
        build_tasks(world, make_corpus(world), counts={"derived-simple": 1})
    for name in ("derived-masked", "derived-difference"):
        with pytest.raises(TaskError, match="stands on none"):
            make_family(name)
    with pytest.raises(TaskError, match="unknown task family"):
        make_family("derived-chains")


def test_the_oracle_solves_them_and_the_checker_finds_no_fault() -> None:
    env = SearchEnv(
        world={"entities": 500}, max_turns=20,
        tasks={"derived-simple": 12, "derived-chain": 6, "derived-set": 6, "at_most": True},
    )  # fmt: skip
    check_env(env, seeds=2)
    for task in env.tasks:
        env.reset(options={"task_id": task.id})
        if env.episode.turns_left < len(env.oracle()):
            continue
        for action in env.oracle():
            _, reward, *_ = env.step(action)
        assert reward == 1.0, task.question
