from __future__ import annotations

import time

import numpy as np
import pytest

from searchgym.corpora import GeneratedCorpus, render
from searchgym.engines.graph import OBJECT_SCORE, SUBJECT_SCORE, GraphEngine
from searchgym.errors import EngineError
from searchgym.types import CallContext, Query
from searchgym.worlds import World
from tests.worlds.shipped import world_from_card

CONTEXT = CallContext(0, "e", {})


@pytest.fixture(scope="module")
def made() -> tuple[World, GeneratedCorpus, GraphEngine]:
    world = world_from_card("encyclopedia", entities=1500, seed=3)
    corpus = render(world)
    return world, corpus, GraphEngine(world, corpus)


def test_a_title_finds_its_page_first_then_stated_neighbours(
    made: tuple[World, GeneratedCorpus, GraphEngine],
) -> None:
    world, corpus, engine = made
    for entity in range(0, world.n_entities, 97):
        title = world.titles[entity]
        (ranking,) = engine.search([f"tell me: {title.upper()}?"], 50)
        assert ranking[0].passage.title == title
        near = {f.object: OBJECT_SCORE for f in world.facts_of(entity) if world.prop(f).is_relation}
        for fact in world.facts_about(entity):
            near.setdefault(fact.subject, SUBJECT_SCORE)
        near.pop(entity, None)
        shown = {h.passage.id: h.score for h in ranking if h.score <= OBJECT_SCORE}
        pages = {corpus[int(corpus.page_of[e])].id: s for e, s in near.items()}
        assert shown.items() <= pages.items()
        assert len(shown) == min(50 - sum(h.score > 1 for h in ranking), len(pages))


def test_homonyms_tie_and_the_longest_name_wins(
    made: tuple[World, GeneratedCorpus, GraphEngine],
) -> None:
    world, _, engine = made
    names, counts = np.unique(np.array(world.names), return_counts=True)
    for name in names[counts > 1][:20]:
        twins = {world.titles[i] for i in range(world.n_entities) if world.names[i] == name}
        ranking = engine.search([str(name)], 20)[0]
        top = {h.passage.title for h in ranking if h.score == ranking[0].score}
        assert twins <= top
    for entity, title in enumerate(world.titles):
        if title != world.names[entity] and "(" in title:
            ((_, entities),) = engine.mentions(title)
            assert entity in entities
            break


def test_a_world_of_another_size_is_refused(
    made: tuple[World, GeneratedCorpus, GraphEngine],
) -> None:
    with pytest.raises(EngineError, match="do not belong together"):
        GraphEngine(world_from_card("encyclopedia", entities=300, seed=3), made[1])


def test_a_look_up_takes_microseconds(made: tuple[World, GeneratedCorpus, GraphEngine]) -> None:
    world, _, engine = made
    batch = [Query(f"Who founded {t}?", 3, CONTEXT) for t in world.titles[:1000]]
    engine.run(batch)
    best = min(_timed(engine, batch) for _ in range(5)) / len(batch)
    print(f"graph look-up: {best * 1e6:.1f} µs per query")
    assert best < 50e-6  # 5 µs when measured; shared machines are slow at times


def _timed(engine: GraphEngine, batch: list[Query]) -> float:
    start = time.perf_counter()
    engine.run(batch)
    return time.perf_counter() - start
