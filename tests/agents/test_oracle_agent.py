from dataclasses import replace

import pytest

from searchgym.agents.oracle import OracleAgent
from searchgym.core import run_episode
from searchgym.dialects import DIALECTS, get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import TaskError
from searchgym.evaluation import episode_for, evaluate
from searchgym.types import ABSTAIN, Answer, Delegate, Search
from tests.small import CORPUS, TASKS


def _setting(**keywords: object) -> SearchEnv:
    return SearchEnv(**{"corpus": CORPUS, "tasks": TASKS, **keywords})


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_solves_in_every_dialect(dialect: str) -> None:
    shared = _setting(dialect=dialect)
    result = evaluate(OracleAgent(shared.tasks), shared)
    assert [(row.em, row.searches, row.invalid) for row in result.rows] == [(1, 2, 0), (1, 1, 0)]


def test_believes_only_what_it_was_shown() -> None:
    unproved = replace(TASKS[0], queries=("Aldor founder", "zzz nothing"))
    shared = _setting(tasks=[unproved])
    episode = run_episode(
        episode_for(shared, unproved, 0), OracleAgent(shared.tasks), shared.toolbox
    )
    assert [turn.action for turn in episode.turns] == [
        Search(("Aldor founder",)), Search(("zzz nothing",)), Answer(ABSTAIN),
    ]  # fmt: skip
    outcome = episode.outcome()
    assert outcome is not None
    assert outcome.parts["em"] == 0


def test_abstains_when_the_budget_is_too_small() -> None:
    shared = _setting(max_turns=2)
    assert [r.em for r in evaluate(OracleAgent(shared.tasks), shared).rows] == [0, 1]
    shared = _setting(max_queries=1)
    assert [r.em for r in evaluate(OracleAgent(shared.tasks), shared).rows] == [0, 1]


def test_repeats_a_query_only_when_told() -> None:
    lost = replace(TASKS[1], queries=("zzz",))
    shared = _setting(tasks=[lost])
    for attempts in (1, 3):
        row = evaluate(OracleAgent([lost], attempts=attempts), shared).rows[0]
        assert row.searches == attempts


def test_unknown_and_ambiguous_questions() -> None:
    shared = _setting()
    with pytest.raises(TaskError, match=r"knows no task that asks.*born"):
        evaluate(OracleAgent(TASKS[1:]), shared)
    with pytest.raises(TaskError, match="'t2' and 't9' ask the same"):
        OracleAgent([*TASKS, replace(TASKS[1], id="t9", answers=("Osten",))])
    OracleAgent([*TASKS, replace(TASKS[1], id="t9")])


def test_reports_back_from_a_delegated_context() -> None:
    shared = _setting(delegate=True, dialect="plain")
    episode = episode_for(shared, TASKS[1], 0)
    dialect = get_dialect(shared.rules.dialect)
    episode.act(dialect.render_action(Delegate("find the founder")))
    run_episode(episode, OracleAgent(shared.tasks), shared.toolbox)
    outcome = episode.outcome()
    assert outcome is not None
    assert [turn.action for turn in episode.turns] == [
        Delegate("find the founder"),
        Answer("done"),
        Search(("Aldor founder",)),
        Answer("Mira Venn"),
    ]
    assert outcome.parts["em"] == 1
