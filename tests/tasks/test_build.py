from __future__ import annotations

from dataclasses import replace

import pytest

from searchgym.errors import TaskError
from searchgym.tasks.build import build_tasks

from .conftest import COUNTS
from .tiny import make_corpus, make_world, random_world


def _wordless(task):
    return replace(task, question="", ordered=False, meta={"shape": task.meta["shape"]})


def test_the_wording_seed_changes_only_the_words():
    world = random_world(7)
    corpus = make_corpus(world)

    def build(**how):
        return build_tasks(world, corpus, counts=COUNTS, seed=7, **how)

    first, other = build(wording_seed=0), build(wording_seed=1)
    heldout = build(phrasing="heldout")
    assert [_wordless(t) for t in first] == [_wordless(t) for t in other]
    assert [_wordless(t) for t in first] == [_wordless(t) for t in heldout]
    assert sum(a.question != b.question for a, b in zip(first, other, strict=True)) > 50
    assert not {t.question for t in first} & {t.question for t in heldout}
    assert build(wording_seed=0) == first


def test_seeds_ask_different_things():
    world = random_world(7)
    corpus = make_corpus(world)
    first = build_tasks(world, corpus, counts={"simple": 50}, seed=1)
    other = build_tasks(world, corpus, counts={"simple": 50}, seed=2)
    assert len({t.graph for t in first} & {t.graph for t in other}) < 25


def test_ids_and_split():
    world = random_world(7)
    tasks = build_tasks(
        world, make_corpus(world), counts={"simple": 3}, split="dev", id_prefix="w7"
    )
    assert [t.id for t in tasks] == ["w7-simple-0", "w7-simple-1", "w7-simple-2"]
    assert {t.split for t in tasks} == {"dev"}


def test_what_does_not_stand_is_replaced():
    world = random_world(7)
    corpus = make_corpus(world)
    counts = {"simple": 40, "chain-2": 20}

    def stand(tasks):
        return [t for t in tasks if "release" not in t.question]

    plain = build_tasks(world, corpus, counts=counts, seed=1)
    assert 5 < len(stand(plain)) < 60
    assert build_tasks(world, corpus, counts=counts, seed=1, prove=lambda tasks: tasks) == plain
    tasks = build_tasks(world, corpus, counts=counts, seed=1, prove=stand)
    assert len(tasks) == 60
    assert stand(tasks) == tasks
    assert len({t.question for t in tasks}) == len({t.id for t in tasks}) == 60
    with pytest.raises(TaskError, match=r"asked for 40 tasks of family 'simple'.* gave only 0"):
        build_tasks(world, corpus, counts=counts, prove=lambda tasks: [])


def test_a_world_too_small_says_what_was_possible():
    world = make_world(["film", "person"], [(0, "director", 1)], ["Alpha", "Ann"])
    with pytest.raises(TaskError, match=r"asked for 9 tasks of family 'simple'.* gave only 2"):
        build_tasks(world, make_corpus(world), counts={"simple": 9})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"counts": {"simpel": 1}}, "task family 'simpel'. Did you mean 'simple'"),
        ({"counts": {"simple": -1}}, "must be 0 or more, got -1"),
        ({"counts": {}, "phrasing": "test"}, "'train' or 'heldout', got 'test'"),
    ],
)
def test_wrong_arguments(arguments, message):
    world = random_world(0, 10, 10, 5)
    with pytest.raises(TaskError, match=message):
        build_tasks(world, make_corpus(world), **arguments)
