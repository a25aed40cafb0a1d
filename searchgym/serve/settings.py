"""Settings of a server: one record, passed as JSON to its worker processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ..errors import SearchGymError
from ..web.server import LOOPBACK, Address, is_loopback
from .dialects import Limits, dialect


@dataclass(frozen=True, kw_only=True)
class Settings(Address):
    """Settings of a server, apart from what it serves. ``SearchGymError`` for impossible values."""

    workers: int = 1
    """Processes that share the port."""
    dialect: str = "auto"
    """Dialect of /retrieve; 'auto' looks at each request."""
    default_k: int = 3
    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    max_batch: int = 64
    """Most queries per engine call."""
    max_wait_s: float = 0.003
    """Longest wait for more queries, in seconds."""
    max_queue: int = 4096
    max_in_flight: int = 2
    """Engine calls at the same time, for engines that batch."""
    deadline_s: float = 60.0
    """Seconds a request may take."""
    allowed_hosts: tuple[str, ...] = ()
    """Further names by which clients may call the server: those of a proxy in front of it."""

    def __post_init__(self) -> None:
        dialect(self.dialect)
        for name, least in (
            ("workers", 1), ("default_k", 1), ("max_batch", 1), ("max_queue", 1),
            ("max_in_flight", 1), ("port", 0), ("max_wait_s", 0), ("deadline_s", 0),
            ("grace_s", 0), ("read_s", 0.1), ("max_connections", 1),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise SearchGymError(f"{name} must be at least {least}, got {value}")
        if self.port > 65535:
            raise SearchGymError(f"port must be at most 65535, got {self.port}")
        for name, value in self.limits._asdict().items():
            if value < 1:
                raise SearchGymError(f"limit {name} must be at least 1, got {value}")
        if self.default_k > self.limits.k:
            raise SearchGymError(f"k {self.default_k} is above the limit max_k {self.limits.k}")
        if self.token is not None and not (self.token.isascii() and self.token.strip()):
            raise SearchGymError("the token must be some ASCII characters, not blank")

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """Names that requests may call the server by; None if any.

        On this machine and without a token, a page of the web could reach the server by a name of
        its own (DNS rebinding); elsewhere the token is what protects.
        """
        if self.allowed_hosts or (is_loopback(self.host) and not self.token):
            return (*self.allowed_hosts, *sorted(LOOPBACK), self.host)
        return None

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"limits": self.limits._asdict()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        values: Mapping[str, Any] = json.loads(text)
        names = tuple(values["allowed_hosts"])
        return cls(**{**values, "limits": Limits(**values["limits"]), "allowed_hosts": names})
