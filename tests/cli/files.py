"""A folder with a small model, passages and questions, as people have them, and the options that
``train`` and ``eval`` take for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warm model, a corpus and questions, as people have them: files."""
    from tests.rl.colours import CORPUS, TASKS, player, tokenizer

    folder = tmp_path_factory.mktemp("world")
    lm, _ = player()
    lm.model.save_pretrained(folder / "warm")
    tokenizer().save_pretrained(folder / "warm")
    with (folder / "corpus.jsonl").open("w") as file:
        file.writelines(json.dumps(p._asdict()) + "\n" for p in CORPUS)
    with (folder / "questions.jsonl").open("w") as file:
        for task in TASKS:
            row = {"id": task.id, "question": task.question, "answers": task.answers,
                   "evidence": task.evidence}  # fmt: skip
            file.write(json.dumps(row) + "\n")
    return folder


def options(world: Path, *more: object, model: str = "warm") -> list[str]:
    """``train``'s options for that world: a step takes a fifth of a second."""
    changes = {
        "env.corpus": world / "corpus.jsonl", "env.tasks": world / "questions.jsonl",
        "env.dialect": "plain", "env.k": 1, "env.max_turns": 2, "env.may_abstain": "false",
        "sampling.max_tokens": 6, "sampling.stop": '["\\n"]', "train.tasks": 4,
    }  # fmt: skip
    sets = [part for k, v in changes.items() for part in ("-s", f"{k}={v}")]
    base = [
        "--model",
        world / model,
        "--env",
        "SearchQA-v0",
        "-s",
        "train.lr=2e-3",
        "-s",
        "device=cpu",
    ]
    return [str(a) for a in (*base, *sets, *more)]


def own(world: Path) -> list[str]:
    """``eval``'s options for that world."""
    return ["-s", f"corpus={world / 'corpus.jsonl'}", "-s", f"tasks={world / 'questions.jsonl'}",
            "-s", "dialect=plain", "-s", "k=1", "-s", "max_turns=2",
            "-s", "may_abstain=false"]  # fmt: skip
