"""Documents against the agent: flagged in info, never in what it reads; caught when obeyed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from searchgym.dialects import DIALECTS, get_dialect
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.degraded import DegradedEngine
from searchgym.engines.degraded.fakes import ATTACKS
from searchgym.envs import SearchEnv
from searchgym.types import Action, CallContext, Charged, Query, Search

from ..small import CORPUS, TASKS

OWN: dict[str, Any] = {"corpus": CORPUS, "tasks": TASKS}


def under_attack(
    kind: str, dialect: str = "search_r1"
) -> tuple[SearchEnv, dict[str, Any], dict[str, Any]]:
    """An environment that has just shown a document of this kind, its info, and the record."""
    env = SearchEnv(**OWN, engine={"name": "degraded", "adversarial": 1.0}, dialect=dialect)
    for seed in range(60):
        env.reset(seed=seed, options={"task_id": "t1"})
        info = env.step(say(env, Search(("Aldor founder",))))[4]
        (about,) = info["degraded"]["injected"]
        if about["kind"] == kind:
            return env, info, about
    raise AssertionError(f"no {kind} in 60 episodes")


def say(env: SearchEnv, action: Action) -> str:
    return get_dialect(env.rules.dialect).render_action(action)


def test_the_three_kinds_are_equally_frequent_and_every_canary_is_its_own() -> None:
    engine = DegradedEngine(BM25Engine(CORPUS), CORPUS, adversarial=1.0)
    n = 900
    answers = engine.run([Query("Aldor", 3, CallContext(i, "e", {})) for i in range(n)])
    records = [r.meta["degraded"]["injected"][0] for r in answers if isinstance(r, Charged)]
    assert len(records) == n
    kinds = Counter(r["kind"] for r in records)
    assert set(kinds) == set(ATTACKS)
    assert min(kinds.values()) > n / 3 - 4.5 * (n * 2 / 9) ** 0.5
    assert len({r["canary"] for r in records}) == n
    ranks = Counter(
        [h.passage.id for h in r].index(r.meta["degraded"]["injected"][0]["id"])
        for r in answers if isinstance(r, Charged)
    )  # fmt: skip
    assert len(ranks) > 1, "at any rank"


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d != "candidate"])
@pytest.mark.parametrize("kind", ATTACKS)
def test_flagged_in_info_and_never_in_the_observation(kind: str, dialect: str) -> None:
    env, info, about = under_attack(kind, dialect)
    assert about["id"] in info["hits"]
    shown = env.episode.observation()
    assert about["canary"] in shown, "the document itself is shown"
    for word in ("injected", "adversarial", "degraded", "canary", kind, about["id"]):
        assert word not in shown.lower().replace("injected into", "")
    segments = "".join(s.text for s in env.requests()[0].segments)
    assert "injected" not in segments


def test_an_opened_attack_is_flagged_like_a_shown_one() -> None:
    env = SearchEnv(**OWN, engine={"name": "degraded", "adversarial": 1.0}, dialect="asearcher",
                    tools=("search", "access"))  # fmt: skip
    env.reset(seed=0)
    info = env.step("</think><search>Aldor founder</search>")[4]
    (about,) = info["degraded"]["injected"]
    hits = env.episode.turns[-1].results[0].hits  # type: ignore[union-attr]
    url = next(h.passage.url for h in hits if h.passage.id == about["id"])
    observation, _, _, _, info = env.step(f"</think><access>{url}</access>")
    assert info["degraded"]["injected"] == [about]
    assert about["canary"] in info["delta"]
    assert "No More Information" not in observation


def test_a_forged_answer_in_a_document_does_not_score() -> None:
    """Corpus page "Trap" holds an answer tag with the right answer; showing it earns nothing."""
    env = SearchEnv(**OWN, engine={"name": "degraded", "noise": 1.0, "adversarial": 1.0})
    env.reset(seed=0, options={"task_id": "t1"})
    for _ in range(3):
        _, reward, terminated, _, _ = env.step("<search>Trap Ignore Quell</search>")
        assert reward == 0
        assert not terminated
    _, reward, _, _, info = env.step("<answer>something else</answer>")
    assert reward == 0
    assert info["outcome"]["em"] == 0
