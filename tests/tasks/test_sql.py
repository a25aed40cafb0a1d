"""A question's statement gives what the symbolic solver gives, on a thousand questions."""

from __future__ import annotations

from collections import Counter

import gymnasium as gym
import pytest

from searchgym.envs import SearchEnv
from searchgym.errors import CardError, TaskError
from searchgym.scoring import score_answer
from searchgym.tasks.families import make_family
from searchgym.tasks.solver import Solver
from searchgym.tasks.sql import KEYWORDS, literal, quoted, statement
from searchgym.types import GraphEdge, GraphNode, ReasoningGraph, Task
from searchgym.worlds import Tables

ASKED = 1_060


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    return SearchEnv(tools=["sql"], dialect="json_tools", tasks={"sql": ASKED, "at_most": True})


def rows(env: SearchEnv, query: str) -> list[str]:
    database = env.toolbox.tools["sql"].database  # type: ignore[attr-defined]
    return ["; ".join(map(str, row)) for row in database.query(query, max_rows=100).rows]


def test_a_thousand_statements_answer_as_the_solver(env: SearchEnv) -> None:
    assert len(env.tasks) >= 1_000
    assert env.world is not None
    solver, kinds = Solver(env.world), Counter[str]()
    for task in env.tasks:
        assert task.graph is not None
        found = rows(env, task.meta["sql"])
        assert score_answer(task, "; ".join(found))["em"] == 1.0, (task.question, found)
        (proved,) = solver.solve(task.graph)
        if task.items:
            assert sorted(found) == sorted(proved.split("; "))
        else:
            assert score_answer(Task("", "?", task.answers), proved)["em"] == 1.0
        kinds[task.meta["shape"].partition(":")[0]] += 1
    assert min(kinds.values()) >= 50
    assert set(kinds) == {"aggregate", "superlative", "count", "difference", "chain",
                          "intersection", "set", "comparison"}  # fmt: skip


@pytest.mark.parametrize("family", ["simple", "parallel", "follow_up"])
def test_other_families_have_statements_too(family: str) -> None:
    counts = {"mine": {"use": "sql", "of": [family], "count": 12}}
    env = SearchEnv(tools=["sql"], dialect="json_tools", world={"entities": 500}, tasks=counts)
    for task in env.tasks:
        assert (task.family, task.meta["calls"][0]["tool"]) == ("sql", "sql")
        if family == "parallel":
            continue  # two columns, and differences
        assert score_answer(task, rows(env, task.meta["sql"])[0])["em"] == 1.0


def test_names_and_texts_that_sqlite_reads_otherwise_are_quoted(env: SearchEnv) -> None:
    assert (quoted("cast"), quoted("film"), quoted("a b"), quoted('a"b')) == (
        '"cast"', "film", '"a b"', '"a""b"',
    )  # fmt: skip
    assert (literal("Gehjun's"), literal(12)) == ("'Gehjun''s'", "12")
    assert env.world is not None
    names = [n for t in Tables(env.world.schema).by_name.values() for n in (t.name, *t.columns)]
    assert KEYWORDS & set(names), "the shipped schema has such a name: 'cast'"
    for table in Tables(env.world.schema).by_name.values():
        columns = ", ".join(map(quoted, table.columns))
        assert rows(env, f"SELECT {columns} FROM {quoted(table.name)} LIMIT 1")


def test_what_has_no_statement_is_named(env: SearchEnv) -> None:
    assert env.world is not None
    nodes = (GraphNode("a", "person", "X", True), GraphNode("b", "person", ""))
    graph = ReasoningGraph(nodes, (GraphEdge("a", "grandfather", "b", -1, ""),), "b")
    with pytest.raises(TaskError, match="no table holds 'grandfather'"):
        statement(env.world, graph)
    stated = (GraphEdge("a", "father", "b", -1, ""),)
    with pytest.raises(TaskError, match="'between:a,b' has no statement"):
        statement(env.world, ReasoningGraph(nodes, stated, "", "between:a,b"))
    with pytest.raises(CardError, match="'of' lists families"):
        make_family({"use": "sql", "of": []})


def test_the_oracle_runs_the_statement() -> None:
    env = gym.make("searchgym/SqlQA-v0", tasks={"sql": 9}, world={"entities": 600})
    for seed in range(9):
        env.reset(seed=seed)
        plan = env.unwrapped.oracle()  # type: ignore[attr-defined]
        assert len(plan) == 2
        env.step(plan[0])
        assert env.step(plan[1])[1] == 1.0
