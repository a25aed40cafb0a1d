"""Drills and clozes say what the page says; mixtures keep shares and budgets."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from searchgym.corpora import Corpus
from searchgym.envs import SearchEnv
from searchgym.errors import DataError, TaskError
from searchgym.llms import Example
from searchgym.types import Passage, Task
from searchgym_agents.reader.drills import MOST, drills_of
from searchgym_agents.reader.examples import KINDS, Examples, examples
from searchgym_agents.reader.mixture import Mixture, Stage
from searchgym_agents.reader.questions import BLANK, asked_of, clozes_of
from searchgym_agents.reader.traces import DEFAULTS, Trace

pytestmark = pytest.mark.contract

KEYWORDS = {**DEFAULTS, "tasks": {"simple": 12, "chain-2": 6}}


def small(worlds: int, **options: Any) -> Examples:
    return examples(worlds, **{"keywords": KEYWORDS, "entities": 100, "seed": 3, **options})


@pytest.fixture(scope="module")
def made() -> Examples:
    return small(2)


@pytest.fixture(scope="module")
def drills(world: SearchEnv) -> list[Trace]:
    return list(drills_of(world, seed=1))


def test_a_drill_finds_what_it_was_asked_for(drills: list[Trace]) -> None:
    assert len(drills) > 150
    for drill in drills:
        asked, *between, answer = drill.pieces
        assert not asked.own
        assert answer.own
        shown = "".join(piece.text for piece in between if not piece.own)
        plan = asked.text[len("<think>") : asked.text.index("</think>")]
        lines = answer.text[len("<think>") : answer.text.index("</think>")].split("; ")
        assert 1 <= len(lines) <= MOST
        for label, found in (line.split(": ") for line in lines):
            if label[0] == "+":
                assert label in plan
            else:  # repeats the search
                assert f"<search> {label[2:]} </search>" in asked.text
            assert found in shown


def test_drills_are_fixed_by_their_seed(world: SearchEnv, drills: list[Trace]) -> None:
    assert list(drills_of(world, seed=1)) == drills
    assert list(drills_of(world, seed=2)) != drills


@pytest.mark.slow  # three worlds, twice
def test_processes_do_not_change_the_examples() -> None:
    told: list[int] = []
    alone = small(3, paraphrases=True)
    assert small(3, paraphrases=True, processes=2, report=told.append) == alone
    assert told == [1, 2, 3]


def test_a_cloze_blanks_the_answer_and_names_the_page(world: SearchEnv) -> None:
    titles = {p.title for p in world.corpus}
    clozes = list(clozes_of(world))
    assert len(clozes) > 500
    for cloze in clozes:
        question, action = cloze.pieces
        assert BLANK in question.text
        found = re.search(r"<search> (.*) </search>", action.text)
        assert found
        assert found[1] in question.text
    searched = Counter(c.pieces[1].text.split("<search> ")[1][: -len(" </search>")] for c in clozes)
    assert sum(n for name, n in searched.items() if name in titles) > 0.8 * len(clozes)


def test_questions_alone_begin_as_an_oracle_would(world: SearchEnv) -> None:
    counts = {"simple": 30, "chain-2": 20}
    asked = list(asked_of(world, counts, seed=5))
    assert Counter(trace.hops for trace in asked) == {1: 30, 2: 20}
    assert asked == list(asked_of(world, counts, seed=5))
    for trace in asked:
        question, action = trace.pieces
        assert (question.own, action.own) == (False, True)
        found = re.fullmatch(r"<think>(.+)</think>\n<search> (.+) </search>", action.text.strip())
        assert found, action.text
        assert len(re.findall(r"[+-] ", found[1])) == trace.hops
        assert found[2].split()[-1] in question.text  # the one name a question gives


def test_every_second_world_is_paraphrased_where_that_is_asked_for(made: Examples) -> None:
    plain, wide = made, small(2, paraphrases=True)
    for before, after in zip(plain, wide, strict=True):
        shared = sum(one == other for one, other in zip(before, after, strict=False))
        assert 0.4 < shared / len(before) < 0.7  # the first world, to the letter
    assert len(plain.asked) == len(wide.asked) == 1_200


def test_drills_need_a_generated_world() -> None:
    corpus = Corpus("own", [Passage("p1", "Ann", "Ann was born in Rome.", "u1")])
    made = SearchEnv(**{"corpus": corpus, "tasks": [Task("t", "Where was Ann born?", ("Rome",))]})
    for write in (drills_of, clozes_of, lambda s: asked_of(s, {"simple": 1}, seed=0)):
        with pytest.raises(TaskError, match="generated world"):
            next(iter(write(made)))


def test_examples_are_of_every_kind_and_reproducible(made: Examples) -> None:
    assert made == small(2)
    other = small(2, seed=4)
    for mine, others in zip(made, other, strict=True):
        assert {text.pieces for text in mine}.isdisjoint(text.pieces for text in others)
    tokenizer = made.tokenizer(512)
    rows = made.rows(tokenizer, 700)
    assert set(rows) == set(KINDS)
    assert all(rows[kind] for kind in KINDS)
    with pytest.raises(DataError, match="no episode"):
        examples(1, keywords={**KEYWORDS, "tasks": {"simple": 1}, "max_turns": 1})


def rows_of(*lengths: int) -> list[Example]:
    return [Example(np.arange(n), np.ones(n, bool)) for n in lengths]


def test_a_mixture_keeps_shares_budget_and_epochs() -> None:
    kinds = {"a": rows_of(*range(5, 45)), "b": rows_of(*([100] * 7), 900)}
    plan = (Stage(300, {"a": 1.0}), Stage(1_000, {"a": 1.0, "b": 3.0}))
    mixture = Mixture(kinds, plan, tokens=250, seed=4)
    assert len(mixture) == 1_300
    batches = [mixture.batch(step) for step in range(1_300)]
    assert all(i < 40 for batch in batches[:300] for i in batch)
    later = Counter(batch[0] >= 40 for batch in batches[300:])
    assert 0.7 < later[True] / 1_000 < 0.8
    for batch in batches:
        longest = max(len(mixture.rows[i].ids) for i in batch)
        assert len(batch) == 1 or longest * len(batch) <= 250
        assert len({i >= 40 for i in batch}) == 1
    read = Counter(i for batch in batches for i in batch)
    for first, end in ((0, 40), (40, 48)):
        counts = [read[i] for i in range(first, end)]
        assert max(counts) - min(counts) <= 1  # epoch after epoch, none left out


def test_a_mixture_may_be_asked_from_any_step() -> None:
    kinds = {"a": rows_of(*range(5, 45)), "b": rows_of(*([100] * 7))}
    plan = (Stage(200, {"a": 1.0, "b": 1.0}),)
    forward, later = Mixture(kinds, plan, seed=4), Mixture(kinds, plan, seed=4)
    assert [later.batch(s) for s in range(150, 200)] == [forward.batch(s) for s in range(200)][150:]


def test_a_mixture_of_nothing_is_refused() -> None:
    kinds = {"a": rows_of(3, 4), "b": []}
    for stages, what in (
        ([Stage(3, {"b": 1.0})], "takes rows of 'b', of which there are none"),
        ([Stage(3, {"a": 0.0})], "shares"),
        ([Stage(3, {"a": -1.0})], "shares"),
        ([Stage(0, {"a": 1.0})], "steps ≥ 1"),
    ):
        with pytest.raises(DataError, match=what):
            Mixture(kinds, stages)
