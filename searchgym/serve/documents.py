"""Writing rankings down fast: each passage is encoded once per shape and kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any

from ..errors import EngineError
from ..types import Passage, Ranking
from .dialects import Shape

_KEPT_BYTES = 256 << 20
"""Encoded passages kept in memory; when full, they are dropped and gathered anew."""


def encode_json(value: Any) -> bytes:
    """Compact UTF-8 JSON; text that UTF-8 cannot hold (lone surrogates) is escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class ResponseWriter:
    """Rankings → response bytes, in JSON or msgpack."""

    def __init__(self, method: str, kept_bytes: int = _KEPT_BYTES) -> None:
        self.method = method
        self._most, self._size = kept_bytes, 0
        self._kept: dict[Any, dict[Passage, bytes]] = {}

    def write(
        self, shape: Shape, packed: bool, queries: Sequence[str], rankings: Sequence[Ranking]
    ) -> bytes:
        """The response body."""
        if packed:
            import msgpack

            made: bytes = msgpack.packb(self._plain(shape, queries, rankings))
            return made
        lists = [self._list(shape, ranking) for ranking in rankings]
        if shape.envelope == "nested":
            return b'{"result":[' + b",".join(lists) + b"]}"
        only = lists[0] if lists else b"[]"
        if shape.envelope == "single":
            return b'{"result":' + only + b"}"
        if shape.envelope == "list":
            return only
        head = {"query": queries[0], "method": self.method, "num_results": len(rankings[0])}
        return encode_json(head)[:-1] + b',"results":' + only + b"}"

    def _list(self, shape: Shape, ranking: Ranking) -> bytes:
        kept = self._kept.get(shape)
        if kept is None:
            kept = self._kept[shape] = {}
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
        return b"[" + b",".join(parts) + b"]"

    def _encode(self, shape: Shape, kept: dict[Passage, bytes], passage: Passage) -> bytes:
        item = encode_json(shape.item(passage))
        if shape.scored:
            item = item[:-1] + b',"score":'
        if self._size > self._most:
            for encoded in self._kept.values():
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
