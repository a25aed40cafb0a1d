"""Outages at 30 %: episodes wait and are tried again, what is lost is counted and never scored."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest

from searchgym.core import Episode, EpisodeConfig, run_episodes
from searchgym.dialects import get_dialect
from searchgym.engines.degraded import DegradedEngine
from searchgym.envs import SearchEnv, SearchVectorEnv
from searchgym.evaluation import (
    Row,
    column,
    evaluate,
    failure_rate,
    infra_by_searches,
    lost_by_searches,
    row_of,
)
from searchgym.seeding import derive
from searchgym.types import Answer, Query, Search, TurnRequest

from ..small import CORPUS, TASKS

RATE, RETRIES, MOST = 0.3, 2, 6
LOST = RATE ** (RETRIES + 1)
OWN: dict[str, Any] = {"corpus": CORPUS, "tasks": TASKS[:1], "max_turns": MOST + 1}


def planned(episode_id: str) -> int:
    """How often an episode's agent searches: 1 to MOST, equally often."""
    return 1 + derive(int(episode_id, 16), "plan") % MOST


class Plans:
    """Searches as often as planned, then answers right."""

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        return [self.say(r) for r in requests]

    @staticmethod
    def say(request: TurnRequest) -> str:
        more = request.turn < planned(request.episode_id)
        action = Search(("Aldor founder",)) if more else Answer("Quell")
        return get_dialect(request.dialect).render_action(action)


def degraded(**changes: Any) -> SearchEnv:
    engine = {"name": "degraded", "engine": "bm25", "outage": RATE}
    return SearchEnv(**{**OWN, "engine": engine, "max_retries": RETRIES, **changes})


def played(shared: SearchEnv, n: int, batch: int = 512) -> list[Episode]:
    episodes = [
        Episode(EpisodeConfig(shared.tasks[0], shared.rules, key, f"{key:016x}"))
        for key in (derive(7, "outages", i) for i in range(n))
    ]
    return run_episodes(episodes, Plans(), shared.toolbox, batch=batch)


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return played(degraded(), 3000)


@pytest.fixture(scope="module")
def rows(episodes: list[Episode]) -> list[Row]:
    return [row_of(e) for e in episodes]


def within(count: float, n: float, p: float) -> bool:
    """Inside 4.5 standard deviations of a binomial (one false alarm in 150,000)."""
    return abs(count - n * p) <= 4.5 * math.sqrt(n * p * (1 - p)) + 1e-9


def test_most_are_completed_after_retries_and_the_rest_is_truncated(rows: list[Row]) -> None:
    lost = [row for row in rows if row.infra_error]
    untouched = sum(row.retries == 0 for row in rows)
    without_retries = sum((1 - RATE) ** n for n in range(1, MOST + 1)) / MOST
    assert within(untouched, len(rows), without_retries), "without retries most would be lost"
    assert untouched < 0.45 * len(rows)
    expected = sum(1 - (1 - LOST) ** n for n in range(1, MOST + 1)) / MOST
    assert within(len(lost), len(rows), expected)
    assert len(lost) < 0.1 * len(rows)
    assert {row.end for row in rows} == {"answered", "infra_error"}
    assert all(row.em == 1 for row in rows if not row.infra_error)


def test_none_that_is_lost_is_scored(episodes: list[Episode], rows: list[Row]) -> None:
    for episode, row in zip(episodes, rows, strict=True):
        if row.infra_error:
            outcome = episode.outcome()
            assert outcome is not None
            assert outcome.parts["infra_error"] == 1.0
            assert outcome.parts["em"] == outcome.parts["answered"] == 0.0
            assert sum(t.reward for t in episode.turns) == 0
            assert episode.truncated
            assert not episode.terminated
    left = column(rows, "em")
    assert int(sum(map(math.isnan, left))) == sum(row.infra_error for row in rows)


def test_no_failure_is_ever_shown_to_the_agent(episodes: list[Episode]) -> None:
    """A timeout that becomes an observation teaches the policy about our network."""
    for episode in episodes[:1000]:
        text = episode.observation().lower()
        for word in ("outage", "timeout", "unavailable", "error", "failed", "try 1"):
            assert word not in text


