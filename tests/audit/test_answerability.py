"""Which questions a corpus can answer, within k results and n turns, and why the others not."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.corpora import AnswerIndex, Corpus, is_aggregated, normalised
from searchgym.engines import BM25Engine
from searchgym.errors import DataError, EngineError
from searchgym.text import normalise_answer
from searchgym.types import ABSTAIN, Failure, Hit, Passage, Task
from searchgym_agents.audit.report import measure_answerability
from searchgym_agents.audit.verdicts import (
    ELSEWHERE,
    LATE,
    NO_GOLD,
    NOWHERE,
    UNFOUND,
    judge,
)


def passage(key: str, title: str, text: str) -> Passage:
    return Passage(key, title, text, f"u://{key}")


CORPUS = Corpus(
    "c",
    [
        passage("a", "Ann Bee", "Ann Bee wrote the novel Harbour Light."),
        passage("b", "Harbour Light", "A novel set in the port of Odda."),
        passage("c", "Odda", "Odda has 4,120 inhabitants and one mayor, Carl Dunn."),
        passage("d", "Carl Dunn", "He plays the lute."),
        passage("e", "Lute", "An instrument with strings, made in Rome and Romeo's town."),
    ],
)
ENGINE = BM25Engine(CORPUS)


def verdict(task: Task, k: int = 1, turns: int = 2) -> tuple[str, int]:
    (found,) = judge([task], CORPUS, ENGINE, k=k, turns=turns)
    return found.reason, found.turns


def test_every_reason_has_its_question() -> None:
    chain = Task(
        "q", "Where is the novel by Ann Bee set?", ("Odda",), ("a", "b"), hops=2, family="chain"
    )
    assert verdict(chain) == ("", 2)  # the question finds Ann Bee, and she the novel
    assert verdict(chain, turns=1) == (LATE, 2)
    assert verdict(replace(chain, evidence=("a", "zz"))) == (NO_GOLD, 0)
    assert verdict(replace(chain, answers=("Bergen",))) == (NOWHERE, 0)
    assert verdict(replace(chain, evidence=("d",))) == (ELSEWHERE, 0)
    lost = Task("q", "Whose hobby is music?", ("lute",), ("d",))
    assert verdict(lost) == (UNFOUND, 0)
    assert verdict(replace(lost, queries=("Carl Dunn plays",))) == ("", 1)
    (told,) = judge([replace(chain, evidence=("d",))], CORPUS, ENGINE)
    assert told.detail == "but in b"
    assert told.passages == 2


def test_answers_that_nobody_states_are_judged_by_their_evidence() -> None:
    polar = Task("p", "Did Ann Bee write Harbour Light?", ("yes",), ("a",))
    assert verdict(polar) == ("", 1)
    count = Task("n", "How many strings?", ("7",), ("e",), family="count")
    (told,) = judge([count], CORPUS, ENGINE)
    assert (told.kind, told.reason) == ("aggregated", "")
    (told,) = judge([replace(count, evidence=())], CORPUS, ENGINE)
    assert told.kind == "not judged"
    refused = replace(polar, answers=(ABSTAIN,), should_abstain=True)
    (told,) = judge([refused], CORPUS, ENGINE)
    assert (told.kind, told.reason) == ("not judged", "to be refused")
    report = measure_answerability([polar, refused], CORPUS, ENGINE, name="mine")
    line = report.line("all")
    assert (line.questions, line.apart, line.within.mean) == (1, 1, 1.0)
    assert is_aggregated(replace(polar, answers=("x",), meta={"type": "Numerical reasoning | A"}))


def test_without_gold_a_passage_with_the_answer_will_do() -> None:
    assert verdict(Task("q", "Who wrote Harbour Light?", ("Ann Bee",))) == ("", 1)
    pages = {"supporting_titles": ["Odda", "Nowhere"]}
    titles = Task("q", "Who is it?", ("Carl Dunn",), meta=pages)
    (told,) = judge([titles], CORPUS, ENGINE)
    assert (told.reason, told.detail) == (NO_GOLD, "Nowhere")
    pages = {"supporting_titles": ["Odda"]}
    assert verdict(replace(titles, question="Mayor of Odda?", meta=pages)) == ("", 1)


def test_words_are_matched_whole() -> None:
    index = AnswerIndex(CORPUS)
    assert index.places(["Rome"]) == [4]
    assert index.places(["Rom"]) == []
    assert index.places(["4120"]) == index.places(["4,120"]) == [2]
    assert index.places(["", "the"]) == []
    assert index.readable(["mayor"], ["c", "not there"])
    assert not index.readable(["mayor"], ["a"])


WORD = st.sampled_from("a the odda odd harbour light carl dunn lute of 4,120 romeo's".split())


@given(st.lists(WORD, min_size=1, max_size=3).map(" ".join))
def test_the_index_finds_what_reading_every_passage_finds(answer: str) -> None:
    wanted = normalise_answer(answer)
    slow = [i for i, p in enumerate(CORPUS) if wanted and f" {wanted} " in normalised(p)]
    assert AnswerIndex(CORPUS).places([answer]) == slow


def test_more_turns_and_results_never_answer_less() -> None:
    tasks = [
        Task(f"q{i}", f"What about {p.title}?", (p.title,), (p.id, "c"), hops=1 + i % 2)
        for i, p in enumerate(CORPUS)
    ]
    shares = {
        (k, n): measure_answerability(tasks, CORPUS, ENGINE, k=k, turns=n).line("all").within.mean
        for k in (1, 2, 5) for n in (1, 2, 4)
    }  # fmt: skip
    for k in (1, 2, 5):
        assert shares[k, 1] <= shares[k, 2] <= shares[k, 4]
    for n in (1, 2, 4):
        assert shares[1, n] <= shares[5, n]
    assert shares[5, 4] > shares[1, 1]


class _Broken:
    needs_task = False
    fingerprint = "broken"

    def cache_key(self, request: object) -> None:
        return None

    def run(self, batch: list[object]) -> list[Failure]:
        return [Failure("timeout", "too slow")] * len(batch)


class _Empty(_Broken):
    def run(self, batch: list[object]) -> list[tuple[Hit, ...]]:  # type: ignore[override]
        return [()] * len(batch)


def test_a_failing_engine_is_an_error_and_an_empty_one_an_answer() -> None:
    task = Task("q", "Who wrote Harbour Light?", ("Ann Bee",), ("a",))
    with pytest.raises(EngineError, match="timeout"):
        judge([task], CORPUS, _Broken())
    (told,) = judge([task], CORPUS, _Empty())
    assert (told.reason, told.queries) == (UNFOUND, ())


def test_reports_are_written_and_read(tmp_path: Path) -> None:
    tasks = [
        Task("1", "Who wrote Harbour Light?", ("Ann Bee",), ("a",), family="simple"),
        Task("2", "Who is Zoe?", ("Zoe Zed",), (), family="other", hops=2),
    ]
    report = measure_answerability(tasks, CORPUS, ENGINE, k=1, turns=2, name="mine")
    assert [line.group for line in report.lines()] == [
        "all", "family other", "family simple", "hops 1", "hops 2",
    ]  # fmt: skip
    data = json.loads(report.save(tmp_path / "r" / "a.json").read_text("utf-8"))
    assert data["shares"][0]["within"]["part"] == 1
    assert data["reasons"] == {NOWHERE: 1}
    assert [row["task_id"] for row in data["unanswerable"]] == ["2"]
    rows = list(csv.DictReader(report.save(tmp_path / "a.csv").open(encoding="utf-8")))
    assert [(row["task_id"], row["reason"]) for row in rows] == [("1", ""), ("2", NOWHERE)]
    with pytest.raises(DataError, match=r"\.json or \.csv"):
        report.save(tmp_path / "a.txt")
    empty = measure_answerability([], CORPUS, ENGINE)
    assert math.isnan(empty.line("all").within.mean)
    json.dumps(empty.to_json(), allow_nan=True)


def test_a_real_set(data_dir: Path) -> None:
    """PopQA: every gold passage is there; one search finds nearly all of it (BM25 R@5 is .955)."""
    from searchgym.corpora import load_set

    corpus, tasks = load_set("popqa", data_dir=data_dir)
    line = measure_answerability(tasks[:100], corpus, BM25Engine(corpus), k=5, turns=3).line("all")
    assert line.in_corpus.mean > 0.9
    assert line.one_search.mean <= line.within.mean <= line.in_corpus.mean
    assert line.within.mean > 0.85
