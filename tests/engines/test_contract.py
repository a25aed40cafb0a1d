"""What every engine promises, over a generated world and over corpora made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from searchgym.corpora import Corpus, GeneratedCorpus, render
from searchgym.engines import build_engine
from searchgym.engines.registry import ENGINES
from searchgym.errors import EngineError
from searchgym.types import CallContext, Failure, Passage, Query, Ranking, Task
from searchgym.worlds import World
from tests.worlds.shipped import world_from_card

from .factories import CAPABILITIES, ENTRIES, Entry, Place

NAMES = sorted(ENTRIES)
EMPTY = ("", " ", "\t\n", "\u3000")
KS = (1, 3, 10)
HAND = Corpus(
    "hand",
    [
        # Scrambled ids, so that order of id, of insertion and of text all differ.
        *(Passage(f"t{(7 * i) % 23:02}", "", "red fox", f"u:{i}") for i in range(23)),
        *(
            Passage(f"n{(5 * i) % 17:02}", "", f"fox number {i} sees {i * i}", f"v:{i}")
            for i in range(17)
        ),
        Passage("ja", "", "東京 日本 京都", "w:ja"),
        Passage("fr", "", "été à la fin", "w:fr"),
        Passage("ru", "", "жид ком окно", "w:ru"),
    ],
)  # fmt: skip
STRANGE = (
    "東京 日本 京都", "été à la fin", "жид ком окно", "हिन्दी", "مرحبا بالعالم", "🦊🦊", "?!",
    "\ud800 broken \x00", "red " * 800, "<answer>red</answer>", "a\nb",
)  # fmt: skip


def with_(*needed: str) -> Callable[[Any], Any]:
    """Run a test for the engines that have these capabilities."""
    names = [name for name in NAMES if set(needed) <= ENTRIES[name].capabilities]
    assert names, f"no engine promises {needed}"
    return pytest.mark.parametrize("name", names)


@lru_cache(maxsize=1)
def generated() -> tuple[World, GeneratedCorpus]:
    world = world_from_card("encyclopedia", entities=60, seed=3)
    return world, render(world)


class Bench:
    """Builds engines and asks them."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self.folder, self.closing, self.count = folder, closing, 0
        self.built: dict[Any, Any] = {}

    def place(self, corpus: Corpus | None = None) -> Place:
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        world, own = generated()
        task = Task("t", "Who?", ("Nobody",), family="simple")
        if corpus is not None:
            return Place(corpus, None, (task,), folder, self.closing)
        return Place(own, world, (task,), folder, self.closing)

    def build(self, name: str, corpus: Corpus | None = None) -> Any:
        """The engine that the module's tests share, so that each follows what others asked."""
        key = name, corpus and corpus.digest
        if key not in self.built:
            self.built[key] = self.build_anew(name, corpus)
        return self.built[key]

    def build_anew(self, name: str, corpus: Corpus | None = None) -> Any:
        place = self.place(corpus)
        return build_engine(ENTRIES[name].spec(place), place.corpus, place.world)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as closing:
        yield Bench(tmp_path_factory.mktemp("engines"), closing)


def query(text: str, k: int = 3, *, key: int = 0, episode: str = "e", **params: float) -> Query:
    return Query(text, k, CallContext(key, episode, params, task=Task("t", text, ("x",))))


def ask(engine: Any, queries: list[Query]) -> list[Ranking]:
    answers = list(engine.run(queries))
    assert len(answers) == len(queries)
    assert not [a for a in answers if isinstance(a, Failure)]
    return answers


def texts_of_the_world() -> list[str]:
    world, corpus = generated()
    titles = [f"{world.titles[i]}?" for i in range(0, world.n_entities, 5)]
    return [*titles, *(p.text.split(". ")[0] for p in list(corpus)[::9]), *titles[:2]]


def where(name: str) -> Corpus | None:
    """The hand-made corpus for engines that can search it, else the world's."""
    return HAND if "any corpus" in ENTRIES[name].capabilities else None


