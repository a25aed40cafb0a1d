"""Settings of a server: one record, passed as JSON to its worker processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ..errors import SearchGymError
from .dialects import dialect
from .limits import Limits

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Settings:
    """Settings of a server, apart from what it serves. ``SearchGymError`` for impossible values."""

    host: str = "127.0.0.1"
    port: int = 8000
    """Port to listen on; 0: any free port, which the server names."""
    workers: int = 1
    dialect: str = "auto"
    default_k: int = 3
    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    max_batch: int = 64
    max_wait_s: float = 0.003
    max_queue: int = 4096
    max_in_flight: int = 2
    deadline_s: float = 60.0
    grace_s: float = 30.0
    """Seconds that a shutdown waits for requests that were accepted."""

    def __post_init__(self) -> None:
        dialect(self.dialect)
        for name, least in (
            ("workers", 1), ("default_k", 1), ("max_batch", 1), ("max_queue", 1),
            ("max_in_flight", 1), ("port", 0), ("max_wait_s", 0), ("deadline_s", 0),
            ("grace_s", 0),
        ):  # fmt: skip
            if getattr(self, name) < least:
                raise SearchGymError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.default_k > self.limits.k:
            raise SearchGymError(f"k {self.default_k} is above the limit max_k {self.limits.k}")
        if self.token is not None and not (self.token.isascii() and self.token.strip()):
            raise SearchGymError("the token must be some ASCII characters, not blank")

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"limits": self.limits._asdict()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        values: Mapping[str, Any] = json.loads(text)
        return cls(**{**values, "limits": Limits(**values["limits"])})
