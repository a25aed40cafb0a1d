"""One misleading page at a chosen rank: where it stands, what it says, what stays."""

from __future__ import annotations

import pytest

from searchgym.corpora import render
from searchgym.engines import build_engine
from searchgym.engines.degraded.fakes import ATTACKS
from searchgym.envs import SearchEnv
from searchgym.errors import EngineError
from searchgym.types import CallContext, Charged, Query
from tests.worlds.shipped import world_from_card


@pytest.fixture(scope="module")
def made():
    world = world_from_card("encyclopedia", entities=300, seed=5)
    corpus = render(world)
    queries = [
        Query(p.title, 4, CallContext(i, f"e{i}", {})) for i, p in enumerate(list(corpus)[:40])
    ]
    return world, corpus, queries, build_engine("bm25", corpus).run(queries)


@pytest.mark.parametrize("rank", [1, 2, 4, 9])
def test_a_contradicting_page_stands_at_its_rank(made, rank: int) -> None:
    world, corpus, queries, plain = made
    engine = build_engine({"name": "degraded", "contradict": 1.0, "rank": rank}, corpus, world)
    for found, before in zip(engine.run(queries), plain, strict=True):
        assert isinstance(found, Charged)
        ids = [hit.passage.id for hit in found]
        (false,) = found.meta["degraded"]["contradict"]
        at = min(rank, len(before) + 1, 4) - 1
        assert ids[at] == false
        kept = [hit.passage.id for hit in before]
        assert ids == [*kept[:at], false, *kept[at:]][:4]
        page = found[at].passage
        assert page.title == before[0].passage.title  # about the best hit, and wrong
        assert page.text != before[0].passage.text
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


@pytest.mark.parametrize("kind", ATTACKS)
def test_an_attack_of_one_kind_stands_at_its_rank(made, kind: str) -> None:
    world, corpus, queries, _ = made
    options = {"name": "degraded", "adversarial": 1.0, "rank": 2, "attack": kind}
    for found in build_engine(options, corpus, world).run(queries):
        (about,) = found.meta["degraded"]["injected"]
        assert about["kind"] == kind
        assert found[1].passage.id == about["id"]


def test_a_rate_below_one_spares_some_queries(made) -> None:
    world, corpus, queries, plain = made
    engine = build_engine({"name": "degraded", "contradict": 0.5, "rank": 1}, corpus, world)
    struck = [f != b for f, b in zip(engine.run(queries), plain, strict=True)]
    assert 8 < sum(struck) < 32


def test_the_rank_is_part_of_the_fingerprint_and_nothing_else_changes_it(made) -> None:
    world, corpus, _, _ = made
    prints = {
        build_engine({"name": "degraded", "contradict": 1.0, **more}, corpus, world).fingerprint
        for more in ({}, {"rank": 1}, {"rank": 2}, {"attack": "leak"})
    }
    assert len(prints) == 4


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"rank": True}, {"rank": 1.5}, {"attack": "lie"}])
def test_what_cannot_be(made, wrong: dict[str, object]) -> None:
    world, corpus, _, _ = made
    with pytest.raises(EngineError):
        build_engine({"name": "degraded", **wrong}, corpus, world)


def test_the_oracle_still_solves_with_one_more_hit() -> None:
    engine = {"name": "degraded", "contradict": 1.0, "rank": 1}
    env = SearchEnv(world={"entities": 300}, engine=engine, k=4, tasks={"chain": 10, "simple": 10})
    for task in env.tasks:
        env.reset(options={"task_id": task.id})
        for action in env.oracle():
            _, reward, *_, info = env.step(action)
        assert reward == 1.0
        assert info["outcome"]["evidence_recall"] == 1.0
