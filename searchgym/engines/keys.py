"""Cache keys that engines and page sources share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ..types import Query


def text_and_k(query: Query) -> bytes:
    """The key of an engine that is pure in the query's text and k."""
    return f"{query.k}\0{query.text}".encode("utf-8", "surrogatepass")


def joint_key(keys: Iterable[bytes | None]) -> bytes | None:
    """One key of several, in order; ``None`` as soon as one of them shares no answers."""
    h = hashlib.blake2b(digest_size=32)
    for key in keys:
        if key is None:
            return None
        h.update(len(key).to_bytes(8, "big") + key)
    return h.digest()
