import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from searchgym import ConstantAgent, FirstHitAgent
from searchgym.agents import OracleAgent
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, EpisodeError, EvaluationError
from searchgym.evaluation.comparison import compare, differing
from searchgym.evaluation.metrics import declared_shares, infra_by_searches, row_of
from searchgym.evaluation.result import EvalResult
from searchgym.evaluation.run import episode_for, evaluate
from searchgym.types import ABSTAIN, CallContext, Failure, Query, Ranking, Search, Task, TurnRequest
from tests.small import CORPUS, TASKS

REFUSE = Task("t3", "Who founded Osten?", (ABSTAIN,), family="unanswerable", should_abstain=True)


def _setting(**keywords: object) -> SearchEnv:
    return SearchEnv(**{"corpus": CORPUS, "tasks": [*TASKS, REFUSE], **keywords})


def test_oracle_rows_by_hand() -> None:
    shared = _setting()
    result = evaluate(OracleAgent(shared.tasks), shared, name="oracle")
    first, second, third = result.rows
    assert (first.em, first.f1, first.cover_em, first.evidence_recall) == (1, 1, 1, 1)
    assert (first.searches, first.turns, first.invalid, first.end) == (2, 3, 0, "answered")
    assert (second.searches, second.turns) == (1, 2)
    # two of the passages its two searches showed are gold; the first shown is one of them
    shown = {1: 1 / len(_shown(shared, 1)), 0: 2 / len(_shown(shared, 0))}
    assert (first.evidence_precision, second.evidence_precision) == (shown[0], shown[1])
    assert (first.evidence_mrr, second.evidence_mrr) == (1, 1)
    assert 0.5 < first.evidence_ndcg <= 1
    assert second.evidence_ndcg == 1
    assert third.em == 1
    assert (third.should_abstain, third.abstained) == (True, True)
    assert (first.should_abstain, first.abstained, first.truncated) == (False, False, False)
    assert np.isnan(third.evidence_recall)
    assert result.means["em"].mean == 1
    assert result.means["em"].low < 1  # three questions prove little
    assert result.means["evidence_recall"].n == 2
    assert result.means["searches"].mean == 1
    assert result.by_family() == {"chain": 1.0, "simple": 1.0, "unanswerable": 1.0}


def _shown(shared: SearchEnv, number: int) -> set[str]:
    """Ids of the passages the oracle is shown on a task, asked of the engine directly."""
    task = shared.tasks[number]
    ctx = CallContext(0, "e", {})
    batch = [Query(text, shared.rules.k, ctx) for text in task.queries]
    return {hit.passage.id for ranking in shared.engine.run(batch) for hit in ranking}  # type: ignore[union-attr]


def test_settings_record_what_moves_the_number() -> None:
    shared = _setting(k=2, max_turns=4)
    found = evaluate(ConstantAgent("yes"), shared).settings
    assert found["corpus"] == {"name": "small", "passages": 5, "digest": CORPUS.digest}
    assert found["rules"]["k"] == 2
    assert found["rules"]["max_turns"] == 4
    assert found["rules"]["dialect"] == "search_r1"
    assert found["engine"] == shared.engine.fingerprint
    assert found["questions"]["count"] == 3
    assert found["versions"].keys() >= {"searchgym", "python", "gymnasium", "numpy", "bm25s"}
    assert found["agent"]["class"] == "searchgym.agents.simple:ConstantAgent"
    json.dumps(found)


def test_closed_book_has_no_tools() -> None:
    shared = _setting()
    result = evaluate(OracleAgent(shared.tasks), shared, search_enabled=False)
    assert result.means["searches"].mean == 0
    assert [row.em for row in result.rows] == [0, 0, 1]  # it never saw the evidence
    assert result.settings["search_enabled"] is False


def test_batches_and_order_do_not_matter() -> None:
    shared = _setting()
    agent = FirstHitAgent()
    whole = evaluate(agent, shared, seed=5)
    one = evaluate(agent, shared, seed=5, batch=1, tasks=list(shared.tasks)[::-1])
    assert sorted(map(str, whole.rows)) == sorted(map(str, one.rows))
    assert episode_for(shared, shared.tasks[0], 5).config.seed != (
        episode_for(shared, shared.tasks[0], 6).config.seed
    )


def test_saving_and_loading(tmp_path: Path) -> None:
    shared = _setting()
    result = evaluate(FirstHitAgent(), shared)
    path = result.save(tmp_path / "deep" / "r.json")
    again = EvalResult.load(path)
    assert str(again.rows) == str(result.rows)  # NaN differs from itself
    assert again.settings == result.settings
    assert again.means["f1"] == result.means["f1"]
    text = path.read_text(encoding="utf-8")
    assert "NaN" not in text
    path.write_text(text.replace('"schema_version": 2', '"schema_version": 9'), "utf-8")
    with pytest.raises(EvaluationError, match="version 9, expected 2"):
        EvalResult.load(path)
    path.write_text(text[:-40], "utf-8")
    with pytest.raises(EvaluationError, match=r"r\.json: not an evaluation result"):
        EvalResult.load(path)
    with pytest.raises(EvaluationError, match="does not exist"):
        EvalResult.load(tmp_path / "absent.json")


