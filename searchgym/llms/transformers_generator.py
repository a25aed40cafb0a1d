"""Text from any transformers causal LM in batches, with exact ids and log-probabilities."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import EngineError
from ..seeding import stream
from ..types import Failure
from .base import (
    Completion,
    Floats,
    GenRequest,
    Ids,
    Sampling,
    check,
    request_key,
)
from .caches import LEAST, Past, Prefixes, tokens_that_fit
from .causal import Running, draw, evaluating, follows_the_longest, loaded, score_rows
from .prompts import Codec, refusal, text_ends, weights_digest
from .tokens import Reader, cut, stop_end


class Writing:
    """One prompt and what has been written after it."""

    def __init__(
        self, prompt: Ids, request: GenRequest, decode: Callable[[list[int]], str]
    ) -> None:
        self.prompt = prompt
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


READ = 0.2
"""Share of a GPU's memory for the keys and values of one forward pass."""


class TransformersGenerator:
    """A causal LM from a folder or hub name, or a ready model with its tokenizer.

    ``device``: "auto" takes a GPU if there is one. ``dtype``: "auto" is the checkpoint's, but
    float32 for a folder's model of at most two billion parameters on a CPU that only emulates half
    precision; else e.g. "float32". ``batch_tokens`` bounds rows × (longest prompt + longest
    ``max_tokens``) of one forward pass, that is, memory (default: 65,536, or as many as fill a
    fifth of the GPU's); ``batch_size`` bounds rows (default: 256, on a GPU 1,024; 1 makes every
    text bitwise independent of its batch). ``reuse_tokens``: keys and values of so many tokens are
    kept between calls, so that a prompt which begins with an earlier prompt and its text reads only
    what is new (``searchgym.llms.caches``: exact, and only where that is possible). ``timeout_s``
    bounds one call of ``run``: what is unfinished then is a ``Failure("timeout")``. A prompt that
    leaves no room for ``max_tokens`` within the model's context is a ``Failure("rejected")``:
    nothing is cut silently. Calls from several threads take turns. ``EngineError`` if nothing can
    be loaded.
    """

    needs_task = False

    def __init__(
        self,
        model: str | os.PathLike[str] | Any,
        tokenizer: Any = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        reuse_tokens: int = 0,
        timeout_s: float | None = None,
        **options: Any,
    ) -> None:
        if reuse_tokens < 0:
            raise EngineError(f"reuse_tokens must not be negative, got {reuse_tokens}")
        bounds = [n for n in (batch_tokens, batch_size) if n is not None]
        if min(bounds, default=1) < 1 or (timeout_s is not None and timeout_s <= 0):
            raise EngineError(
                f"batch_tokens and batch_size must be ≥ 1 and timeout_s > 0, got {batch_tokens}, "
                f"{batch_size}, {timeout_s}"
            )
        self.model, tokenizer = loaded(model, tokenizer, device, dtype, options)
        if self.model is not model and dtype == "auto":
            from .acceleration import widened

            self.model = widened(self.model)
        self.tokenizer = tokenizer
        self.codec = Codec(tokenizer)
        if batch_tokens is None:
            batch_tokens = tokens_that_fit(self.model, READ)
        self.batch_tokens = batch_tokens
        self.batch_size = batch_size or (256 if self.model.device.type == "cpu" else 1024)
        self.timeout_s = timeout_s
        self.version = 0
        """Version of the weights, raised by ``update_weights`` and by a trainer of the model."""
        settings = getattr(self.model, "generation_config", None)
        self.eos = text_ends(tokenizer, settings, self.model.config)
        self.context = _context(self.model)
        """Tokens the model can hold; ``None``: unlimited."""
        pad = tokenizer.pad_token_id
        self.pad: int = pad if pad is not None else min(self.eos, default=0)
        self.prefixes = Prefixes(reuse_tokens) if reuse_tokens else None
        self.lock = threading.RLock()
        self._digest: tuple[Any, str] = (None, "")
        chat = {"chat"} if self.codec.has_chat else set()
        self.capabilities = frozenset({"ids", "logp", "score", "entropy", "seed"} | chat)

    @property
    def fingerprint(self) -> str:
        """Digest of configuration, tokenizer, weights and what divides their logits
        (``TrainableLM``'s temperature); new after every change of the weights."""
        state = weights_state(self.model)
        if self._digest[0] != state:
            config = {k: v for k, v in self.model.config.to_dict().items() if k[0] != "_"}
            settled = json.dumps(config, sort_keys=True, default=str)
            weights = self.model.state_dict().items()
            self._digest = (state, weights_digest(weights, settled, self.codec.describe()))
        heat = getattr(self.model, "heat", 1.0)
        return f"transformers:{self._digest[1]}" + ("" if heat == 1.0 else f" heat {heat:g}")

    def cache_key(self, request: GenRequest) -> bytes:
        return request_key(request)

    def encode(self, request: GenRequest) -> Ids:
        """The ids of a prompt; see ``Codec.encode``."""
        return self.codec.encode(request)

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        check(self, batch)
        begun = [self._begun(request) for request in batch]
        rows = [row for row in begun if isinstance(row, Writing)]
        end = None if self.timeout_s is None else time.monotonic() + self.timeout_s
        with self.lock, evaluating(self.model):
            if self.prefixes is not None:
                self.prefixes.belong_to((self.version, *weights_state(self.model)))
                for row in rows:
                    row.past = self.prefixes.find(row.prompt)
            for chunk in self._chunks(rows):
                self._continue(chunk, end)
            return [
                row.result(self.version, self.timeout_s) if isinstance(row, Writing) else row
                for row in begun
            ]

    def _begun(self, request: GenRequest) -> Writing | Failure:
        """The text of a request before its first token, or why it cannot be written."""
        ids = self.encode(request)
        problem = refusal(ids, request.sampling.max_tokens, self.context)
        return problem or Writing(ids, request, self.codec.decode)

    def score(self, batch: Sequence[tuple[Ids, Ids]]) -> list[Floats | Failure]:
        answers: list[Floats | Failure] = [np.zeros(0, np.float32) for _ in batch]
        rows: list[tuple[int, tuple[Ids, Ids]]] = []
        for i, (context, continuation) in enumerate(batch):
            if not len(continuation):
                continue
            if problem := refusal(context, len(continuation), self.context):
                answers[i] = problem
            else:
                rows.append((i, (tuple(context), tuple(continuation))))
        rows.sort(key=lambda row: len(row[1][0]) + len(row[1][1]))
        tokens = min(self.batch_tokens, LEAST)  # of each there may be a vocabulary of logits
        with self.lock, evaluating(self.model):
            for part in _pack(rows, lambda r: len(r[1][0]) + len(r[1][1]), tokens, self.batch_size):
                scores = score_rows(self.model, [pair for _, pair in part], self.pad)
                for (i, _), row_scores in zip(part, scores, strict=True):
                    answers[i] = row_scores
        return answers

    def update_weights(self, weights: Mapping[str, Any]) -> int:
        """Take over a state dict of the same architecture; the new version."""
        with self.lock:
            try:
                self.model.load_state_dict(dict(weights))
            except RuntimeError as error:
                raise EngineError(f"these weights do not fit the model: {error}") from error
            self.version += 1
            return self.version

    def forget(self) -> None:
        """Free the keys and values that are kept between calls; the next prompts are read anew."""
        with self.lock:
            if self.prefixes is not None:
                self.prefixes.clear()

    def _chunks(self, rows: list[Writing]) -> Iterator[list[Writing]]:
        rows = sorted(rows, key=lambda r: (r.unread, len(r.prompt), r.sampling.max_tokens))
        return _pack(rows, lambda row: row.room, self.batch_tokens, self.batch_size)

    def _continue(self, rows: list[Writing], end: float | None) -> None:
        """Write all rows to their ends, dropping finished ones from the batch as they go."""
        import torch

        if end is not None and time.monotonic() > end:
            return
        pasts = {row.prompt: row.past for row in rows if row.past is not None}
        room = max(r.sampling.max_tokens for r in rows)
        running = Running(self.model, [row.prompt for row in rows], self.pad, pasts, room)
        while end is None or time.monotonic() <= end:
            drawn = draw(running.logits, [r.sampling for r in rows], [r.uniform() for r in rows])
            # one transfer from the device per array, not per row
            for row, *token in zip(rows, *(x.tolist() for x in drawn), strict=True):
                row.add(*token, self.eos)
            if self.prefixes is not None:
                for i, row in enumerate(rows):
                    if row.finish and (past := running.past(i)) is not None:
                        self.prefixes.put((*row.prompt, *row.written), past)
            left, ids = [i for i, row in enumerate(rows) if not row.finish], drawn.ids
            if not left:
                return
            if len(left) < len(rows):
                rows, kept = [rows[i] for i in left], torch.tensor(left, device=ids.device)
                running.keep(kept)
                ids = ids[kept]
            running.step(ids)


def _pack(rows: Any, need: Callable[[Any], int], tokens: int, size: int) -> Iterator[Any]:
    """Runs of rows whose count × greatest need stays within ``tokens`` (at least one row)."""
    part: list[Any] = []
    widest = 0
    for row in rows:
        wider = max(widest, need(row))
        if part and (wider * (len(part) + 1) > tokens or len(part) >= size):
            yield part
            part, wider = [], need(row)
        part.append(row)
        widest = wider
    if part:
        yield part


def _context(model: Any) -> int | None:
    """Number of positions; less where longer rows would change those beside them, which
    forward passes refuse (:mod:`.causal`)."""
    limits = (getattr(model.config, "max_position_embeddings", None),
              follows_the_longest(model.config))  # fmt: skip
    return min((int(limit) for limit in limits if limit), default=None)


def weights_state(model: Any) -> tuple[Any, ...]:
    """Changes with every in-place change of a parameter (PyTorch counts them) or new storage."""
    return tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in model.parameters())
