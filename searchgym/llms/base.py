"""Interface of text generators. NumPy only; each implementation is a module beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import CardError, EngineError
from ..types import Failure

Ids = tuple[int, ...]
Floats = NDArray[np.float32]
CAPABILITIES: frozenset[str] = frozenset({"ids", "logp", "score", "entropy", "seed", "chat"})
"""``ids``: takes and gives token ids; ``logp``: log-probabilities of sampled tokens; ``score``: of
given tokens; ``entropy``: of the distribution at each token; ``seed``: equal keys give equal text;
``chat``: takes messages. Log-probabilities and entropies are those of the *untempered* distribution
over the whole vocabulary: what a training step computes from the same tokens."""


class Message(NamedTuple):
    """One turn of a chat."""

    role: str
    content: str


class Sampling(NamedTuple):
    """Sampling parameters. ``temperature`` 0 is greedy."""

    max_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """Number of most likely tokens to sample from; 0: no limit."""
    stop: tuple[str, ...] = ()
    """Generation ends with the first of these; it is kept in the text."""


def require_own_distribution(sampling: Sampling, where: str) -> None:
    """``CardError`` for a sampling under which what is drawn does not come from the distribution
    that is trained: log-probabilities and ratios would be of another policy."""
    changed = {
        name: value
        for name, value, plain in (
            ("temperature", sampling.temperature, 1.0),
            ("top_p", sampling.top_p, 1.0),
            ("top_k", max(sampling.top_k, 0), 0),
        )
        if value != plain
    }
    if changed:
        told = ", ".join(f"{name} {value:g}" for name, value in changed.items())
        raise CardError(
            f"{where} draws with {told}, and training takes what was drawn as the policy's own, at "
            "temperature 1, top_p 1 and top_k 0: set these. A sharper policy that is sampled and "
            "trained alike is TrainableLM(…, temperature=…), load.temperature on the command line"
        )


class GenRequest(NamedTuple):
    """One text to continue: a string, token ids, or a chat (exactly one form)."""

    prompt: str | Ids | tuple[Message, ...]
    sampling: Sampling = Sampling()
    key: int = 0
    """Random key: with the capability ``seed``, equal requests give equal text in any batch (up to
    rounding: sums in kernels depend on the batch's shape, which changes about one draw in 10^5)."""
    needs: frozenset[str] = frozenset()
    """Capabilities whose results the caller will use; a missing one is an ``EngineError``."""


class Completion(NamedTuple):
    """A continuation of N tokens. What a generator cannot give is ``None``, never a guess."""

    text: str
    """Text without that of the end-of-sequence token."""
    ids: Ids | None = None
    """Token ids as sampled, with the end-of-sequence token and the token a stop string ends in."""
    logp: Floats | None = None
    """(N,) natural logarithms, of the untempered distribution."""
    ends: tuple[int, ...] | None = None
    """Character end of each token in ``text``; a token that completes no character repeats the
    last end. The final one is ``len(text)``."""
    version: int = 0
    """Version of the weights that wrote it; grows with each update."""
    entropy: Floats | None = None
    """(N,) log-probabilities in nats, of the untempered distribution."""
    finish: Literal["stop", "length", "eos"] = "eos"
    """``stop``: a stop string; ``length``: ``max_tokens`` (nothing else cuts a text short)."""


@runtime_checkable
class Generator(Protocol):
    """A service (``searchgym.types.Service``) from ``GenRequest`` to ``Completion``."""

    needs_task: bool

    @property
    def fingerprint(self) -> str:
        """Model and everything else that changes its text; part of cache keys."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """Subset of ``CAPABILITIES``; a remote generator finds out by asking."""
        ...

    def cache_key(self, request: GenRequest, /) -> bytes | None:
        """Return a key if the same request surely gives the same text, else ``None``."""
        ...

    def run(self, batch: Sequence[GenRequest], /) -> Sequence[Completion | Failure]:
        """Continue every prompt, in order; a failed item is a ``Failure`` in its place."""
        ...

    def score(self, batch: Sequence[tuple[Ids, Ids]], /) -> Sequence[Floats | Failure]:
        """Log-probabilities (N,) of each (context, continuation) pair's N continuation tokens."""
        ...


def require(generator: Any, *needed: str) -> None:
    """``EngineError`` naming the capabilities a generator lacks."""
    missing = sorted(set(needed) - generator.capabilities)
    if missing:
        raise EngineError(
            f"{type(generator).__name__} lacks {', '.join(missing)}; it has "
            f"{', '.join(sorted(generator.capabilities)) or 'nothing'}. Use another generator"
        )


def form(prompt: str | Ids | tuple[Message, ...]) -> Literal["text", "ids", "chat"]:
    """Tell which of the three forms a prompt has. ``EngineError`` for none of them."""
    if isinstance(prompt, str):
        return "text"
    if isinstance(prompt, tuple) and prompt:
        kinds = set(map(type, prompt))  # a prompt's ids are never walked in Python
        if all(issubclass(kind, int | np.integer) for kind in kinds):
            return "ids"
        if all(issubclass(kind, Message) for kind in kinds):
            return "chat"
    raise EngineError(
        f"a prompt is a string, token ids or Messages (a non-empty tuple), got {prompt!r:.80}"
    )


def check(generator: Any, batch: Sequence[GenRequest]) -> None:
    """``EngineError`` for what no retry mends: lacking capabilities and impossible sampling."""
    for request in batch:
        needs = set(request.needs)
        if unknown_needs := needs - CAPABILITIES:
            raise EngineError(
                f"needs names {', '.join(sorted(unknown_needs))}; capabilities are "
                f"{', '.join(sorted(CAPABILITIES))}"
            )
        kind = form(request.prompt)
        require(generator, *needs, *(() if kind == "text" else (kind,)))
        check_sampling(request.sampling)


def check_sampling(s: Sampling) -> None:
    """``EngineError`` for impossible settings."""
    if s.max_tokens < 1 or s.temperature < 0 or not 0 < s.top_p <= 1 or s.top_k < 0:
        raise EngineError(
            f"sampling needs max_tokens ≥ 1, temperature ≥ 0, 0 < top_p ≤ 1, top_k ≥ 0, got {s}"
        )
    if "" in s.stop or isinstance(s.stop, str):
        raise EngineError(f"stop is a tuple of non-empty strings, got {s.stop!r}")


def request_key(request: GenRequest) -> bytes:
    """32 bytes that name a request: prompt, sampling, key and needs (a key beside temperature 0
    changes nothing and does not count)."""
    kind = form(request.prompt)
    parts: Any = request.prompt
    sampling = request.sampling
    fields = [
        kind,
        parts if kind == "text" else list(map(list if kind == "chat" else int, parts)),
        [sampling.max_tokens, float(sampling.temperature), float(sampling.top_p), sampling.top_k],
        list(sampling.stop),
        int(request.key) if sampling.temperature > 0 else 0,
        sorted(request.needs),
    ]
    return hashlib.blake2b(json.dumps(fields).encode(), digest_size=32).digest()
