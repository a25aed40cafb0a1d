"""The shipped world: every family survives the audit and reads like a question."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from searchgym.corpora import render
from searchgym.engines import BM25Engine
from searchgym.tasks.audit import verify
from searchgym.tasks.build import build_tasks
from searchgym.worlds import generate, load_schema

COUNTS = {
    "simple": 100, "chain": 100, "comparison": 100, "intersection": 40, "count": 40,
    "parallel": 50, "superlative": 40, "unanswerable": 50,
}  # fmt: skip


WORLDS = [
    (name, side) for name in ("encyclopedia", "encyclopedia-v1") for side in ("train", "heldout")
]
SURVIVE = {"encyclopedia": 0.85, "encyclopedia-v1": 0.6}
"""Shares of a family's tasks. Pages of version 1 are longer and speak of each other's subjects, so
that more are not found by one query; its environments replace those (``refill``)."""


@pytest.fixture(scope="module", params=WORLDS, ids=" ".join)
def audited(request):
    name, phrasing = request.param
    world = generate(load_schema(name), entities=1200, seed=21)
    corpus = render(world, wording_seed=0, phrasing=phrasing, name="w")
    tasks = build_tasks(world, corpus, counts=COUNTS, seed=21, phrasing=phrasing)
    return world, corpus, tasks, verify(tasks, world, corpus, BM25Engine(corpus))


def test_most_tasks_of_every_family_survive(audited):
    world, *_, report = audited
    print(report.table())
    assert {r.reason for r in report.rejected} <= {"not retrieved"}
    for family in COUNTS:
        assert report.rate(family) >= SURVIVE[world.schema.name], family


def test_questions_are_whole(audited):
    _, _, tasks, _ = audited
    for task in tasks:
        assert not re.search(r"[{}]|\bthe the\b| {2}|\bof of\b", task.question), task.question
        assert task.question == task.question.strip()
        assert len(task.question) < 600


def test_no_constant_answer_pays(audited):
    _, _, tasks, _ = audited
    for family, number in COUNTS.items():
        if family == "unanswerable":
            continue
        answer, most = Counter(t.answers[0] for t in tasks if t.family == family).most_common(1)[0]
        print(f"{family}: the most frequent answer, {answer!r}, has a share of {most / number:.3f}")
        assert most / number <= (0.31 if family == "count" else 0.11)
    assert sum(t.answers[0] == "yes" for t in tasks) / len(tasks) < 0.03


def test_rings_have_treewidth_two(audited):
    _, _, tasks, _ = audited
    rings = [t for t in tasks if t.meta["shape"] == "ring"]
    assert rings
    assert {t.difficulty.treewidth for t in rings} == {2}
    assert {t.difficulty.treewidth for t in tasks if t.meta["shape"] != "ring"} == {1}


def test_namesakes_and_lookalikes_do_not_make_answers_ambiguous():
    world = generate(
        load_schema("encyclopedia"), entities=800, seed=4, homonyms=0.2, lookalikes=0.2
    )
    corpus = render(world, wording_seed=0, phrasing="train", name="w", distractors=2)
    counts = {family: number // 2 for family, number in COUNTS.items()}
    tasks = build_tasks(world, corpus, counts=counts, seed=4)
    report = verify(tasks, world, corpus, BM25Engine(corpus))
    assert {r.reason for r in report.rejected} <= {"not retrieved"}
    assert report.rate() >= 0.85
    bearers = Counter(name.lower() for name in world.names)
    for task in tasks:
        for node in task.graph.nodes:
            if node.given and node.value in world.titles:
                name = world.names[list(world.titles).index(node.value)]
                assert node.value in task.question or (
                    bearers[name.lower()] == 1 and name in task.question
                )
