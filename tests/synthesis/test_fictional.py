"""FictionalHot: questions of a real set about invented things, in the set's own corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from searchgym.agents import OracleAgent
from searchgym.corpora import load_set
from searchgym.envs import SearchEnv
from searchgym.errors import TaskError
from searchgym.evaluation import evaluate
from searchgym.text import covers, normalise_answer


@pytest.fixture(scope="module")
def asked(data_dir: Path) -> SearchEnv:
    return SearchEnv(corpus="hotpotqa", split="train", tasks={"fictional": 60})


def test_names_are_others_and_stand_on_inserted_pages_alone(asked: SearchEnv) -> None:
    corpus, tasks = load_set("hotpotqa", "train")
    before = {task.id: task for task in tasks}
    texts = [normalise_answer(f"{p.title} {p.text}") for p in corpus]
    assert len(asked.tasks) == 60
    assert {p.id for p in corpus} < {p.id for p in asked.corpus}
    for task in asked.tasks:
        old = before[task.id.removeprefix("fictional-")]
        pages = [asked.corpus.passage(e) for e in task.evidence]
        told = normalise_answer(" ".join([task.question, *task.answers, *(p.title for p in pages)]))
        for title in (corpus.passage(e).title for e in old.evidence):
            assert not covers(told, normalise_answer(title)), title
        for new, was in zip(task.answers, old.answers, strict=True):
            answer = normalise_answer(new)
            assert answer != normalise_answer(was)
            assert not any(answer in text for text in texts), "no original page has it"
        assert any(covers(normalise_answer(f"{p.title} {p.text}"), normalise_answer(a))
                   for p in pages for a in task.answers)  # fmt: skip
        assert all(p.id not in corpus for p in pages)
    assert len(asked.corpus) == len(corpus) + len({e for t in asked.tasks for e in t.evidence})


def test_what_is_searched_answers_them_and_what_is_known_does_not(asked: SearchEnv) -> None:
    assert evaluate(OracleAgent(asked.tasks), asked).means["em"].mean == 1.0
    _, tasks = load_set("hotpotqa", "train")
    known = {normalise_answer(answer) for task in tasks for answer in task.answers}
    invented = [normalise_answer(answer) for task in asked.tasks for answer in task.answers]
    assert known.isdisjoint(invented), "closed-book, the original answers are all wrong"


def test_another_corpus_and_the_same_questions_twice(data_dir: Path) -> None:
    options = {"count": 8, "of": "hotpotqa", "seed": 1}
    envs = [SearchEnv(corpus="popqa", split="train", tasks={"fictional": options}) for _ in "ab"]
    assert [t.question for t in envs[0].tasks] == [t.question for t in envs[1].tasks]
    assert evaluate(OracleAgent(envs[0].tasks), envs[0]).means["em"].mean == 1.0
    with pytest.raises(TaskError, match="asked for 500 fictional tasks"):
        SearchEnv(corpus="hotpotqa", split="train", tasks={"fictional": 500})
    with pytest.raises(TaskError, match="a real set's"):
        SearchEnv(corpus="encyclopedia", world={"entities": 300}, tasks={"fictional": 5})
