"""Families by name, path, function, class and table; proofs; worlds that hold fewer tasks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest

import searchgym  # noqa: F401  (registers the environments)
from searchgym.curricula import make_curriculum
from searchgym.engines import build_engine
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, TaskError
from searchgym.tasks.audit import verify
from searchgym.tasks.build import build_tasks
from searchgym.tasks.families import FAMILIES, make_family, wanted_families
from searchgym.tasks.solver import Solver
from searchgym.types import GraphEdge, GraphNode, ReasoningGraph
from tests.kgs.random_graphs import generated

from . import mine
from .tiny import make_world

SMALL = {"world": {"entities": 300}}


def families_of(tasks: Any) -> dict[str, int]:
    return dict(Counter(task.family for task in tasks))


# --- how a family is written ----------------------------------------------------------------------
def test_every_registered_family_can_be_made() -> None:
    for name in FAMILIES.shipped:
        family = make_family(name)
        assert (family.name, family.proofs) == (name, True)


def label(value: Any) -> str:
    """A name for a parameter, the same in every process."""
    plain = re.sub(r" at 0x[0-9a-f]+", "", str(value))
    return plain[:60]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("tests.tasks.mine:born_before", "born_before"),
        ("tests.tasks.mine:Every", "every"),
        ({"use": "tests.tasks.mine:Every", "word": "odd"}, "every"),
        ({"use": "tests.tasks.mine:born_before", "year": 1900}, "born_before"),
        ({"use": "chain", "hops": 3}, "chain"),
        (mine.again, "again"),
        (mine.Every("x"), "every"),
        (mine.Every, "every"),
    ],
    ids=label,
)
def test_all_the_ways_to_name_one(spec: Any, name: str) -> None:
    assert make_family(spec).name == name


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"simpel": 3}, "Did you mean 'simple'"),
        ({"simple": -1}, "must be 0 or more"),
        ({"simple": True}, "must be 0 or more"),
        ({"simple": 10**400}, "must be 0 or more"),
        ({"simple": 2.5}, "must be 0 or more"),
        ({"mine": {"use": "simple"}}, "must be 0 or more"),
        ({"simple": 1, "at_most": 1}, "true or false"),
        (
            {"tests.tasks.mine:Every": 1, "every": {"use": "simple", "count": 1}},
            "two task families",
        ),
        ({"a b": {"use": "simple", "count": 1}}, "letters, digits"),
        ({"tests.tasks.mine:nothing": 1}, "cannot load"),
        ({"chain-21": 1}, "unknown task family"),
        ({"x": {"use": "chain", "hop": 2, "count": 1}}, "hop"),
    ],
)
def test_wrong_tables_say_what_is_wrong(counts: Any, said: str) -> None:
    with pytest.raises((TaskError, CardError), match=said):
        wanted_families(counts)


def test_foreign_families_in_an_environment() -> None:
    counts = {
        "simple": 5,
        "tests.tasks.mine:born_before": 6,
        "old": {"use": "tests.tasks.mine:born_before", "year": 1800, "count": 4},
        "tests.tasks.mine:again": 7,
        mine.Every("which"): 3,
    }
    env = gym.make("SearchQA-v0", tasks=counts, **SMALL).unwrapped
    kept = families_of(env.tasks)  # type: ignore[attr-defined]
    assert kept.pop("again") >= 5  # proved like ours: what is not retrieved goes
    assert kept.pop("simple") >= 3
    assert kept == {"born_before": 6, "old": 4, "every": 3}
    assert {t.answers for t in env.tasks if t.family == "old"} == {("no",)}  # type: ignore[attr-defined]
    assert len({t.id for t in env.tasks}) == len(env.tasks)  # type: ignore[attr-defined]
    again = SearchEnv(tasks=counts, families=["every"], **SMALL)
    assert families_of(again.tasks) == {"every": 3}
    env.reset(seed=0)


def test_declared_proofs_are_checked() -> None:
    world, corpus = generated()
    engine = build_engine("bm25", corpus)
    built = build_tasks(
        world, corpus, counts={"tests.tasks.mine:liar": 3, "tests.tasks.mine:wrong": 3,
                               "tests.tasks.mine:Every": 2}
    )  # fmt: skip
    found = verify(built, world, corpus, engine, exempt={"every"})
    assert families_of(found.kept) == {"every": 2}
    assert {r.reason for r in found.rejected} == {"no graph", "answer differs"}
    assert len(verify(built, world, corpus, engine).kept) == 0


def test_what_a_foreign_task_needs_must_be_in_the_corpus() -> None:
    world, corpus = generated()
    built = build_tasks(world, corpus, counts={"tests.tasks.mine:Every": 1})
    broken = [replace(built[0], evidence=("nowhere",))]
    found = verify(broken, world, corpus, build_engine("bm25", corpus), exempt={"every"})
    assert [r.reason for r in found.rejected] == ["not stated"]


# --- worlds that hold fewer -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("family", "said"),
    [
        (mine.raising, "'raising' failed at its turn 0: ValueError: no pages"),
        (mine.texts, "'texts' gave str at its turn 0 where a Task, a Draft or None was expected"),
        (mine.unanswered, "task 'unanswered-0' .* answers must be a tuple of at least one text"),
    ],
)
def test_a_family_that_cannot_ask_is_named(family: Any, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        SearchEnv(**SMALL, tasks={family: 2})


def test_a_small_world_under_the_default_environment_gives_what_it_holds() -> None:
    with pytest.warns(UserWarning, match=r"asked for 100 tasks of family 'count', .* only \d+"):
        env = gym.make("SearchQA-v0", **SMALL).unwrapped
    assert 400 < len(env.tasks) < 1000  # type: ignore[attr-defined]
    with pytest.raises(TaskError, match="ask for fewer or generate a larger world"):
        gym.make("SearchQA-v0", tasks={"count": 100}, **SMALL)
    with pytest.warns(UserWarning, match="only"):
        SearchEnv(tasks={"count": 100, "at_most": True}, **SMALL)
    with pytest.warns(UserWarning, match="only"):
        SearchEnv(world={"entities": 60})


# --- the new families -----------------------------------------------------------------------------
def test_a_sum_on_paper() -> None:
    """Two cities of one country with 20 and 30 residents: 50; none without one of the numbers."""
    rows = [(0, "country", 3), (1, "country", 3), (0, "residents", 20), (1, "residents", 30),
            (2, "country", 4), (2, "residents", 99)]  # fmt: skip
    types = ["city", "city", "city", "country", "country"]
    world = make_world(types, rows)
    nodes = (
        GraphNode("c", "country", world.titles[3], True), GraphNode("m", "city", ""),
        GraphNode("v", "residents", ""),
    )  # fmt: skip
    edges = (GraphEdge("m", "country", "c", 0, ""), GraphEdge("m", "residents", "v", 0, ""))
    graph = ReasoningGraph(nodes, edges, "", "sum:m=v")
    assert Solver(world).solve(graph) == ("50",)
    others = [row for row in rows if row != (1, "residents", 30)]
    twins = make_world(types, [*others, (1, "residents", 20)])
    assert Solver(twins).solve(graph) == ("40",)  # two equal numbers are two numbers
    gap = make_world(types, others)
    assert Solver(gap).solve(graph) == ()


def test_masked_tasks_are_what_masksearch_orders_by() -> None:
    world, corpus = generated()
    tasks = build_tasks(world, corpus, counts={"masked": 40})
    assert Counter(t.meta["masks"] for t in tasks) == {1: 10, 2: 10, 3: 10, 4: 10}
    for task in tasks:
        assert task.question.count("[mask") >= task.meta["masks"] == task.hops
    curriculum = make_curriculum({"use": "masksearch", "by": "masks", "min_episodes": 5})
    first = {tasks[curriculum.choose(tasks, key)].meta["masks"] for key in range(30)}
    assert first == {1}
    for _ in range(5):
        curriculum.observe("x", 1.0)
    second = {tasks[curriculum.choose(tasks, key * 7919)].meta["masks"] for key in range(60)}
    assert second == {1, 2}