def test_comparison_is_paired_by_task() -> None:
    shared = _setting()
    oracle = evaluate(OracleAgent(shared.tasks), shared, name="oracle")
    refuse = evaluate(ConstantAgent(), shared, name="refuse", tasks=list(shared.tasks)[::-1])
    found = compare(oracle, refuse, "em")
    assert (found.mean_a, found.mean_b) == (1.0, pytest.approx(1 / 3))
    assert found.difference.mean == pytest.approx(2 / 3)
    assert found.p > 0.2  # two questions differ: 2 of 4 sign patterns are as extreme


def test_comparison_refuses_what_is_not_paired() -> None:
    shared = _setting()
    whole = evaluate(ConstantAgent(), shared)
    part = evaluate(ConstantAgent(), shared, tasks=shared.tasks[:2])
    with pytest.raises(EvaluationError, match=r"3 questions.* 2.*'t3' is in one only"):
        compare(whole, part)
    with pytest.raises(EvaluationError, match="'t1' twice"):
        compare(replace(whole, rows=whole.rows + whole.rows[:1]), part)
    other = replace(whole, settings={**whole.settings, "corpus": {"digest": "other"}})
    with pytest.raises(EvaluationError, match="not comparable"):
        compare(whole, other)
    with pytest.raises(EvaluationError, match="unknown metric 'F1'"):
        compare(whole, whole, "F1")


def test_tasks_are_checked() -> None:
    shared = _setting()
    with pytest.raises(EvaluationError, match="no tasks"):
        evaluate(ConstantAgent(), shared, tasks=[])
    with pytest.raises(EvaluationError, match="occurs twice"):
        evaluate(ConstantAgent(), shared, tasks=[TASKS[0], TASKS[0]])
    with pytest.raises(EvaluationError, match=r"Task objects, got str: 't1'; .*task\(id\)"):
        evaluate(ConstantAgent(), shared, tasks=["t1"])
    with pytest.raises(EvaluationError, match="has not ended"):
        row_of(episode_for(shared, TASKS[0], 0))


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"search_enabled": "no"}, "search_enabled must be true or false, got 'no'"),
        ({"params": "k"}, "params is a table of names and numbers"),
    ],
)
def test_arguments_of_another_kind_are_named(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(CardError, match=said):
        evaluate(ConstantAgent(), _setting(), **keywords)


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch", 0), ("batch", 1.5), ("workers", 0), ("seed", -1), ("seed", "a"), ("seed", True)],
)
def test_numbers_that_cannot_be_are_named(name: str, value: Any) -> None:
    says = rf"{name} must be a whole number of at least \d, got {value!r}"
    with pytest.raises(EvaluationError, match=says):
        evaluate(ConstantAgent(), _setting(), **{name: value})


class _Returns:
    """Returns whatever it was made with, or a list of it for each request."""

    def __init__(self, value: Any, *, each: bool) -> None:
        self.value, self.each = value, each

    def act(self, requests: Sequence[TurnRequest], /) -> Any:
        return [self.value] * len(requests) if self.each else self.value


@pytest.mark.parametrize("counter", [None, "its own"])
@pytest.mark.parametrize(
    ("value", "each", "says"),
    [
        (None, True, "returned NoneType for a request; a text is needed"),
        (3, True, "returned int for a request; a text is needed"),
        (None, False, "returned NoneType for 3 requests; a list of texts is needed"),
        ("yes", False, "returned str for 3 requests; a list of texts is needed"),
        ([], False, "returned 0 texts for 3 requests"),
    ],
)
def test_what_an_agent_returns_is_checked(
    value: Any, each: bool, says: str, counter: str | None
) -> None:
    agent = _Returns(value, each=each)
    agent.token_counter = counter  # type: ignore[attr-defined]
    with pytest.raises(EpisodeError, match=f"the agent {says}"):
        evaluate(agent, _setting())


def test_a_class_is_not_an_agent_yet() -> None:
    with pytest.raises(CardError, match=r"class ConstantAgent; give an object: ConstantAgent\(\)"):
        evaluate(ConstantAgent, _setting())  # type: ignore[arg-type]


class _Down:
    """An engine that is down for queries about Mira."""

    needs_task = False
    fingerprint = "down"

    def __init__(self, engine: object) -> None:
        self.engine = engine

    def cache_key(self, request: Query, /) -> bytes | None:
        return None

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        return [
            Failure("unavailable", "down") if "Mira" in q.text else self.engine.run([q])[0]  # type: ignore[attr-defined]
            for q in batch
        ]


def test_outages_are_counted_by_searches_and_left_out_of_means() -> None:
    up = _setting()
    shared = _setting(engine=_Down(up.engine))
    result = evaluate(OracleAgent(shared.tasks), shared)
    assert [row.end for row in result.rows] == ["infra_error", "answered", "answered"]
    assert result.rows[0].retries == shared.rules.max_retries
    assert result.means["em"].mean == 1
    assert result.means["em"].n == 2
    assert result.infra_errors == 1
    assert infra_by_searches(result.rows) == {0: (0, 1), 1: (0, 1), 2: (1, 1)}
    clean = evaluate(OracleAgent(up.tasks), up)
    found = compare(clean, result, "em", despite=("engine", "environment.engine"))
    assert found.difference.n == 2