def check_rules(entry: Entry, corpus: Corpus, ranking: Ranking, k: int) -> None:
    ids = [hit.passage.id for hit in ranking]
    scores = [hit.score for hit in ranking]
    assert len(ranking) <= k
    assert len(set(ids)) == len(ids)
    assert all(isinstance(score, float) and math.isfinite(score) for score in scores)
    assert scores == sorted(scores, reverse=True)
    if "own" in entry.capabilities:
        assert all(hit.passage == corpus.passage(hit.passage.id) for hit in ranking)
    if "ordered" in entry.capabilities:
        assert ids == [
            i for _, i in sorted(zip(scores, ids, strict=True), key=lambda p: (-p[0], p[1]))
        ]


def test_the_entries_are_of_the_registry() -> None:
    assert {name.split(":")[0] for name in ENTRIES} <= set(ENGINES)
    for entry in ENTRIES.values():
        assert entry.capabilities <= CAPABILITIES


@pytest.mark.parametrize("name", NAMES)
def test_rankings_keep_the_rules(name: str, bench: Bench) -> None:
    engine = bench.build(name)
    entry, corpus = ENTRIES[name], generated()[1]
    texts = [*texts_of_the_world(), *STRANGE]
    for k in (*KS, len(corpus), len(corpus) + 50):
        asked = texts if k == KS[1] else texts[::4]
        rankings = ask(engine, [query(text, k) for text in asked])
        assert any(rankings), "nothing was found at all"
        for ranking in rankings:
            check_rules(entry, corpus, ranking, k)


@with_("any corpus")
def test_rankings_keep_the_rules_where_texts_repeat(name: str, bench: Bench) -> None:
    engine = bench.build(name, HAND)
    for k in (*KS, 23, 24, len(HAND), 1000):
        strange = STRANGE if k == KS[1] else STRANGE[:2]
        queries = [query(text, k) for text in ("red fox", "fox", "number", *strange)]
        for ranking in ask(engine, queries):
            check_rules(ENTRIES[name], HAND, ranking, k)


@with_("any corpus", "exact")
def test_ties_are_decided_by_id_at_the_cut_off_too(name: str, bench: Bench) -> None:
    engine = bench.build(name, HAND)
    for k in (1, 2, 5, 22):
        (ranking,) = ask(engine, [query("red fox", k)])
        assert [hit.passage.id for hit in ranking] == [f"t{i:02}" for i in range(k)]
        assert len({hit.score for hit in ranking}) == 1


@with_("any corpus", "total")
def test_a_large_k_ranks_every_passage(name: str, bench: Bench) -> None:
    engine = bench.build(name, HAND)
    for k in (len(HAND), len(HAND) + 1, 10_000):
        (ranking,) = ask(engine, [query("red fox", k)])
        assert {hit.passage.id for hit in ranking} == {p.id for p in HAND}


@pytest.mark.parametrize("name", NAMES)
def test_no_hits_for_empty_queries_and_no_k(name: str, bench: Bench) -> None:
    engine = bench.build(name, where(name))
    assert ask(engine, [query(text) for text in EMPTY]) == [()] * len(EMPTY)
    assert ask(engine, [query("red fox", k) for k in (0, -1)]) == [(), ()]
    assert list(engine.run([])) == []


@with_("any corpus", "finds")
def test_a_passage_is_found_by_its_own_text_in_any_script(name: str, bench: Bench) -> None:
    engine = bench.build(name, HAND)
    rankings = ask(engine, [query(HAND.passage(key).text) for key in ("ja", "fr", "ru")])
    assert [ranking[0].passage.id for ranking in rankings] == ["ja", "fr", "ru"]


@with_("pure")
def test_one_by_one_is_the_batch(name: str, bench: Bench) -> None:
    corpus = where(name)
    engine = bench.build(name, corpus)
    texts = [*texts_of_the_world(), *STRANGE, "red fox", "fox number 3", *EMPTY[:1]]
    queries = [query(text, KS[i % 3]) for i, text in enumerate(texts)]
    batch = ask(engine, queries)
    assert [ask(engine, [q])[0] for q in queries] == batch
    assert ask(engine, queries[::-1]) == batch[::-1]
    assert ask(engine, queries[5:] + queries[:5]) == batch[5:] + batch[:5]


