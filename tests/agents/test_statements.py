"""The learner of SqlQA-v0: its candidates are SQL, and training finds the right ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from searchgym.envs import SearchEnv
from searchgym.evaluation import evaluate
from searchgym_agents.statements import (
    FORMS,
    ROWS,
    TRIED,
    StatementAgent,
    answer_of,
    kind_of,
    nearness,
    statements,
    tables_of,
    train,
    vectors_of,
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


def test_what_a_statement_gave_is_told_apart() -> None:
    answers = ("unanswerable", "None", "0", "Rome", "A; B", "A; B; C; D")
    assert [ROWS[kind_of(answer)] for answer in answers] == [
        "none", "none", "zero", "one", "few", "many",
    ]  # fmt: skip


def test_the_likeliest_of_what_was_run_is_answered(env: SearchEnv) -> None:
    """Five different statements are run; weights that trust only statements with several rows
    choose among those."""
    agent = StatementAgent()
    agent.weights["right"][:] = 1e-9
    agent.weights["right"][:, ROWS.index("many")] = 1.0
    many = 0
    for task in env.tasks[:12]:
        env.reset(seed=0, options={"task_id": task.id})
        texts = []
        while env.episode.phase != "done":
            (request,) = env.requests()
            texts += agent.act([request])
            env.step(texts[-1])
        assert len(texts) == len(set(texts)) == TRIED + 1
        shown = [answer_of(s.text) for s in env.episode.contexts.segments
                 if s.kind == "results" and s.author == "env"]  # fmt: skip
        if any(ROWS[kind_of(rows)] == "many" for rows in shown):
            outcome = env.episode.outcome()
            assert outcome is not None
            assert ROWS[kind_of(outcome.answer)] == "many"
            many += 1
    assert many


def test_columns_of_the_same_meaning_are_near() -> None:
    """In words that no column's name has: "houses how many people" is nearer to a population."""
    said = vectors_of("houses how many people")
    population, area = (
        nearness(f"city.{name}", said, said.mean(0)) for name in ("population", "area")
    )
    assert population[0] > area[0]
