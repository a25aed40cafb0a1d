"""The learner of SqlQA-v0: its candidates are SQL, and training finds the right ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from searchgym.envs import SearchEnv
from searchgym.evaluation import evaluate
from searchgym_agents.statements import (
    FORMS,
    StatementAgent,
    answer_of,
    statements,
    tables_of,
    train,
)


def small(**changes: object) -> SearchEnv:
    return SearchEnv(**{
        "world": {"entities": 600}, "tasks": {"sql": 45}, "tools": ["sql"],
        "dialect": "json_tools", "max_turns": 6, **changes,
    })  # fmt: skip


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    return small()


def test_candidates_are_statements_that_run(env: SearchEnv) -> None:
    described = env.rules.tools[0].description
    tables = tables_of(described)
    database = env.toolbox.tools["sql"].database  # type: ignore[attr-defined]
    assert [name for name, _ in tables] == [table.name for table in database.tables]
    forms, ran = Counter[str](), 0
    for task in env.tasks[:6]:
        made = statements(task.question, tables)
        assert 400 < len(made) < 5_000
        forms.update(one.form for one in made)
        for one in made[:: len(made) // 40]:
            database.query(one.sql)
            ran += 1
    assert set(forms) == set(FORMS)
    assert ran > 200


def test_what_the_tool_shows_becomes_an_answer() -> None:
    assert answer_of('<x>{"tool": "sql", "output": "title\\nA\\nB"}</x>') == "A; B"
    assert answer_of("count(*)\n12") == "12"
    assert answer_of("No rows.") == "unanswerable"


@pytest.mark.contract
def test_training_beats_the_untrained_and_is_the_same_every_time(env: SearchEnv) -> None:
    paid = small(reward="reasoning_sql")
    trained, again = (train(paid, 3, steps=25, questions=16) for _ in range(2))
    for name, weights in trained.weights.items():
        assert np.array_equal(weights, again.weights[name])
    before, after = (
        evaluate(agent, env, name="x").means["em"].mean for agent in (StatementAgent(), trained)
    )
    assert after >= before + 0.1, (before, after)
