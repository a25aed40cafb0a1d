"""What holds for the tasks of every system that asks by constraint graphs."""

from __future__ import annotations

import json
import re
from collections import Counter

import gymnasium as gym
import pytest

from searchgym.agents import OracleAgent
from searchgym.corpora import render
from searchgym.envs import SearchEnv
from searchgym.evaluation import evaluate
from searchgym.kgs import from_world
from searchgym.tasks import build_tasks
from searchgym.text import normalise_answer
from searchgym.worlds import generate, load_schema

from . import constraint_worlds
from .constraint_worlds import COUNTS, answers, built, edges


@pytest.fixture(scope="module", params=[0])
def made(request):
    return built(request.param)


def test_every_system_gives_what_was_asked_for(made):
    _, _, tasks = made
    assert Counter(t.family for t in tasks) == COUNTS
    assert len({t.question for t in tasks}) == len(tasks)


def test_answers_are_the_only_ones(made):
    world, _, tasks = made
    for task in tasks:
        assert answers(task.graph, world) == {task.answers[1] if len(task.answers) > 1 and
               task.answers[0] not in world.titles else task.answers[0]}, task.id  # fmt: skip


def test_every_constraint_is_needed(made):
    world, _, tasks = made
    for task in tasks:
        if task.meta["shape"] == "tetrahedron":
            continue  # nested loops take too long for a dozen constraints
        needed = [len(answers(task.graph, world, without=e)) > 1 for e in edges(task)]
        if task.family == "redsearcher" and task.meta["shape"] != "path":
            assert sum(needed) >= 0.5 * len(needed), task.id
        else:
            assert all(needed), task.id


def test_questions_name_what_is_given_and_nothing_else(made):
    _, _, tasks = made
    for task in tasks:
        words = f" {normalise_answer(task.question)} "
        for node in task.graph.nodes:
            told = f" {normalise_answer(node.value)} " in words
            kind = node.type in ("person", "film", "city", "country")
            assert told if node.given else not (told and kind), (task.question, node)


def test_clauses_nest_at_their_end():
    waiting = r"that an? [\w ]+? (that|who|whose) .* (released|recorded|founded)\b(?! (by|in|on))"
    assert re.search(waiting, "the album that a band that is from A recorded")
    assert not re.search(waiting, "the album that was recorded by a band that is from A")
    counts = {"infoseek": 12, "medresearcher": 12, "asearcher": 12, "at_most": True}
    for task in gym.make("SearchQA-v0", corpus="encyclopedia-v1", tasks=counts).unwrapped.tasks:
        assert not re.search(waiting + r"|\bis of \w+ of\b", task.question), task.question


def test_the_same_seed_gives_the_same_tasks(made):
    world, _, tasks = made
    again = built(world.seed)[2] if tasks[0].question == built(0)[2][0].question else built(1)[2]
    assert tasks == again


def test_meta_is_plain_json(made):
    for task in made[2]:
        assert json.loads(json.dumps(task.meta)) == task.meta


@pytest.fixture(scope="module")
def shared() -> SearchEnv:
    wanted = {**dict.fromkeys(COUNTS, 25), "redsearcher": 15}
    return SearchEnv(corpus="encyclopedia", tasks=wanted, max_turns=20, world={"refill": True})


def test_the_oracle_solves_what_a_world_is_asked(shared: SearchEnv) -> None:
    assert Counter(t.family for t in shared.tasks) == {
        **dict.fromkeys(COUNTS, 25),
        "redsearcher": 15,
    }
    assert evaluate(OracleAgent(shared.tasks), shared).means["em"].mean == 1.0


def test_graphs_are_asked_alike_and_splits_share_no_answer() -> None:
    graph = from_world(constraint_worlds.random_world(0))
    envs = {}
    for split in ("train", "test"):
        envs[split] = SearchEnv(
            corpus=graph, split=split, max_turns=20,
            tasks={**dict.fromkeys(COUNTS, 6), "chain": 5, "at_most": True},
        )  # fmt: skip
        assert evaluate(OracleAgent(envs[split].tasks), envs[split]).means["em"].mean == 1.0
    assert Counter(t.family for t in envs["train"].tasks) == {
        **dict.fromkeys(COUNTS, 6),
        "chain": 5,
    }
    proved = [{t.answers[0] for t in e.tasks if t.family in COUNTS} for e in envs.values()]
    assert not proved[0] & proved[1]


def test_clauses_of_new_worlds_are_english() -> None:
    """Who is no "what is the person"; no "city that is in which", no place that "was located"."""
    world = generate(load_schema("encyclopedia-v1"), entities=900, seed=0)
    counts = {"infoseek": 15, "bmgq": 15, "medresearcher": 15, "asearcher": 15, "at_most": True}
    tasks = build_tasks(world, render(world), counts=counts, seed=0)
    flaw = re.compile(
        r"^Wh(at|ich) (is|was) the (person|man|woman)\b|\b(that|who) is (in which|where)\b"
        r"|\b(that|who) (was located|is made)\b"
    )
    assert len(tasks) > 40
    assert [t.question for t in tasks if flaw.search(t.question)] == []
    assert flaw.search("What is the person who was born in A?")
    assert flaw.search("the city that is where A was born")
