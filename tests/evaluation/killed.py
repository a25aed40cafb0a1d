"""An evaluation in a process of its own, slow enough to be killed: ``python -m
tests.evaluation.killed RESULT LOG [WORKERS]``. Every act of the agent is logged at once. And what
workers fail with. Nothing here takes long to import: each test starts many processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from searchgym import FirstHitAgent
from searchgym.envs import SearchEnv
from searchgym.errors import EvaluationError
from searchgym.evaluation.run import evaluate
from searchgym.types import Agent, Hit, Query, Ranking, Task, TurnRequest
from tests.small import CORPUS

TASKS = [Task(f"q{i}", f"Who founded Osten, told {i} times?", ("Quell",)) for i in range(40)]


class ByWords:
    """Finds the passages that share most words with a query."""

    fingerprint = "by words"
    needs_task = False

    def cache_key(self, request: Query, /) -> bytes | None:
        return None

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        return [self._one(set(query.text.lower().split()), query.k) for query in batch]

    def _one(self, words: set[str], k: int) -> Ranking:
        shared = [
            Hit(passage, float(n))
            for passage in CORPUS
            if (n := len(words.intersection(f"{passage.title} {passage.text}".lower().split())))
        ]
        return tuple(sorted(shared, key=lambda hit: -hit.score)[:k])


class Slow:
    """First hits, at leisure; notes each first turn in a file that all processes share."""

    fingerprint = "slow"

    def __init__(self, log: Path) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._agent = FirstHitAgent()

    def act(self, requests: Sequence[TurnRequest], /) -> Sequence[str]:
        time.sleep(0.01)
        for request in requests:
            if request.turn == 0:
                os.write(self._log, f"{request.episode_id}\n".encode())
        return self._agent.act(requests)


def build(log: Path) -> tuple[Agent, SearchEnv]:
    return Slow(log), SearchEnv(**{"corpus": CORPUS, "tasks": TASKS, "engine": ByWords()})


def unable() -> tuple[Agent, SearchEnv]:
    raise EvaluationError("no model here")


def broken() -> tuple[Any, SearchEnv]:
    return None, SearchEnv(**{"corpus": CORPUS, "tasks": TASKS})


def cut_off() -> tuple[Agent, SearchEnv]:
    raise ConnectionResetError("the model's server hung up")


if __name__ == "__main__":
    out, log, workers = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    agent, shared = build(log)
    evaluate(
        agent, shared, name="slow", batch=3, out=out, workers=workers, build=partial(build, log)
    )