@with_("repeatable")
def test_equal_batches_have_equal_answers(name: str, bench: Bench) -> None:
    corpus = where(name)
    engine = bench.build(name, corpus)
    queries = [query(text, KS[i % 3]) for i, text in enumerate([*texts_of_the_world(), *STRANGE])]
    batch = ask(engine, queries)
    assert ask(engine, queries) == batch
    assert ask(bench.build_anew(name, corpus), queries) == batch


@with_("repeatable")
def test_each_item_has_its_own_k(name: str, bench: Bench) -> None:
    engine = bench.build(name)
    text = texts_of_the_world()[0]
    mixed = ask(engine, [query(text, k) for k in (3, 1, 0, 10, 3)])
    for k, ranking in zip((3, 1, 0, 10, 3), mixed, strict=True):
        assert ask(engine, [query(text, k)]) == [ranking]
        assert len(ranking) == min(k, len(mixed[3]))


@with_("repeatable")
def test_the_context_changes_nothing(name: str, bench: Bench) -> None:
    engine = bench.build(name)
    texts = texts_of_the_world()[:6]
    plain = ask(engine, [query(text) for text in texts])
    dressed = [query(text, key=i + 1, episode=f"e{i}", noise=0.9) for i, text in enumerate(texts)]
    assert ask(engine, dressed) == plain


@pytest.mark.parametrize("name", NAMES)
def test_equal_keys_mean_equal_answers(name: str, bench: Bench) -> None:
    engine = bench.build(name)
    queries = [query(text, k) for text in texts_of_the_world() for k in (1, 3)]
    known: dict[bytes, Ranking] = {}
    for q, ranking in zip(queries, ask(engine, queries), strict=True):
        key = engine.cache_key(q)
        assert key is not None or "repeatable" not in ENTRIES[name].capabilities
        if key is not None:
            assert known.setdefault(key, ranking) == ranking
    assert "repeatable" not in ENTRIES[name].capabilities or len(known) > 1


@pytest.mark.parametrize("name", NAMES)
def test_the_fingerprint_names_engine_and_corpus(name: str, bench: Bench) -> None:
    engine = bench.build(name, where(name))
    assert isinstance(engine.fingerprint, str)
    assert len(engine.fingerprint) >= 8
    assert engine.needs_task == ("task" in ENTRIES[name].capabilities)
    if "repeatable" in ENTRIES[name].capabilities:
        assert bench.build_anew(name, where(name)).fingerprint == engine.fingerprint
    if {"own", "any corpus"} <= ENTRIES[name].capabilities:
        other = Corpus("other", [*HAND][:-1])
        assert bench.build(name, other).fingerprint != engine.fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_one_clear_error(name: str, bench: Bench) -> None:
    place = bench.place()
    spec = ENTRIES[name].spec(place)
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    with pytest.raises(EngineError, match="no_such_option"):
        build_engine({**options, "no_such_option": 1}, place.corpus, place.world)


@pytest.mark.parametrize("name", [n for n in NAMES if ENTRIES[n].failing is not None])
def test_a_failed_item_leaves_its_neighbours_alone(name: str, bench: Bench) -> None:
    place = bench.place()
    failing = ENTRIES[name].failing
    assert failing is not None
    spec, bad = failing(place)
    engine = build_engine(spec, place.corpus, place.world)
    good = texts_of_the_world()[:4]
    answers = list(engine.run([query(t) for t in (good[0], bad, good[1], good[2], bad, good[3])]))
    failures = [isinstance(answer, Failure) for answer in answers]
    assert failures == [False, True, False, False, True, False]
    kept = [answer for answer in answers if not isinstance(answer, Failure)]
    assert all(kept)
    assert ask(engine, [query(text) for text in good]) == kept
