"""A generator of random letters: the smallest thing that keeps the whole protocol. Tests of what
stands around generators (caches, registries) use it; no test of a generator does."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Sequence

import numpy as np

from searchgym.llms.base import Completion, Floats, GenRequest, Ids, check, request_key
from searchgym.seeding import stream
from searchgym.types import Failure

_ALL = itertools.count()


class Letters:
    """``repeatable`` False: every call draws anew, as servers do. ``fail``: prompts that fail."""

    needs_task = False

    def __init__(self, name: str = "a", repeatable: bool = True, fail: Sequence[str] = ()) -> None:
        self.fingerprint = f"letters:{name}"
        self.repeatable = repeatable
        self.fail = set(fail)
        self.capabilities = frozenset({"ids", "logp", *(["seed"] if repeatable else [])})
        self.asked: list[GenRequest] = []
        self._lock = threading.Lock()

    def cache_key(self, request: GenRequest) -> bytes | None:
        return request_key(request) if self.repeatable else None

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        check(self, batch)
        with self._lock:
            self.asked.extend(batch)
        return [self._one(request) for request in batch]

    def _one(self, request: GenRequest) -> Completion | Failure:
        if request.prompt in self.fail:
            return Failure("unavailable", "as asked")
        salt = hashlib.sha256(repr(request.prompt).encode() + self.fingerprint.encode()).hexdigest()
        anew = "" if self.repeatable else f"{next(_ALL)} {time.time_ns()}"
        draw = stream(request.key, salt, anew)
        n = int(draw.integers(1, request.sampling.max_tokens + 1))
        ids = tuple(int(i) for i in draw.integers(0, 26, n))
        text = "".join(chr(97 + i) for i in ids)
        logp = draw.normal(size=n).astype(np.float32)
        return Completion(text, ids, logp, tuple(range(1, n + 1)), finish="length")

    def score(self, batch: Sequence[tuple[Ids, Ids]]) -> list[Floats | Failure]:
        return [np.full(len(b), -1.0, np.float32) for _, b in batch]
