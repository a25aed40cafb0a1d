"""What every text generator takes and gives. NumPy only; each implementation is a module beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError
from ..types import Failure

Ids = tuple[int, ...]
Floats = NDArray[np.float32]
Capability = Literal["ids", "logp", "score", "entropy", "seed", "chat"]
"""``ids``: takes and gives token ids; ``logp``: log-probabilities of sampled tokens; ``score``: of
given tokens; ``entropy``: of the distribution each token was drawn from; ``seed``: equal keys give
equal text; ``chat``: takes messages."""
CAPABILITIES: frozenset[str] = frozenset({"ids", "logp", "score", "entropy", "seed", "chat"})


class Message(NamedTuple):
    """One turn of a chat."""

    role: str
    content: str


class Sampling(NamedTuple):
    """How text is drawn. ``temperature`` 0 is greedy."""

    max_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0: no limit."""
    stop: tuple[str, ...] = ()
    """Generation ends with the first of these; it is kept in the text."""


class GenRequest(NamedTuple):
    """One text to continue: a string, token ids, or a chat (exactly one form)."""

    prompt: str | Ids | tuple[Message, ...]
    sampling: Sampling = Sampling()
    key: int = 0
    """Random key: with the capability ``seed``, equal requests give equal text in any batch."""
    needs: frozenset[str] = frozenset()
    """Capabilities whose results the caller will use; a missing one is an ``EngineError``."""


class Completion(NamedTuple):
    """A continuation of N tokens."""

    text: str
    ids: Ids | None = None
    logp: Floats | None = None
    """(N,) natural logarithms, of the untempered distribution."""
    ends: tuple[int, ...] | None = None
    """Character end of each token in ``text``."""
    version: int = 0
    """Of the weights that wrote it; grows with each update."""
    entropy: Floats | None = None
    """(N,) in nats."""
    finish: Literal["stop", "length", "eos"] = "eos"


@runtime_checkable
class Generator(Protocol):
    """A service (``searchgym.types.Service``) from ``GenRequest`` to ``Completion``."""

    needs_task: bool
    fingerprint: str
    """Model and everything else that changes its text; part of cache keys."""
    capabilities: frozenset[str]

    def cache_key(self, request: GenRequest, /) -> bytes | None:
        """``None`` unless the same request surely gives the same text."""
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
