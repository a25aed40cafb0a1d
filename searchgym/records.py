"""Shared records to plain JSON values and back, exactly.

Used by snapshots, trajectories and task files. Unknown keys are refused by the record's
constructor, so a file written by another version fails by name instead of being half read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .types import (
    Difficulty,
    Failure,
    GraphEdge,
    GraphNode,
    Hit,
    ImageRef,
    Page,
    Passage,
    ReasoningGraph,
    Task,
    ToolResult,
)


def task_to_json(task: Task) -> dict[str, Any]:
    """A task as JSON values; tuples become lists."""
    out = {f.name: getattr(task, f.name) for f in dataclasses.fields(task)}
    for key in ("answers", "evidence", "queries"):
        out[key] = list(out[key])
    out["graph"] = dataclasses.asdict(task.graph) if task.graph else None
    out["difficulty"] = dataclasses.asdict(task.difficulty) if task.difficulty else None
    out["meta"] = dict(task.meta)
    return out


def task_from_json(data: Mapping[str, Any]) -> Task:
    """The inverse of :func:`task_to_json`; ``TypeError`` names an unknown key."""
    fields = dict(data)
    for key in ("answers", "evidence", "queries"):
        fields[key] = tuple(fields.get(key, ()))
    if graph := fields.get("graph"):
        fields["graph"] = ReasoningGraph(
            nodes=tuple(GraphNode(**n) for n in graph["nodes"]),
            edges=tuple(GraphEdge(**e) for e in graph["edges"]),
            answer=graph["answer"],
            operation=graph["operation"],
        )
    if difficulty := fields.get("difficulty"):
        fields["difficulty"] = Difficulty(**difficulty)
    return Task(**fields)


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
