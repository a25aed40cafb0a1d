"""Converts results of calls to plain JSON values and back, exactly; for snapshots and
trajectories."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..types import (
    Failure,
    Hit,
    ImageRef,
    Page,
    Passage,
    ToolResult,
)

_LONE = re.compile("[\ud800-\udfff]")


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON in readable characters, unless one is half of a surrogate pair, as models write them
    and UTF-8 cannot: then all but ASCII is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return json.dumps(value, indent=indent) if _LONE.search(text) else text


def no_nan(value: Any) -> Any:
    """A JSON value in which numbers that are not finite are null."""
    if isinstance(value, Mapping):
        return {key: no_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [no_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def hits_to_json(hits: tuple[Hit, ...]) -> list[list[Any]]:
    """``[id, title, text, url, score]`` per hit."""
    return [[*hit.passage, hit.score] for hit in hits]


def hits_from_json(rows: list[list[Any]]) -> tuple[Hit, ...]:
    """The inverse of :func:`hits_to_json`."""
    return tuple(Hit(Passage(*row[:4]), float(row[4])) for row in rows)


def content_to_json(parts: tuple[str | ImageRef, ...]) -> list[Any]:
    """Text stays text, a picture becomes ``{"uri", "alt"}``."""
    return [p if isinstance(p, str) else {"uri": p.uri, "alt": p.alt} for p in parts]


def content_from_json(parts: list[Any]) -> tuple[str | ImageRef, ...]:
    """The inverse of :func:`content_to_json`."""
    return tuple(p if isinstance(p, str) else ImageRef(**p) for p in parts)


def result_to_json(result: ToolResult | Failure) -> dict[str, Any]:
    """One tool result or failure. ``meta`` and ``state`` must hold JSON values, pages apart."""
    if isinstance(result, Failure):
        return {"failure": list(result)}
    meta = dict(result.meta)
    if isinstance(page := meta.get("page"), Page):
        meta["page"] = [page.url, page.title, page.text, list(page.passage_ids)]
    return {
        "parts": content_to_json(result.parts),
        "hits": hits_to_json(result.hits),
        "cost": result.cost,
        "meta": meta,
        "state": result.state,
    }


def result_from_json(data: Mapping[str, Any]) -> ToolResult | Failure:
    """The inverse of :func:`result_to_json`."""
    if "failure" in data:
        return Failure(*data["failure"])
    meta = dict(data["meta"])
    if (page := meta.get("page")) is not None:
        meta["page"] = Page(page[0], page[1], page[2], tuple(page[3]))
    return ToolResult(
        content_from_json(data["parts"]), hits_from_json(data["hits"]), data["cost"], meta,
        data["state"],
    )  # fmt: skip


_PLAIN = ("act", "amend")
"""Kinds of events that are JSON values as they are."""


def events_to_json(events: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """An episode's log: ``["act", context, text]``, ``["receive", results]``, ``["fail", [it]]``,
    ``["amend", turns, text, reward, end]`` in the order they happened."""
    return [
        list(e) if e[0] in _PLAIN else [e[0], [result_to_json(result) for result in e[1]]]
        for e in events
    ]


def events_from_json(rows: Iterable[list[Any]]) -> list[tuple[Any, ...]]:
    """The inverse of :func:`events_to_json`."""
    return [
        tuple(row) if row[0] in _PLAIN else (row[0], tuple(map(result_from_json, row[1])))
        for row in rows
    ]
