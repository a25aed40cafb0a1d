"""MaskSearch: masks of real paragraphs and of worlds' pages, its reward, its roles."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from searchgym.agents import OracleAgent
from searchgym.corpora import Corpus
from searchgym.curricula import make_curriculum
from searchgym.engines import build_engine
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, TaskError
from searchgym.evaluation import evaluate
from searchgym.types import Passage, Task
from searchgym_agents.synthesis.masksearch import (
    LONGEST,
    MaskedFill,
    MaskSearchTeam,
    Ramp,
    alone,
    chosen,
    found_in,
    mask,
    mask_count,
    rewritten,
)

NOTES = [
    ("Heat (1995 film)", "Heat is a 1995 American crime film written and directed by Michael Mann. "
     "It stars Al Pacino and was released on 15 December 1995 in Los Angeles."),
    ("Ada Lovelace", "Ada Lovelace was an English mathematician. She was born in London in 1815 "
     "and worked with Charles Babbage on the Analytical Engine."),
    ("Bern", "Bern is the capital of Switzerland. It was founded in 1191 by Berthold V and lies on "
     "the Aare. In 2020 it had 134,794 inhabitants, and the Zytglogge is its landmark."),
]  # fmt: skip


def world(**tasks: Any) -> SearchEnv:
    return SearchEnv(
        corpus="encyclopedia", world={"entities": 1500}, tasks=tasks, may_abstain=True,
        reward="masked_fill",
    )  # fmt: skip


@pytest.fixture(scope="module")
def asked() -> SearchEnv:
    return world(ramp=150)


def made(*values: str) -> tuple[str, Task]:
    """A paragraph, and the task of filling in these values of it."""
    text = NOTES[2][1]
    spans = [(text.index(value), text.index(value) + len(value)) for value in values]
    masked = mask(text, spans)
    meta = {"masked": masked.text, "values": list(values), "masks": len(values)}
    forms = tuple((value,) for value in values)
    return text, Task(
        "t", masked.text, (" and ".join(values),), items=forms, ordered=True, meta=meta
    )


FOUR = "1191", "Berthold V", "134,794", "Zytglogge"


def test_the_papers_numbers_of_the_reward() -> None:
    text, task = made(*FOUR)
    pay = MaskedFill().score
    assert pay(task, "1191; Berthold V; 134,794; the Kornhaus") == pytest.approx(0.775)
    assert pay(task, text.replace("Zytglogge", "Kornhaus")) == pytest.approx(0.775)
    assert pay(task, text) == pay(task, "; ".join(FOUR)) == 1.0
    words = " ".join(sorted({w for _, t in NOTES for w in re.findall(r"[\w,]*\w", t)}))
    assert MaskedFill("recall").score(task, words) == pytest.approx(0.9)  # which is gamed
    assert pay(task, words) <= 0.1
    assert pay(task, "") <= 0.1
    changed = text.replace("capital", "centre")
    assert pay(task, changed) == pytest.approx(0.9), "the format was not kept"
    with pytest.raises(CardError, match="em or recall"):
        MaskedFill("judge")


def test_how_many_spans_are_masked() -> None:
    rng = np.random.default_rng(0)
    counts = {n: Counter(mask_count(n, rng) for _ in range(2000)) for n in (1, 2, 3, 4, 9)}
    assert (set(counts[1]), set(counts[3]), set(counts[4]), set(counts[9])) == ({1}, {3}, {4}, {4})
    assert set(counts[2]) == {1, 2}
    assert abs(counts[2][1] - 1000) < 120


def test_long_spans_and_numbers_are_drawn_more_often() -> None:
    rng, text = np.random.default_rng(0), "one; two two two; 7; four"
    spans = [(0, 3), (5, 16), (18, 19), (21, 25)]
    drawn = Counter(chosen(text, spans, 1, rng)[0] for _ in range(4000))
    for span, weight in zip(spans, (1, 3, 3, 1), strict=True):
        assert drawn[span] / 4000 == pytest.approx(weight / 8, abs=0.03)
    assert len(set(chosen(text, spans, 4, rng))) == 4, "without replacement"


def test_what_stands_twice_or_in_the_title_is_left_alone() -> None:
    text = "It is in Bern, near Thun. Thun is old; Bern was founded in 1191."
    spans = [m.span() for m in re.finditer(r"Bern|Thun|1191|It", text)]
    assert [text[a:b] for a, b in alone(text, "Bern", spans)] == ["1191"]


def brute(masked: str, page: str, values: list[str]) -> bool:
    """A page that has the values where the text has its masks, checked letter by letter."""
    for number, value in enumerate(values, 1):
        name = "[mask]" if len(values) == 1 else f"[mask {number}]"
        assert masked.count(name) == 1
        masked = masked.replace(name, value)
    return masked == page


def test_masks_are_undone_byte_for_byte_and_the_oracle_solves_all(asked: SearchEnv) -> None:
    assert len(asked.tasks) >= 130
    for task in asked.tasks:
        values, masked = list(task.meta["values"]), task.meta["masked"]
        page = asked.corpus.passage(task.evidence[0]).text
        assert brute(masked, page, values)
        assert found_in(masked, page) == values
        assert all(value not in masked for value in values)
        assert task.graph is not None, "the solver proved it"
        assert 1 <= task.meta["masks"] == len(values) <= 4
    result = evaluate(OracleAgent(asked.tasks), asked)
    assert result.means["em"].mean == result.means["masked_fill"].mean == 1.0


def test_the_team_knows_no_answer_and_fills_in_nearly_all(asked: SearchEnv) -> None:
    result = evaluate(MaskSearchTeam(asked), asked)
    assert result.means["em"].mean >= 0.95
    first = asked.tasks[0]
    queries = rewritten(first.question, 0)
    assert len(queries) >= 3
    assert not any(value in query for query in queries for value in first.meta["values"])
    unread = asked.under(max_queries=0)
    assert evaluate(MaskSearchTeam(unread), unread).means["em"].mean == 0.0
    with pytest.raises(TaskError, match="ask tasks="):
        MaskSearchTeam(world(simple=2))


def test_a_corpus_of_text_is_masked() -> None:
    corpus = Corpus("notes", [Passage(t, t, text, "") for t, text in NOTES])
    search, kinds = build_engine("bm25", corpus).search, Counter[str]()
    for split in ("train", "dev", "test"):
        for task in Ramp().ask(corpus, 3, split=split, search=search).tasks:
            page = corpus.passage(task.evidence[0])
            assert brute(task.meta["masked"], page.text, task.meta["values"])
            kinds.update("number" if v[0].isdigit() else "name" for v in task.meta["values"])
    assert kinds.total() == 3 * 4, "each page is of one split alone"
    assert kinds["number"] >= 1
    assert kinds["name"] >= 1
    with pytest.raises(TaskError, match="ramp"):
        SearchEnv(corpus=corpus, tasks={"ramp": 50})
    with pytest.raises(TaskError, match="masks must be"):
        world(ramp={"count": 2, "masks": 5})


def test_real_passages(data_dir: Path) -> None:
    env = SearchEnv(corpus="hotpotqa", tasks={"ramp": 100}, reward="masked_fill")
    assert len(env.tasks) == 100
    again = SearchEnv(corpus="hotpotqa", tasks={"ramp": 100})
    assert [t.question for t in env.tasks] == [t.question for t in again.tasks]
    for task in env.tasks:
        page = env.corpus.passage(task.evidence[0]).text
        assert len(page) <= LONGEST
        assert brute(task.meta["masked"], page, task.meta["values"])
    assert evaluate(OracleAgent(env.tasks), env).means["em"].mean == 1.0


def test_the_curriculum_orders_by_masks() -> None:
    counts = {f"ramp-{n}": {"count": 10, "use": "ramp", "masks": n} for n in (1, 2, 3, 4)}
    env = world(**counts, at_most=True)
    assert {task.meta["masks"] for task in env.tasks} == {1, 2, 3, 4}
    curriculum = make_curriculum({"use": "masksearch", "by": "masks", "min_episodes": 5})
    assert {env.tasks[curriculum.choose(env.tasks, key)].meta["masks"] for key in range(50)} == {1}
