"""Which facts are taught, what it means to know a task, and how that is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from searchgym.envs import SearchEnv
from searchgym.errors import DataError, TaskError
from searchgym.types import GraphEdge, GraphNode, ReasoningGraph, Task
from searchgym.worlds import World
from searchgym_agents.experts.hops import walked
from searchgym_agents.knower.knowledge import (
    ABOUT,
    FACTS,
    Knowledge,
    facts_of,
    shown_facts,
    taught_facts,
)
from searchgym_agents.knower.measures import QuestionGroup, group_of, measured_tasks
from searchgym_agents.knower.recipe import KnowerRecipe
from searchgym_agents.knower.writer import Pages, restricted

from .conftest import RECIPE


def path_task(*facts: tuple[int, bool], operation: str = "lookup") -> Task:
    """A task over these (fact, inverse) hops."""
    nodes = [GraphNode(f"n{i}", "thing", f"v{i}", given=i == 0) for i in range(len(facts) + 1)]
    edges = [
        GraphEdge(*((f"n{i + 1}", "p", f"n{i}") if back else (f"n{i}", "p", f"n{i + 1}")), fact, "")
        for i, (fact, back) in enumerate(facts)
    ]
    graph = ReasoningGraph(tuple(nodes), tuple(edges), nodes[-1].id, operation)
    return Task("t", "?", ("a",), hops=len(facts), graph=graph)


# --- what is drawn ----------------------------------------------------------------------------
def test_a_smaller_share_is_part_of_a_larger_one(world: World) -> None:
    shares = (0.0, 0.1, 0.3, 0.6, 0.9, 1.0)
    drawn = [taught_facts(world, share, 7) for share in shares]
    for share, less, more in zip(shares, drawn, drawn[1:], strict=False):
        assert less[~more].sum() == 0
        # a pair that states one thing is not torn apart to hit the share
        assert -2 / world.n_facts <= less.mean() - share <= 0.5 / world.n_facts
    assert not drawn[0].any()
    assert drawn[-1].all()
    assert not np.array_equal(taught_facts(world, 0.3, 8), drawn[2])


def test_facts_that_give_one_another_away_go_together(world: World) -> None:
    mirrored = implied = 0
    for seed in range(6):
        taught, shown = taught_facts(world, 0.5, seed), shown_facts(world, 0.5, seed)
        for row in range(world.n_facts):
            fact, prop = world.fact(row), world.prop(world.fact(row))
            if not (prop.symmetric or prop.within):
                continue
            back = world.schema.property_index(prop.within) if prop.within else fact.property
            (other,) = (f for f in world.objects(fact.object, back) if f.object == fact.subject)
            assert taught[row] == taught[other.id]
            assert shown[row] == shown[other.id]
            mirrored += prop.symmetric
            implied += bool(prop.within)
    assert mirrored >= 6
    assert implied >= 6


def test_nothing_is_both_taught_and_shown_as_unknown(knowledge: Knowledge, world: World) -> None:
    assert knowledge.taught.isdisjoint(knowledge.shown)
    others = world.n_facts - len(knowledge.taught)
    assert 0.3 * others < len(knowledge.shown) < 0.7 * others
    silent = Knowledge.drawn(replace(RECIPE, unknown="nothing"), world)
    assert silent.taught == knowledge.taught
    assert not silent.shown


# --- what knowing a task means ------------------------------------------------------------------
def test_a_task_is_known_if_every_fact_of_its_graph_is() -> None:
    known = Knowledge(KnowerRecipe(), "w", frozenset({1, 2, 5}), frozenset({3}))
    assert known.knows(path_task((1, False)))
    assert known.knows(path_task((1, False), (2, True), (5, False)))
    assert not known.knows(path_task((1, False), (3, False)))
    assert not known.knows(path_task((3, False), (1, False)))
    assert not known.knows(path_task((-1, False))), "what the world lacks was not taught"
    for graph in (None, replace(path_task((1, False)).graph, edges=())):  # type: ignore[type-var]
        with pytest.raises(TaskError, match="names no facts"):
            known.knows(Task("t", "?", ("a",), graph=graph))  # type: ignore[arg-type]


def test_groups_say_what_is_missing_first() -> None:
    known = Knowledge(KnowerRecipe(), "w", frozenset({1, 2}), frozenset({3}))
    assert group_of(path_task((1, False), (2, True)), known) == QuestionGroup(2, "taught")
    assert group_of(path_task((1, False), (3, False)), known) == QuestionGroup(2, "untaught, shown")
    assert group_of(path_task((4, False), (3, False)), known) == QuestionGroup(2, "untaught")
    forward = replace(known, recipe=KnowerRecipe(inverse=False))
    assert group_of(path_task((1, False)), forward) == QuestionGroup(1, "taught")
    assert group_of(path_task((1, True)), forward) == QuestionGroup(1, "backward")
    assert group_of(path_task((4, True)), forward) == QuestionGroup(1, "untaught")


def test_a_walk_says_which_way_each_fact_is_read(made: SearchEnv) -> None:
    path = walked(path_task((1, False), (2, True)))
    assert [(edge.fact, inverse) for edge, inverse in path] == [(1, False), (2, True)]
    for task in made.tasks:
        assert [edge.fact for edge, _ in walked(task)] == list(facts_of(task))
        if task.hops == 1:
            assert walked(task)[0][1] == (task.meta["shape"] == "inverse")
    with pytest.raises(TaskError, match="no path"):
        walked(path_task((1, False), operation="count"))


def test_known_tasks_are_asked_of_the_right_world(made: SearchEnv, knowledge: Knowledge) -> None:
    known = knowledge.known_tasks(made)
    assert known == {t.id: set(facts_of(t)) <= knowledge.taught for t in made.tasks}
    assert 0 < sum(known.values()) < len(known)
    chains = [t for t in made.tasks if t.hops > 1]
    assert 0 < len(measured_tasks(made, knowledge)) - 30 < len(chains)
    other = replace(RECIPE, seed=5).env(tasks={"simple": 5})
    with pytest.raises(DataError, match="not of"):
        knowledge.known_tasks(other)


# --- on disk ------------------------------------------------------------------------------------
def test_it_is_read_back_and_says_each_fact(
    knowledge: Knowledge, world: World, tmp_path: Path
) -> None:
    knowledge.save(tmp_path, world)
    assert Knowledge.load(tmp_path) == knowledge
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([FACTS, ABOUT])
    rows = [json.loads(line) for line in (tmp_path / FACTS).read_text().splitlines()]
    assert [row["fact"] for row in rows] == list(range(world.n_facts))
    for row in rows:
        fact = world.fact(row["fact"])
        assert row["subject"] == world.titles[fact.subject]
        assert row["relation"] == world.prop(fact).name
        if world.prop(fact).is_relation:
            assert row["object"] == world.titles[fact.object]
        assert row["taught"] == (row["fact"] in knowledge.taught)
        assert row["world"] == knowledge.world
    knowledge.save(tmp_path, world)  # once more is fine
    with pytest.raises(DataError, match="other facts"):
        Knowledge.drawn(replace(RECIPE, taught=0.4), world).save(tmp_path, world)
    assert Knowledge.load(tmp_path) == knowledge


def test_broken_notes_are_named(knowledge: Knowledge, world: World, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is missing: 'searchgym knower"):
        Knowledge.load(tmp_path)
    knowledge.save(tmp_path, world)
    whole = (tmp_path / FACTS).read_text()
    for text, what in (
        (whole[:-20], "cannot be read"),
        (whole.replace('"taught"', '"thought"'), "cannot be read"),
        (whole.replace(knowledge.world, "0" * 16, 1), "facts of other worlds"),
    ):
        (tmp_path / FACTS).write_text(text)
        with pytest.raises(DataError, match=what):
            Knowledge.load(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"taught": 1.2}, "taught is a share"),
        ({"shown": -0.1}, "shown is a share"),
        ({"taught": float("nan")}, "taught is a share"),
        ({"unknown": "serch"}, "Did you mean 'search'"),
        ({"entities": 0}, "at least one entity"),
    ],
)
def test_impossible_recipes_are_refused(wrong: dict[str, object], what: str) -> None:
    with pytest.raises(DataError, match=what):
        KnowerRecipe(**wrong)  # type: ignore[arg-type]


# --- pages of what was taught -------------------------------------------------------------------
def test_a_restricted_world_holds_the_kept_facts(world: World, knowledge: Knowledge) -> None:
    kept = np.isin(np.arange(world.n_facts), list(knowledge.taught))
    part = restricted(world, kept)
    assert part.n_facts == kept.sum()
    for entity in range(world.n_entities):
        whole = [f[1:] for f in world.facts_of(entity) if kept[f.id]]
        assert [f[1:] for f in part.facts_of(entity)] == whole
        about = [f[1:] for f in world.facts_about(entity) if kept[f.id]]
        assert [f[1:] for f in part.facts_about(entity)] == about
    pages = Pages(world, kept)
    for fact in knowledge.taught:
        row = world.fact(fact)
        page = pages.corpus[row.subject]
        assert page.title == world.titles[row.subject]
        assert pages.written(fact) in page.text
    everything = restricted(world, np.ones(world.n_facts, dtype=bool))
    for name in ("subject_of", "indptr", "inverse_order", "inverse_indptr"):
        assert np.array_equal(getattr(everything, name), getattr(world, name)), name
    assert len(Pages(world, np.zeros(world.n_facts, dtype=bool)).corpus) == world.n_entities
