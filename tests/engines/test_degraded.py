"""Degradations: rates that are met, nothing at rate 0, the same bytes in any batching."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import numpy as np
import pytest

from searchgym.corpora import GeneratedCorpus, render
from searchgym.curricula import Uniform
from searchgym.engines import build_engine
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.degraded import DegradedEngine
from searchgym.engines.degraded.fakes import KINDS, invent, recognise
from searchgym.engines.degraded.rates import Rates
from searchgym.engines.graph import GraphEngine
from searchgym.engines.pages import CorpusPages
from searchgym.envs import SearchEnv, SearchVectorEnv
from searchgym.errors import CardError, EngineError
from searchgym.seeding import derive
from searchgym.types import CallContext, Charged, Failure, PageRequest, Query, Ranking
from searchgym.worlds import World, value_answers
from tests.worlds.shipped import world_from_card

from ..small import CORPUS, TASKS

WORLD = {"corpus": "encyclopedia", "world": {"entities": 400}, "tasks": {"simple": 20, "chain": 20}}
CLEAN = CallContext(0, "e", {})


@pytest.fixture(scope="module")
def made() -> tuple[World, GeneratedCorpus, BM25Engine]:
    world = world_from_card("encyclopedia", entities=600, seed=5)
    corpus = render(world)
    return world, corpus, BM25Engine(corpus)


def asked(corpus: GeneratedCorpus, n: int, k: int = 5, **params: float) -> list[Query]:
    """n queries of as many episodes."""
    return [
        Query(
            " ".join(corpus[derive(i, "q") % len(corpus)].text.split()[:6]),
            k,
            CallContext(derive(i, "call"), f"{derive(i, 'episode'):016x}", params),
        )
        for i in range(n)
    ]


def told(ranking: Ranking | Failure) -> dict[str, Any]:
    return dict(ranking.meta["degraded"]) if isinstance(ranking, Charged) else {}


EVERYTHING = dict.fromkeys(Rates._fields, 0.3)


# --- nothing at rate 0 ------------------------------------------------------------------------
def test_at_rate_0_the_inner_answers_come_back_themselves(made: Any) -> None:
    world, corpus, inner = made
    engine = DegradedEngine(inner, corpus, world)
    queries = [*asked(corpus, 50), Query("", 5, CLEAN), Query("zzz", 0, CLEAN)]
    given: list[Ranking] = []

    class Watched(BM25Engine):
        def run(self, batch: Any, /) -> list[Ranking]:
            given.extend(found := super().run(batch))
            return found

    engine.inner = Watched(corpus)
    got = engine.run(queries)
    assert all(a is b for a, b in zip(got, given, strict=True))
    assert engine.cache_key(queries[0]) == inner.cache_key(queries[0])
    noisy = queries[0]._replace(ctx=CLEAN._replace(params={"noise": 0.1}))
    assert engine.cache_key(noisy) is None
    pages = CorpusPages(corpus)
    source = engine.pages(pages)
    urls = [corpus[3].url, "https://nowhere.example/", invent("junk", "x", 3).url]
    requests = [PageRequest(url, CLEAN) for url in urls]
    assert source.run(requests) == pages.run(requests)
    assert source.cache_key(requests[0]) == pages.cache_key(requests[0])


@pytest.mark.parametrize("inner", ["bm25", "graph"])
def test_at_rate_0_an_environment_is_byte_identical(inner: str) -> None:
    outs = []
    for engine in (inner, {"name": "degraded", "engine": inner}):
        env = SearchVectorEnv(
            6, **WORLD, engine=engine, tools=("search", "access"), dialect="asearcher"
        )
        steps: list[Any] = [env.reset(seed=2)]
        for _ in range(8):
            plans = env.oracle()
            steps.append(env.step([plan[0] if plan else "" for plan in plans]))
        outs.append(repr(steps))
    assert outs[0] == outs[1]


# --- rates ------------------------------------------------------------------------------------
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("name", ["noise", "stale", "contradict", "duplicate", "seo"])
def test_rates_per_hit_are_met(made: Any, name: str, rate: float) -> None:
    world, corpus, inner = made
    engine = DegradedEngine(inner, corpus, world)
    queries = asked(corpus, 400, k=100, **{name: rate})
    plain = [r[:20] for r in inner.run(queries)]
    queries = [q._replace(k=100) for q in queries]
    if name in ("noise", "stale"):
        queries = [q._replace(k=20) for q in queries]
    else:  # inserted documents must fit in
        engine.inner = BM25Short(inner, 20)
    struck = sum(len(told(r).get(name, ())) for r in engine.run(queries))
    total = sum(map(len, plain))
    error = (
        4.5 * math.sqrt(rate * (1 - rate) / total) * (3 if name in ("stale", "contradict") else 1)
    )
    share = struck / total
    unchangeable = 0.01 if name in ("stale", "contradict") else 0.0  # pages without other values
    assert rate - error - unchangeable <= share <= rate + error


class BM25Short:
    """The first hits only."""

    needs_task, fingerprint = False, "short"

    def __init__(self, inner: BM25Engine, most: int) -> None:
        self.inner, self.most = inner, most

    def cache_key(self, request: Query, /) -> bytes | None:
        return self.inner.cache_key(request)

    def run(self, batch: Any, /) -> list[Ranking]:
        return [r[: self.most] for r in self.inner.run(batch)]


@pytest.mark.parametrize("rate", [0.2, 1.0])
@pytest.mark.parametrize("name", ["adversarial", "shuffle", "latency", "outage"])
def test_rates_per_call_are_met(made: Any, name: str, rate: float) -> None:
    world, corpus, inner = made
    engine = DegradedEngine(inner, corpus, world, **{name: rate})
    n = 1500
    answers = engine.run(asked(corpus, n))
    key = "injected" if name == "adversarial" else name
    if name == "outage":
        struck = sum(isinstance(a, Failure) for a in answers)
        kinds = {(a.kind, a.retryable) for a in answers if isinstance(a, Failure)}
        assert kinds == {("unavailable", True)}
    else:
        struck = sum(key in told(a) for a in answers)
    assert abs(struck / n - rate) <= 4.5 * math.sqrt(rate * (1 - rate) / n)
    if name == "latency":
        seconds = [told(a)["latency"] for a in answers if told(a)]
        assert abs(sum(seconds) / len(seconds) - 1.0) < 4.5 / math.sqrt(len(seconds))


# --- contract ---------------------------------------------------------------------------------
@pytest.mark.parametrize("k", [0, 1, 3, 10, 10_000])
def test_hits_keep_the_contract_under_everything(made: Any, k: int) -> None:
    world, corpus, inner = made
    n = 20 if k == 10_000 else 150
    for engine in (inner, GraphEngine(world, corpus)):
        degraded = DegradedEngine(engine, corpus, world, **{**EVERYTHING, "outage": 0.0})
        queries = [*asked(corpus, n, k), Query("", k, CLEAN), Query("\ud800 東京", k, CLEAN)]
        for query, ranking in zip(queries, degraded.run(queries), strict=True):
            assert not isinstance(ranking, Failure)
            assert len(ranking) <= k
            order = [(-hit.score, hit.passage.id) for hit in ranking]
            assert order == sorted(order)
            assert len({hit.passage.id for hit in ranking}) == len(ranking)
            if not query.text:
                assert not ranking


def test_the_same_bytes_in_any_batching(made: Any) -> None:
    world, corpus, inner = made
    engine = DegradedEngine(inner, corpus, world, **EVERYTHING)
    queries = asked(corpus, 200)
    whole = engine.run(queries)
    assert repr(engine.run(queries[::-1])[::-1]) == repr(whole)
    assert [repr(engine.run([q])[0]) for q in queries] == [repr(r) for r in whole]
    assert [told(engine.run([q])[0]) for q in queries] == [told(r) for r in whole]
    again = DegradedEngine(BM25Engine(corpus), corpus, world, **EVERYTHING)
    assert repr(again.run(queries)) == repr(whole)
    other = [q._replace(ctx=q.ctx._replace(seed=q.ctx.seed + 1)) for q in queries]
    assert repr(engine.run(other)) != repr(whole)
    pages = engine.pages(CorpusPages(corpus))
    urls = [h.passage.url for r in whole if not isinstance(r, Failure) for h in r]
    requests = [PageRequest(u, queries[i % 200].ctx) for i, u in enumerate(urls)]
    assert repr(pages.run(requests)) == repr([pages.run([r])[0] for r in requests])


def test_a_vector_env_equals_single_envs_under_everything() -> None:
    options: dict[str, Any] = {
        **WORLD, "engine": {"name": "degraded", "engine": "bm25", **EVERYTHING},
        "tools": ("search", "access"), "dialect": "asearcher", "max_retries": 8,
    }  # fmt: skip
    n = 6
    vector = SearchVectorEnv(n, **options)
    singles = [SearchEnv(**options) for _ in range(n)]
    seen, _ = vector.reset(seed=4)
    assert list(seen) == [env.reset(seed=4 + i)[0] for i, env in enumerate(singles)]
    for step in range(4):
        actions = []
        for env in singles:
            task = env.episode.config.task
            hits = [h for s in env.requests()[0].segments for h in s.hits]
            url = hits[step % len(hits)].passage.url if hits and step % 2 else ""
            query = task.queries[step % len(task.queries)]
            actions.append(
                f"</think> <access> {url} </access>" if url
                else f"</think> <search> {query} </search>"
            )  # fmt: skip
        seen, _, _, _, infos = vector.step(actions)
        alone = [env.step(action) for env, action in zip(singles, actions, strict=True)]
        assert list(seen) == [out[0] for out in alone]
        for i, out in enumerate(alone):
            assert ("degraded" in out[4]) == bool(infos.get("_degraded", [False] * n)[i])
    assert any(env.episode.retries for env in singles)


# --- params -----------------------------------------------------------------------------------
def test_difficulty_parameters_override_the_constructor() -> None:
    env = SearchEnv(**WORLD, engine={"name": "degraded", "seo": 1.0})
    reset = {"seed": 3, "options": {"params": {"seo": 0.0}}}
    clean = SearchEnv(**WORLD)

    def shown(env: SearchEnv, **reset: Any) -> tuple[str, dict[str, Any]]:
        env.reset(**reset)
        query = env.episode.config.task.queries[0]
        observation, _, _, _, info = env.step(f"<search>{query}</search>")
        return observation, info

    assert "degraded" in shown(env, seed=3)[1]
    assert shown(env, **reset)[0] == shown(clean, seed=3)[0]
    driven = SearchEnv(**WORLD, engine={"name": "degraded"}, curriculum=Uniform({"noise": 1.0}))
    _, info = shown(driven, seed=3)
    assert set(info["degraded"]["noise"]) == set(info["hits"])
    driven.set_params(noise=0.0)
    assert shown(driven, seed=3)[0] == shown(clean, seed=3)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nosie": 0.1}, "unknown degradation 'nosie'. Did you mean 'noise'"),
        ({"noise": 1.5}, r"'noise' must lie in \[0, 1\], got 1.5"),
        ({"noise": True}, "must lie in"),
        ({"noise": "0.3"}, "must lie in"),
        ({"noise": math.nan}, "must lie in"),
        ({"stale": 0.1}, "need a generated world"),
        ({"contradict": 0.1}, "need a generated world"),
        ({"latency_s": -1.0}, "latency_s"),
        ({"latency_s": "1"}, "latency_s"),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"latency_s": math.nan}, "latency_s"),
        ({"engine": "bm52"}, "Did you mean 'bm25'"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        build_engine({"name": "degraded", **options}, CORPUS)


def test_parameters_may_be_numpy_s_and_must_be_numbers() -> None:
    """A curriculum computes with arrays; records hold JSON."""
    env = SearchEnv(corpus=CORPUS, tasks=TASKS, engine={"name": "degraded"})
    env.reset(seed=0, options={"params": {"noise": np.float32(1.0)}})
    info = env.step("<search>Quell</search>")[4]
    assert type(info["params"]["noise"]) is float
    assert json.loads(json.dumps(info["params"])) == {"noise": 1.0}
    assert info["degraded"]["noise"]
    for wrong in ("0.5", True, None):
        with pytest.raises(CardError, match="'noise' must be a number"):
            env.reset(seed=0, options={"params": {"noise": wrong}})


def test_a_huge_k_costs_no_more_than_the_hits_there_are() -> None:
    engine = build_engine({"name": "degraded", "duplicate": 0.5}, CORPUS)
    few = engine.run([Query("Aldor founder", 100, CLEAN)])
    start = time.perf_counter()
    assert engine.run([Query("Aldor founder", 10**9, CLEAN)]) == few
    rare = CLEAN._replace(params={"duplicate": 0.0, "noise": 1e-12})
    assert len(engine.run([Query("Aldor founder", 10**9, rare)])[0]) > 0
    assert time.perf_counter() - start < 5, "a billion draws take minutes"


def test_the_other_query_behind_noise_is_paid_for_too() -> None:
    class Paid(BM25Engine):
        def run(self, batch: Any, /) -> list[Ranking]:
            return [Charged(hits, 0.25, {"said": "x"}) for hits in super().run(batch)]

    engine = DegradedEngine(Paid(CORPUS), CORPUS, noise=1.0)
    (found,) = engine.run([Query("Aldor founder", 3, CLEAN)])
    assert isinstance(found, Charged)
    assert (found.cost, found.meta["said"]) == (0.5, "x")
    assert found.meta["degraded"]["noise"]


def test_wrong_parameters_are_one_clear_error() -> None:
    env = SearchEnv(corpus=CORPUS, tasks=TASKS, engine={"name": "degraded"})
    with pytest.raises(CardError, match=r"'noise' is a number in \[0, 1\]"):
        env.reset(seed=0, options={"params": {"noise": 2.0}})
    for params, message in (({"dead": 2.0}, "must lie in"), ({"stale": 0.5}, "generated world")):
        env.reset(seed=0, options={"params": params})
        with pytest.raises(EngineError, match=message):
            env.step("<search>Quell</search>")


# --- kinds ------------------------------------------------------------------------------------
def test_noise_shows_hits_for_other_queries_at_the_same_scores(made: Any) -> None:
    world, corpus, inner = made
    engine = DegradedEngine(inner, corpus, world, noise=1.0)
    queries = asked(corpus, 60)
    for before, after in zip(inner.run(queries), engine.run(queries), strict=True):
        assert not {h.passage.id for h in before} & {h.passage.id for h in after}  # type: ignore[union-attr]
        assert len(before) == len(after)
        assert max(abs(b.score - a.score) for b, a in zip(before, after, strict=True)) < 1e-9  # type: ignore[arg-type]
        assert all(corpus.passage(h.passage.id) == h.passage for h in after)  # type: ignore[union-attr]
    decoys = {tuple(h.passage.id for h in r) for r in engine.run(queries)}  # type: ignore[union-attr]
    assert len(decoys) > 50, "each call draws its own other query"


def test_old_and_contradicting_pages_state_wrong_values_of_the_right_kind(made: Any) -> None:
    world, corpus, inner = made
    engine = DegradedEngine(inner, corpus, world)
    facts = engine.documents.facts()
    names = set(world.names)
    changed = 0
    for position in range(len(corpus)):
        text, changes = facts.rewrite(position, key=position * 7)
        assert (text == corpus[position].text) == (not changes)
        for change in changes:
            changed += 1
            fact = world.fact(change.fact)
            prop = world.prop(fact)
            assert change.stated != change.true
            assert change.stated in text
            true = {f.object for f in world.objects(fact.subject, fact.property)}
            rows = (world.property_of == fact.property).nonzero()[0]
            stated = {
                form
                for row in rows
                for form in (
                    (world.names[int(world.object_of[row])],)
                    if prop.is_relation
                    else value_answers(prop, int(world.object_of[row]))
                )
            }
            assert change.stated in stated, "the value of another fact of this property"
            if prop.is_relation:
                assert change.stated in names
                assert change.stated not in {world.names[o] for o in true}
    assert changed > len(corpus)
    assert facts.rewrite(3, 1) == facts.rewrite(3, 1)
    assert len({facts.rewrite(3, key)[0] for key in range(20)}) > 5


def test_wrong_pages_say_their_age_if_asked_to(made: Any) -> None:
    world, corpus, inner = made
    query = asked(corpus, 1, stale=1.0)[0]
    (old,) = DegradedEngine(inner, corpus, world).run([query])
    (bare,) = DegradedEngine(inner, corpus, world, dates=False).run([query])
    for dated, plain in zip(old, bare, strict=True):  # type: ignore[arg-type]
        assert dated.passage.text.startswith(plain.passage.text)
        assert dated.passage.text.endswith(" years old.")
        assert "years old" not in plain.passage.text
        assert dated.passage.id.endswith("~old"), "an old version is not the evidence"
        assert dated.passage.url == corpus.passage(dated.passage.id.removesuffix("~old")).url


def test_what_search_shows_is_what_opens(made: Any) -> None:
    """Every hit's page has the hit's text, in the same episode, for every kind of document."""
    world, corpus, inner = made
    rates = {"stale": 0.4, "contradict": 0.5, "duplicate": 0.4, "seo": 0.4, "adversarial": 0.8}
    engine = DegradedEngine(inner, corpus, world, **rates)
    pages = engine.pages(CorpusPages(corpus))
    kinds = dict.fromkeys(("stale", "contradict", "duplicate", "seo", "injected"), 0)
    for query in asked(corpus, 40, k=8):
        (ranking,) = engine.run([query])
        assert not isinstance(ranking, Failure)
        context = query.ctx._replace(seed=99)  # another call of the same episode
        found = pages.run([PageRequest(h.passage.url, context) for h in ranking])
        for hit, page in zip(ranking, found, strict=True):
            assert page is not None
            assert not isinstance(page, Failure)
            assert page.url == hit.passage.url
            if hit.passage.id in told(ranking).get("duplicate", ()):
                continue  # a copy may show the page as it was before it changed
            assert page.text == hit.passage.text
        for kind, what in told(ranking).items():
            kinds[kind] += len(what)
    assert min(kinds.values()) > 5, kinds


def test_invented_addresses_tell_nothing_and_forgeries_open_nothing(made: Any) -> None:
    world, corpus, inner = made
    engine = DegradedEngine(inner, corpus, world, seo=0.5)
    pages = engine.pages(CorpusPages(corpus))
    hosts: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for kind in KINDS:
        for i in range(300):
            made_up = invent(kind, f"Some Title {i} — Ökonomie 東京", derive(i, "p") % 2**32)
            assert recognise(made_up.url) == made_up
            hosts[kind].add(made_up.url.split("/")[2])
    assert len({frozenset(h) for h in hosts.values()}) == 1, "all kinds share all hosts"
    good = invent("junk", "some title", 5).url
    ctx = CLEAN
    assert pages.run([PageRequest(good, ctx)])[0] is not None
    forged = [good[:-1] + ("0" if good[-1] != "0" else "1"), good.replace("some", "other"),
              good.replace("https", "http"), good + "/x",
              invent("mirror", "t", len(corpus) + 5).url]  # fmt: skip
    assert pages.run([PageRequest(url, ctx) for url in forged]) == [None] * len(forged)


def test_dead_links_stay_dead_for_the_episode_and_its_forks(made: Any) -> None:
    world, corpus, inner = made
    urls = [p.url for p in list(corpus)[:300]]
    pages = DegradedEngine(inner, corpus, world, dead=0.3).pages(CorpusPages(corpus))

    def dead(episode: str, key: int) -> list[bool]:
        asked = [PageRequest(u, CallContext(key + i, episode, {})) for i, u in enumerate(urls)]
        return [page is None for page in pages.run(asked)]

    first = dead("a", 0)
    assert abs(sum(first) / 300 - 0.3) < 4.5 * math.sqrt(0.21 / 300)
    assert dead("a", 1000) == first == dead("a~2", 5)
    assert dead("b", 0) != first


def test_a_dead_link_is_not_the_infrastructures_fault() -> None:
    env = SearchEnv(**WORLD, tools=("search", "access"), dialect="asearcher",
                    engine={"name": "degraded", "dead": 1.0})  # fmt: skip
    env.reset(seed=0)
    url = env.corpus[0].url
    observation, _, terminated, truncated, info = env.step(f"</think><access>{url}</access>")
    assert "No More Information is Found for this URL." in observation
    assert not terminated
    assert not truncated
    assert "retries" not in info


def test_duplicates_stand_below_their_original_and_shuffles_permute(made: Any) -> None:
    world, corpus, inner = made
    queries = asked(corpus, 30, k=6)
    for plain, doubled in zip(
        inner.run(queries), DegradedEngine(inner, corpus, world, duplicate=1.0).run(queries),
        strict=True,
    ):  # fmt: skip
        assert not isinstance(doubled, Failure)
        for i, hit in enumerate(doubled):
            assert hit.passage.text == plain[i // 2].passage.text
            assert (hit.passage.id == plain[i // 2].passage.id) == (i % 2 == 0)
    shuffled = DegradedEngine(inner, corpus, world, shuffle=1.0).run(queries)
    moved = 0
    for plain, mixed in zip(inner.run(queries), shuffled, strict=True):
        ids = [h.passage.id for h in mixed]  # type: ignore[union-attr]
        assert sorted(ids) == sorted(h.passage.id for h in plain)
        moved += ids != [h.passage.id for h in plain]
    assert moved > 25


def test_spam_stands_above_and_holds_nothing(made: Any) -> None:
    world, corpus, inner = made
    engine = DegradedEngine(inner, corpus, world, seo=1.0)
    for query, ranking in zip(
        asked(corpus, 20, k=6), engine.run(asked(corpus, 20, k=6)), strict=True
    ):
        assert not isinstance(ranking, Failure)
        junk = set(told(ranking)["seo"])
        assert [h.passage.id in junk for h in ranking] == [i % 2 == 0 for i in range(len(ranking))]
        words = query.text.lower().split()
        spam = ranking[0].passage
        assert sum(w.strip(".,()") in spam.text.lower() for w in words) >= len(words) - 1
        assert spam.id not in corpus


def test_slow_calls_are_simulated_and_may_time_out(made: Any) -> None:
    import time

    world, corpus, inner = made
    queries = asked(corpus, 200, latency=1.0)
    start = time.perf_counter()
    engine = DegradedEngine(inner, corpus, world, latency_s=100.0, timeout_s=50.0)
    answers = engine.run(queries)
    assert time.perf_counter() - start < 10, "simulated seconds are not waited for"
    late = [a for a in answers if isinstance(a, Failure)]
    assert {a.kind for a in late} == {"timeout"}
    expected = math.exp(-50 / 100)  # of an exponential beyond half its mean
    assert abs(len(late) / 200 - expected) < 4.5 * math.sqrt(expected * (1 - expected) / 200)
