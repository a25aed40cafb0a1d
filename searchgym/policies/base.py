"""Protocol of a trainable policy: an agent that also reports the tokens it drew, their
log-probabilities and the version of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..llms.base import Completion, Sampling
from ..types import TurnRequest


@runtime_checkable
class Policy(Protocol):
    """An :class:`searchgym.types.Agent` with token ids and log-probabilities."""

    @property
    def version(self) -> int:
        """Version of the weights; grows with each update."""
        ...

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]: ...

    def sample(
        self, requests: Sequence[TurnRequest], sampling: Sampling | None = None
    ) -> list[Completion]:
        """One completion per request, in order, each with ``ids``, ``logp`` and ``ends``."""
        ...
