"""Episodes whose texts are known beforehand, so that playing them costs no model's time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from searchgym.envs import SearchEnv
from searchgym.llms import (
    Codec,
    Completion,
    Floats,
    GenRequest,
    Ids,
    Reader,
    check,
    request_key,
    train_tokenizer,
)
from searchgym.seeding import stream
from searchgym.types import Failure, Task
from tests.llms import tiny
from tests.small import CORPUS, PASSAGES

VOCABULARY = 2048
QUERIES = ("Aldor founder", "Mira Venn born", "river Osten flows", "Quell people", "Trap")
LETTERS = list("abcdefghijklmnopqrstuvwxyz")


@cache
def words(count: int = 3000) -> tuple[str, ...]:
    """Made-up words, enough for a vocabulary of real size."""
    draw = stream(0, "words")
    return tuple("".join(draw.choice(LETTERS, draw.integers(2, 9))) for _ in range(count))


@cache
def tokenizer() -> Any:
    texts = [p.text for p in PASSAGES] + list(tiny.LINES)
    made = train_tokenizer([*texts, " ".join(words())], VOCABULARY)
    assert len(made) == VOCABULARY
    return made


def model(seed: int = 0) -> Any:
    """Qwen2 of 1.6 M parameters, a quarter of them in the tied head, as in Qwen2.5-0.5B."""
    return tiny.model(
        "qwen2", VOCABULARY, seed, hidden_size=192, intermediate_size=512, num_hidden_layers=3,
        max_position_embeddings=4096, initializer_range=0.05, tie_word_embeddings=True,
    )  # fmt: skip


def setting(tasks: int, *, turns: int, dialect: str = "search_r1") -> SearchEnv:
    """Different questions with one answer, over BM25."""
    return SearchEnv(
        **{
            "corpus": CORPUS,
            "tasks": [
                Task(
                    f"t{i}", f"The {' '.join(words()[9 * i : 9 * i + 9])}: in which town?",
                    ("Quell",), ("p1", "p2"), QUERIES[:1], "simple", 1,
                )
                for i in range(tasks)
            ],
            "engine": "bm25", "dialect": dialect, "k": 3, "max_turns": turns,
            "snippet_chars": 200,
        }
    )  # fmt: skip


class Recites:
    """A generator that says in turn t, to the i-th of the episodes that play in lock step, what
    member i of a group says there. ``model``: whose texts they are taken to be."""

    needs_task = False
    fingerprint = "recites"
    capabilities = frozenset({"ids", "logp", "seed"})
    context = None

    def __init__(self, lm: Any, group: int, turns: int, length: int) -> None:
        self.model, self.version = lm, 0
        self.codec = Codec(tokenizer())
        self.group, self.turns = group, turns
        self._asked = 0
        self._said = [
            [self._spell(t, member, length) for member in range(group)] for t in range(turns)
        ]

    def _spell(self, turn: int, member: int, length: int) -> tuple[str, Ids, tuple[int, ...]]:
        draw = stream(turn, "says", member)
        thought = " ".join(draw.choice(words(), int(length * draw.uniform(0.2, 0.6))))
        act = f"<search> {QUERIES[(turn + member) % len(QUERIES)]} </search>"
        if turn == self.turns - 1:
            act = f"<answer> {'Quell' if member % 3 == 0 else 'Osten'} </answer>"
        ids = tuple(tokenizer()(f"<think> {thought} </think> {act}")["input_ids"])
        reader = Reader(self.codec.decode)
        for token in ids:
            reader.add(token)
        return reader.finish(), ids, tuple(reader.ends)

    def cache_key(self, request: GenRequest) -> bytes:
        return request_key(request)

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        check(self, batch)
        turn, self._asked = self._asked % self.turns, self._asked + 1
        return [self._one(*self._said[turn][i % self.group]) for i in range(len(batch))]

    def _one(self, text: str, ids: Ids, ends: tuple[int, ...]) -> Completion:
        logp = np.full(len(ids), -1.0, np.float32)
        return Completion(text, ids, logp, ends, self.version, None, "stop")

    def score(self, batch: Sequence[tuple[Ids, Ids]]) -> list[Floats | Failure]:
        raise NotImplementedError("what is recited has no probability")
