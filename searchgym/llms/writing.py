"""One text while it is being written, token by token."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..seeding import stream
from ..types import Failure
from .base import Completion, GenRequest, Ids, Sampling
from .prefixes import Past
from .tokens import Reader, cut, stop_end


class Writing:
    """One prompt and what has been written after it."""

    def __init__(
        self, index: int, prompt: Ids, request: GenRequest, decode: Callable[[list[int]], str]
    ) -> None:
        self.index, self.prompt = index, prompt
        self.sampling: Sampling = request.sampling
        self.past: Past | None = None
        self.finish: str = ""
        self._draws = stream(request.key, "tokens") if self.sampling.temperature > 0 else None
        self._reader = Reader(decode, prompt)
        self._ids: list[int] = []
        self._logp: list[float] = []
        self._entropy: list[float] = []
        self._stop_end: int | None = None

    @property
    def unread(self) -> int:
        """Tokens of the prompt that the model must still read."""
        return len(self.prompt) - (self.past.length if self.past else 0)

    @property
    def room(self) -> int:
        """Tokens it may come to hold."""
        return len(self.prompt) + self.sampling.max_tokens

    @property
    def written(self) -> Ids:
        return tuple(self._ids)

    def uniform(self) -> float:
        return self._draws.random() if self._draws is not None else 0.0

    def add(self, token: int, logp: float, entropy: float, eos: frozenset[int]) -> None:
        self._ids.append(token)
        self._logp.append(logp)
        self._entropy.append(entropy)
        seen = len(self._reader.text)
        if token in eos:
            self._reader.silent()
            self.finish = "eos"
        else:
            self._reader.add(token)
            if len(self._ids) >= self.sampling.max_tokens:
                self._reader.finish()
                self.finish = "length"
        if self.sampling.stop and len(self._reader.text) > seen:
            longest = max(map(len, self.sampling.stop))
            at = stop_end(self._reader.text, self.sampling.stop, max(0, seen - longest + 1))
            if at is not None:
                self._stop_end, self.finish = at, "stop"

    def result(self, version: int, timeout_s: float | None) -> Completion | Failure:
        if not self.finish:
            return Failure(
                "timeout", f"{len(self._ids)} tokens were written in {timeout_s:g} s, not all"
            )
        text, ends = self._reader.text, self._reader.ends
        end = len(text) if self._stop_end is None else self._stop_end
        n, clipped = len(ends), tuple(ends)
        if self._stop_end is not None:
            n, clipped = cut(ends, end)
        return Completion(
            text[:end],
            tuple(self._ids[:n]),
            np.array(self._logp[:n], np.float32),
            clipped,
            version,
            np.array(self._entropy[:n], np.float32),
            self.finish,  # type: ignore[arg-type]
        )
