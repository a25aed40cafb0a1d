"""Questions that a generator words: the same checks, and a round trip through its reader."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from searchgym.cli import build
from searchgym.errors import TaskError
from searchgym.llms import Completion, GenRequest
from searchgym.tasks.grounded import Writer
from searchgym.text import normalise_answer
from searchgym.types import Failure

from .films import corpus, made_of


class Extractive:
    """A writer that puts words before the question, and a reader that repeats the sentence of its
    pages that shares most words with the question."""

    needs_task = False
    capabilities = frozenset[str]()
    fingerprint = "extractive"

    def __init__(self, leaks: str = "", knows: str = "", dumb: bool = False) -> None:
        self.leaks, self.knows, self.dumb = leaks, knows, dumb

    def cache_key(self, request: GenRequest, /) -> bytes | None:
        return None

    def run(self, batch: Sequence[GenRequest], /) -> list[Completion | Failure]:
        return [Completion(self.reply(str(request.prompt))) for request in batch]

    def score(self, batch: Sequence[object], /) -> list[Failure]:
        raise NotImplementedError

    def reply(self, prompt: str) -> str:
        pages, _, rest = prompt.rpartition("Question: ")
        asked, _, rest = rest.partition("\nAnswer:")
        if "Ask the same" in prompt:
            asked = prompt.split("Question: ")[1].split("\nAnswer:")[0]
            answer = prompt.split("\nAnswer: ")[1].split("\n")[0]
            return f" Please tell me: {asked} {answer if answer == self.leaks else ''}\nSo be it."
        if self.dumb or ". " not in pages:  # no pages
            return f" {self.knows or 'who knows'}"
        words = set(normalise_answer(asked).split())
        sentences = pages.replace("\n", ". ").split(". ")
        return max(sentences, key=lambda s: len(words & set(normalise_answer(s).split())))


COUNTS = {"fact": 40, "comparison": 4}


def test_each_question_is_the_writers_and_passes_the_round_trip() -> None:
    made = made_of(corpus(), counts=COUNTS, writer=Writer(Extractive()))
    assert made.made["fact"] > 5
    assert all("please tell me" in task.question.lower() for task in made.tasks)
    texts = {p.id: normalise_answer(p.text) for p in corpus()}
    for task in made.tasks:
        if task.family == "fact" and task.meta["rule"] == "fact":
            assert normalise_answer(task.answers[0]) in texts[task.evidence[-1]]


@pytest.mark.parametrize("reply", ["A " * 500_000, "1" * 2_000_000, "\n" * 9, "\ud800"])
def test_a_writer_that_does_not_stop_words_nothing(
    reply: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Extractive, "reply", lambda self, prompt: reply)
    began = time.process_time()
    assert not made_of(corpus(), counts=COUNTS, writer=Writer(Extractive())).tasks
    assert time.process_time() - began < 5


def test_the_checks_hold_for_the_writers_words() -> None:
    plain = made_of(corpus(), counts=COUNTS, writer=Writer(Extractive()))
    leaked = "Tom Reed"
    assert any(task.answers[0] == leaked for task in plain.tasks)
    made = made_of(corpus(), counts=COUNTS, writer=Writer(Extractive(leaks=leaked)))
    assert not any(t.answers[0] == leaked for t in made.tasks if t.family == "fact")
    assert made.refused["the answer is in the question"] > 0


def test_what_is_known_or_cannot_be_read_is_left_out() -> None:
    knows = Writer(Extractive(), Extractive(knows="Tom Reed"))
    made = made_of(corpus(), counts=COUNTS, writer=knows)
    assert not any("Tom Reed" in task.answers for task in made.tasks)
    assert made.refused["answered without its pages"] > 0
    made = made_of(corpus(), counts=COUNTS, writer=Writer(Extractive(), Extractive(dumb=True)))
    assert not made.tasks
    assert made.refused["a reader of its pages answers otherwise"] > 0


class Broken(Extractive):
    def run(self, batch: Sequence[GenRequest], /) -> list[Completion | Failure]:
        return [Failure("rejected", "no such model", retryable=False) for _ in batch]


def test_a_writer_that_fails_is_an_error() -> None:
    with pytest.raises(TaskError, match="no such model"):
        made_of(corpus(), counts=COUNTS, writer=Writer(Broken()))


def test_the_command_takes_any_generator(tmp_path: Path) -> None:
    source, out = tmp_path / "c.jsonl", tmp_path / "t.jsonl"
    source.write_text("".join(json.dumps({"id": p.id, "title": p.title, "text": p.text}) + "\n"
                              for p in corpus()))  # fmt: skip
    arguments = ["tasks", "make", str(source), "--out", str(out), "-s", "fact=6"]
    words = ["--writer", '{"name": "tests.tasks.test_grounded_writer:Extractive"}']
    said = CliRunner().invoke(build(), [*arguments, *words])
    assert said.exit_code == 0, said.output
    asked = [json.loads(line)["question"] for line in out.read_text().splitlines()]
    assert asked
    assert all("please tell me" in question.lower() for question in asked)
    said = CliRunner().invoke(build(), [*arguments, "--reader", "openai"])
    assert isinstance(said.exception, TaskError)


def test_another_engine_says_what_it_finds(tmp_path: Path) -> None:
    source, out = tmp_path / "c.jsonl", tmp_path / "t.jsonl"
    source.write_text("".join(json.dumps({"id": p.id, "title": p.title, "text": p.text}) + "\n"
                              for p in corpus()))  # fmt: skip
    arguments = ["tasks", "make", str(source), "--out", str(out), "-s", "fact=6", "-s", "gap=4"]
    for engine in ("grep", '{"name": "bm25", "k1": 0.1}'):
        said = CliRunner().invoke(build(), [*arguments, "--engine", engine])
        if engine == "grep":
            assert said.exit_code != 0  # no such engine
            continue
        assert said.exit_code == 0, said.output
        found = [
            json.loads(line)["meta"]["found_by"][engine] for line in out.read_text().splitlines()
        ]
        assert set(found) <= {True, False}
        assert f"of {6} fact questions" in said.output