def test_losses_are_counted_by_searches_and_do_not_grow_beyond_the_retry_policy(
    rows: list[Row],
) -> None:
    table = lost_by_searches(rows, RETRIES)
    assert [line.searches for line in table] == list(range(1, MOST + 1))
    assert sum(line.lost for line in table) == sum(row.infra_error for row in rows)
    assert {n: lost for n, (lost, _) in infra_by_searches(rows).items()} == {
        line.searches: line.lost for line in table
    }
    for line in table:
        assert within(line.lost, line.reached, LOST), line
    # level, not growing: first half of the searches against the second
    early, late = table[: MOST // 2], table[MOST // 2 :]
    reached = [sum(line.reached for line in part) for part in (early, late)]
    shares = [
        sum(line.lost for line in part) / n for part, n in zip((early, late), reached, strict=True)
    ]
    spread = math.sqrt(LOST * (1 - LOST) * (1 / reached[0] + 1 / reached[1]))
    assert abs(shares[1] - shares[0]) <= 4.5 * spread
    # by plan, the share grows exactly as the chance to be lost at any of n searches
    plans = [(planned(row_id), row) for row_id, row in _with_ids(rows)]
    for n in range(1, MOST + 1):
        own = [row for plan, row in plans if plan == n]
        assert within(sum(r.infra_error for r in own), len(own), 1 - (1 - LOST) ** n)


def _with_ids(rows: list[Row]) -> list[tuple[str, Row]]:
    return [(f"{derive(7, 'outages', i):016x}", row) for i, row in enumerate(rows)]


def test_the_failure_rate_is_read_off_the_rows(rows: list[Row]) -> None:
    tries = sum(row.searches + row.retries for row in rows)
    assert within(failure_rate(rows) * tries, tries, RATE)
    assert lost_by_searches(rows, RETRIES)[0].expected == pytest.approx(LOST, rel=0.15)
    assert math.isnan(failure_rate([]))
    assert lost_by_searches([], 2) == []


def test_what_is_lost_depends_on_the_seed_alone_not_on_batching(rows: list[Row]) -> None:
    shared = degraded()
    again = [row_of(e) for e in played(shared, 300, batch=7)]
    assert again == rows[:300]


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_more_retries_lose_fewer(retries: int) -> None:
    found = [row_of(e) for e in played(degraded(max_retries=retries), 800)]
    calls = sum(row.searches for row in found)
    assert within(sum(row.infra_error for row in found), calls, RATE ** (retries + 1))


def test_retries_ask_only_for_what_failed_and_finished_slots_ask_for_nothing() -> None:
    """Padding or finished slots must not reach the backend, nor do neighbours of a failed call."""
    asked: list[list[str]] = []

    class Watched(DegradedEngine):
        def run(self, batch: Sequence[Query], /) -> Any:
            asked.append([f"{q.ctx.episode_id}/{q.ctx.key}/{q.ctx.attempt}" for q in batch])
            return super().run(batch)

    from searchgym.engines.bm25 import BM25Engine

    engine = Watched(BM25Engine(CORPUS), CORPUS, outage=0.5)
    env = SearchVectorEnv(8, **{**OWN, "engine": engine, "max_retries": 3})
    env.reset(seed=0)
    for step in range(12):
        asked.clear()
        over = list(env._finished)
        active = [
            e.config.episode_id for e, done in zip(env.episodes, over, strict=True) if not done
        ]
        text = "<search>Aldor founder</search>" if step % 4 < 3 else "<answer>Quell</answer>"
        env.step([text] * 8)
        seen = [call for batch in asked for call in batch]
        assert len(set(seen)) == len(seen), "no try is made twice"
        assert {call.split("/")[0] for call in seen} <= set(active)
        if step % 4 == 3:
            assert not seen
        for earlier, later in itertools.pairwise(asked):
            keys = {call.rsplit("/", 1)[0] for call in earlier}
            assert {call.rsplit("/", 1)[0] for call in later} <= keys


def test_a_timeout_is_counted_and_never_an_observation() -> None:
    class Slow:
        needs_task, fingerprint = False, "slow"

        def cache_key(self, request: Query, /) -> None:
            return None

        def run(self, batch: Sequence[Query], /) -> list[Any]:
            raise TimeoutError("read timed out after 5 s")

    env = SearchVectorEnv(2, **{**OWN, "engine": Slow()})
    observations, _ = env.reset(seed=0)
    after, rewards, terminated, truncated, info = env.step(
        ["<search>Aldor</search>", "<answer>Quell</answer>"]
    )
    assert "timed out" not in after[0]
    assert truncated.tolist() == [True, False]
    assert terminated.tolist() == [False, True]
    assert rewards.tolist() == [0.0, 1.0]
    assert info["retries"].tolist() == [RETRIES, 0]
    assert info["outcome"]["infra_error"].tolist() == [True, False]
    assert after[0].startswith(observations[0])


def test_an_evaluation_tells_what_it_lost() -> None:
    shared = degraded(max_retries=0, tasks=TASKS)
    result = evaluate(Plans(), shared, seed=3)
    record = result.to_json()
    lost = sum(row.infra_error for row in result.rows)
    assert sum(v[0] for v in record["infra_errors_by_searches"].values()) == lost
    assert result.means["em"].n == len(result.rows) - lost


def test_the_command_line_shows_what_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from searchgym.cli import run

    small = ["-s", 'world={"entities": 400}', "-s", 'tasks={"simple": 40}', "-s", "max_retries=0"]
    down = ["-s", 'engine={"name": "degraded", "outage": 0.3}']
    with pytest.raises(SystemExit) as done:
        run(["eval", "SearchQA-v0", "-a", "rules", "--json", *small, *down])
    assert not done.value.code
    (record,) = json.loads(capsys.readouterr().out)
    assert record["infra_errors"] > 3
    assert sum(line["lost"] for line in record["lost_by_searches"]) == record["infra_errors"]
