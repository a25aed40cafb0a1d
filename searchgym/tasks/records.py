"""Tasks as records, one JSON object a line with an exact round trip, and checks of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ..errors import DataError, TaskError, unknown
from ..storage.files import write_whole
from ..types import Difficulty, GraphEdge, GraphNode, ReasoningGraph, Task

_NAMES = tuple(f.name for f in fields(Task))
_TUPLES = ("answers", "evidence", "queries")


def task_to_dict(task: Task) -> dict[str, Any]:
    """JSON-ready dictionary of a task; fields with their default value are left out."""
    made: dict[str, Any] = {}
    default = Task("", "", ())
    for name in _NAMES:
        value = getattr(task, name)
        if name not in ("id", "question", "answers") and value == getattr(default, name):
            continue
        if isinstance(value, ReasoningGraph):
            value = {
                "nodes": [[n.id, n.type, n.value, n.given] for n in value.nodes],
                "edges": [_edge(e) for e in value.edges],
                "answer": value.answer,
                "operation": value.operation,
            }
        elif isinstance(value, Difficulty):
            value = asdict(value)
        elif name in _TUPLES:
            value = list(value)
        elif name == "items":
            value = [list(forms) for forms in value]
        elif name == "meta":
            value = dict(value)
        made[name] = value
    return made


def task_from_dict(record: Mapping[str, Any]) -> Task:
    """The task behind a dictionary. ``DataError`` for missing, unknown or malformed fields."""
    for name in record:
        if name not in _NAMES:
            raise DataError(unknown("task field", name, _NAMES))
    for name in ("id", "question", "answers"):
        if name not in record:
            raise DataError(f"a task needs {name!r}, got only {sorted(record)}")
    values = dict(record)
    for name in _TUPLES:
        values[name] = _texts(name, record.get(name, ()))
    items = record.get("items", ())
    if not isinstance(items, list | tuple):
        raise DataError(f"task field 'items' must be a list of lists of texts, got {items!r}")
    values["items"] = tuple(_texts("items", forms) for forms in items)
    try:
        if record.get("graph") is not None:
            graph = record["graph"]
            values["graph"] = ReasoningGraph(
                tuple(GraphNode(*n) for n in graph["nodes"]),
                tuple(_read_edge(e) for e in graph["edges"]),
                graph["answer"],
                graph["operation"],
            )
        if record.get("difficulty") is not None:
            values["difficulty"] = Difficulty(**record["difficulty"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"task {record['id']!r}: broken graph or difficulty: {error}") from None
    return Task(**values)


def _edge(edge: GraphEdge) -> list[Any]:
    row: list[Any] = [edge.subject, edge.property, edge.object, edge.fact, edge.passage]
    return [*row, [list(part) for part in edge.parts]] if edge.parts else row


def _read_edge(row: list[Any]) -> GraphEdge:
    subject, name, obj, fact, passage, *parts = row
    stated = tuple((int(at), str(where)) for part in parts for at, where in part)
    return GraphEdge(subject, name, obj, fact, passage, stated)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise DataError(f"task field {name!r} must be a list of texts, got {value!r}")
    return tuple(value)


def checked_tasks(tasks: Sequence[Task]) -> Sequence[Task]:
    """The tasks, if each can be asked and scored.

    Raises:
        TaskError: an id that is no text or occurs twice, an empty question, answers that are not
            some texts, or items that are not lists of some texts.
    """
    seen: dict[str, int] = {}
    for place, task in enumerate(tasks):
        where = f"task {task.id!r} (number {place})"
        if not isinstance(task.id, str) or not task.id:
            raise TaskError(f"{where}: its id must be a text that is not empty")
        if seen.setdefault(task.id, place) != place:
            raise TaskError(f"{where}: the same id as number {seen[task.id]}; ids must differ")
        if not isinstance(task.question, str) or not task.question.strip():
            raise TaskError(f"{where}: its question is empty or no text: {task.question!r:.80}")
        texts = isinstance(task.answers, tuple | list) and task.answers
        if not texts or not all(isinstance(answer, str) for answer in task.answers):
            raise TaskError(
                f"{where}: answers must be a tuple of at least one text, e.g. ('Paris',), got "
                f"{task.answers!r:.80}"
            )
        if not isinstance(task.items, tuple | list) or not all(map(_are_forms, task.items)):
            raise TaskError(
                f"{where}: 'items' must be a list of lists of accepted forms, e.g. "
                f"(('Paris',), ('Rome', 'Roma')), got {task.items!r:.80}"
            )
    return tasks


def _are_forms(forms: object) -> bool:
    """Check whether an item is given by its accepted forms; a text would be its letters."""
    return (
        isinstance(forms, tuple | list)
        and bool(forms)
        and all(isinstance(form, str) for form in forms)
    )


def save_tasks(tasks: Iterable[Task], path: str | Path) -> None:
    """Write one JSON object per line, whole or not at all."""
    lines = (json.dumps(task_to_dict(t), ensure_ascii=False, sort_keys=True) for t in tasks)
    write_whole(Path(path), "".join(f"{line}\n" for line in lines))