class _Interrupts:
    """Answers, and is interrupted by its person after some calls."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        if self.calls == 0:
            raise KeyboardInterrupt
        self.calls -= 1
        return ConstantAgent("x").act(requests)


def test_an_interrupt_keeps_what_is_done() -> None:
    shared = _setting()
    result = evaluate(_Interrupts(2), shared, batch=1)
    assert not result.complete
    assert [row.task_id for row in result.rows] == ["t1", "t2"]
    with pytest.raises(KeyboardInterrupt):
        evaluate(_Interrupts(0), shared)


class _Rambler:
    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        render = get_dialect("search_r1").render_action
        return ["hm" if r.turn == 0 else render(Search(("Aldor",))) for r in requests]


def test_budget_ends_score_nothing() -> None:
    result = evaluate(_Rambler(), _setting(max_turns=3))
    assert {row.end for row in result.rows} == {"max_turns"}
    assert {row.invalid for row in result.rows} == {1}
    assert {row.em for row in result.rows} == {0.0}
    assert {row.truncated for row in result.rows} == {True}
    assert result.means["truncated"].mean == 1
    assert result.means["invalid_rate"].mean == pytest.approx(1 / 3)
    assert not any(row.abstained for row in result.rows)  # silence is no refusal
    assert {row.searches for row in result.rows} == {1}


def test_settings_that_differ_are_told_and_may_be_meant() -> None:
    shared, wide = _setting(k=2), _setting(k=3)
    a, b = evaluate(ConstantAgent("x"), shared), evaluate(FirstHitAgent(), wide, batch=1)
    assert differing(a.settings, b.settings) == {"environment.k": (2, 3), "rules.k": (2, 3)}
    with pytest.raises(
        EvaluationError, match=r"k \(2 and 3\).*despite=\['environment.k', 'rules.k'\]$"
    ):
        compare(a, b)
    assert compare(a, b, despite=("environment", "rules.k")).difference.n == 3
    closed = evaluate(FirstHitAgent(), wide, search_enabled=False)
    assert compare(b, closed, "em", despite=("search_enabled",)).difference.n == 3
    with pytest.raises(EvaluationError, match=r"seed \(0 and 1\)"):
        compare(b, evaluate(FirstHitAgent(), wide, seed=1))


def test_difficulty_acts_and_is_recorded() -> None:
    easy, hard = (
        evaluate(FirstHitAgent(), _setting(), params=params) for params in (None, {"turns": 1.0})
    )
    assert "params" not in easy.settings
    assert hard.settings["params"] == {"turns": 1.0}
    assert easy.means["searches"].mean > 0 == hard.means["searches"].mean
    with pytest.raises(EvaluationError, match="params"):
        compare(easy, hard)
    with pytest.raises(CardError, match="noise"):
        evaluate(FirstHitAgent(), _setting(), params={"noise": 0.5})


def test_axes_that_choose_tasks_choose_them_here_too() -> None:
    tasks = [replace(task, hops=hops) for task, hops in zip(TASKS, (1, 2), strict=True)]
    env = SearchEnv(corpus=CORPUS, tasks=tasks, params={"hops": 1})
    assert [row.hops for row in evaluate(FirstHitAgent(), env).rows] == [1]
    assert [row.hops for row in evaluate(FirstHitAgent(), env, tasks=tasks).rows] == [1]
    assert len(evaluate(FirstHitAgent(), env, params={"hops": 2}).rows) == 2
    with pytest.raises(CardError, match="no task is within hops 1"):
        evaluate(FirstHitAgent(), env, tasks=tasks[1:])


@pytest.mark.parametrize(
    ("reward", "shares"),
    [
        ("citations", {"citations", "reward"}),
        ({"citations": 1.0}, {"citations", "reward"}),
        ({"citations": {"use": "citations", "weight": 1.0, "others": 1}}, {"citations", "reward"}),
        ({"citations": 2.0}, {"citations"}),
        ({"citations": 1.0, "search": -0.1}, {"citations"}),
        ({"em": 1.0}, {"reward"}),
        ({"search": -0.1}, set()),
        ({}, set()),
    ],
)
def test_rewards_that_declare_to_be_shares_are(reward: Any, shares: set[str]) -> None:
    """Their intervals stay in [0, 1]."""
    assert declared_shares({"reward": reward}) == shares


@pytest.mark.parametrize(("weight", "low"), [(1.0, 0.0), (-1.0, None)])
def test_the_interval_of_a_share_begins_at_0(weight: float, low: float | None) -> None:
    env = _setting(reward={"em": weight})
    found = evaluate(ConstantAgent("nothing"), env).means["reward"]
    assert found.mean == 0
    assert (found.low < 0) == (low is None)
    assert found.high > 0
