"""Writing rankings down fast: each passage is encoded once per shape and kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from functools import cache
from math import isfinite
from typing import Any

from ..errors import EngineError
from ..types import Passage, Ranking
from .dialects import Shape
from .limits import answer_too_large

_KEPT_BYTES = 256 << 20
"""Encoded passages kept in memory; when full, they are dropped and gathered anew."""
_PROBE = Passage("", "", "¤" * 8, "")
_ITEM_BYTES = 64
"""Approximate bytes of an item besides its texts: names of fields, quotes, a score."""


def encode_json(value: Any) -> bytes:
    """Compact UTF-8 JSON; text that UTF-8 cannot hold (lone surrogates) is escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class ResponseWriter:
    """Rankings → response bytes, in JSON or msgpack. May be used by several threads.

    Args:
        method: What rLLM's dialect calls the engine.
        most_bytes: Largest answer.
        kept_bytes: How much of what was encoded is kept.
    """

    def __init__(
        self,
        method: str,
        most_bytes: int,
        kept_bytes: int = _KEPT_BYTES,
    ) -> None:
        self.method, self.most_bytes = method, most_bytes
        self._most, self._size = kept_bytes, 0
        self._kept: dict[Any, dict[Passage, bytes]] = {}
        self._changing = threading.Lock()

    def estimate(self, shape: Shape, rankings: Sequence[Ranking]) -> int:
        """Estimate an answer's bytes without encoding it; ``HttpError`` 413 if that is
        more than allowed."""
        copies = _copies(shape)
        total = 0
        for ranking in rankings:
            for passage, _ in ranking:
                text = passage.text
                total += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
            total += len(ranking) * _ITEM_BYTES
        total *= copies
        if total > self.most_bytes:
            raise answer_too_large(self.most_bytes)
        return total

    def write(
        self, shape: Shape, packed: bool, queries: Sequence[str], rankings: Sequence[Ranking]
    ) -> bytes:
        """The response body; ``HttpError`` 413 as soon as it is larger than allowed."""
        if packed:
            import msgpack

            made: bytes = msgpack.packb(self._plain(shape, queries, rankings))
            if len(made) > self.most_bytes:
                raise answer_too_large(self.most_bytes)
            return made
        before, after = self._envelope(shape, queries, rankings)
        only_one = shape.envelope != "nested"
        parts, size = [before], 0
        for i, ranking in enumerate(rankings[:1] if only_one else rankings):
            items = self._items(shape, ranking)
            size += sum(map(len, items)) + len(items)
            if size > self.most_bytes:
                raise answer_too_large(self.most_bytes)
            parts += (b",[" if i else b"[", b",".join(items), b"]")
        if only_one and not rankings:
            parts.append(b"[]")
        return b"".join([*parts, after])

    def _envelope(
        self, shape: Shape, queries: Sequence[str], rankings: Sequence[Ranking]
    ) -> tuple[bytes, bytes]:
        """Texts before the lists, and after them."""
        if shape.envelope == "nested":
            return b'{"result":[', b"]}"
        if shape.envelope == "single":
            return b'{"result":', b"}"
        if shape.envelope == "list":
            return b"", b""
        head = {"query": queries[0], "method": self.method, "num_results": len(rankings[0])}
        return encode_json(head)[:-1] + b',"results":', b"}"

    def _items(self, shape: Shape, ranking: Ranking) -> list[bytes]:
        kept = self._kept.get(shape)
        if kept is None:
            kept = self._kept.setdefault(shape, {})
        parts = []
        for passage, score in ranking:
            item = kept.get(passage)
            if item is None:
                item = self._encode(shape, kept, passage)
            if shape.scored:
                if not isfinite(score):
                    raise EngineError(f"passage {passage.id!r} has the score {score}")
                item = b"%b%b}" % (item, repr(float(score)).encode())
            parts.append(item)
        return parts

    def _encode(self, shape: Shape, kept: dict[Passage, bytes], passage: Passage) -> bytes:
        item = encode_json(shape.item(passage))
        if shape.scored:
            item = item[:-1] + b',"score":'
        with self._changing:
            if self._size > self._most:
                for encoded in [*self._kept.values()]:
                    encoded.clear()
                self._size = 0
            kept[passage] = item
            self._size += len(item)
        return item

    def _plain(self, shape: Shape, queries: Sequence[str], rankings: Sequence[Ranking]) -> Any:
        lists: list[Any] = []
        for ranking in rankings:
            items = []
            for passage, score in ranking:
                item = shape.item(passage)
                if shape.scored:
                    item["score"] = float(score)
                items.append(item)
            lists.append(items)
        if shape.envelope == "nested" or len(lists) != 1:
            return {"result": lists}
        if shape.envelope == "single":
            return {"result": lists[0]}
        if shape.envelope == "list":
            return lists[0]
        return {
            "query": queries[0],
            "method": self.method,
            "num_results": len(lists[0]),
            "results": lists[0],
        }


def texts_bytes(texts: Iterable[str], most: int) -> int:
    """Bytes of texts in UTF-8; ``HttpError`` 413 if they are more than allowed."""
    size = sum(len(t) if t.isascii() else len(t.encode("utf-8", "replace")) for t in texts)
    if size > most:
        raise answer_too_large(most)
    return size


@cache
def _copies(shape: Shape) -> int:
    """Count how often a shape writes each text."""
    return encode_json(shape.item(_PROBE)).count(_PROBE.text.encode())
