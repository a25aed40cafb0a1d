"""One model that writes for many threads: what they ask while it writes is its next batch, in which
equal requests are written once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import torch

from searchgym.batching import run_batch
from searchgym.llms import Completion, Floats, Generator, GenRequest, Ids
from searchgym.types import Failure


class Shared:
    """A generator for many threads, which a thread of its own drives until the program ends."""

    needs_task = False

    def __init__(self, inner: Generator) -> None:
        self.inner, self.fingerprint = inner, inner.fingerprint
        self.capabilities = inner.capabilities
        self._asked: SimpleQueue[tuple[GenRequest, Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._drive, daemon=True).start()

    def cache_key(self, request: GenRequest, /) -> bytes | None:
        return self.inner.cache_key(request)

    def run(self, batch: Sequence[GenRequest], /) -> list[Completion | Failure]:
        answers: list[Future[Any]] = [Future() for _ in batch]
        for asked in zip(batch, answers, strict=True):
            self._asked.put(asked)
        return [answer.result() for answer in answers]

    def score(self, batch: Sequence[tuple[Ids, Ids]], /) -> Sequence[Floats | Failure]:
        return self.inner.score(batch)

    def _drive(self) -> None:
        torch.set_num_threads(1)
        while True:
            asked = [self._asked.get()]
            while not self._asked.empty():
                asked.append(self._asked.get())
            try:
                texts = run_batch(self.inner, [request for request, _ in asked])
            except Exception as error:
                for _, answer in asked:
                    answer.set_exception(error)
                continue
            for (_, answer), text in zip(asked, texts, strict=True):
                answer.set_result(text)
