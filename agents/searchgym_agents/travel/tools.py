"""Look-ups in a trip's tables; each says in ``ToolResult.meta["rows"]`` what it showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from searchgym.errors import TaskError
from searchgym.text import normalise_answer
from searchgym.tools import Tool
from searchgym.types import Task, ToolResult, ToolSpec

from .plans import clock, money


def _spec(tool: str, description: str, /, **arguments: str) -> ToolSpec:
    properties = {
        name: {"type": "string", "maxLength": 200, "description": said}
        for name, said in arguments.items()
    }
    return ToolSpec(
        tool, description,
        {"type": "object", "properties": properties, "required": [*arguments]}, shares="travel",
    )  # fmt: skip


def _named(rows: Sequence[Mapping[str, Any]], **wanted: str) -> list[dict[str, Any]]:
    """Rows with these values; case and punctuation do not count."""
    keys = {column: normalise_answer(value) for column, value in wanted.items()}
    return [
        dict(row) for row in rows
        if all(key and normalise_answer(row[column]) == key for column, key in keys.items())
    ]  # fmt: skip


class TravelTool(Tool):
    """A look-up in the trip that stands in the task's ``meta["travel"]``.

    ``TaskError`` for a task without one.
    """

    needs_task = True
    time_limit = None

    def initial_state(self, task: Task | None) -> Any:
        if task is None or "travel" not in task.meta:
            raise TaskError(
                f"the tool {self.spec.name!r} needs tasks with a trip: ask tasks={{'travel': 100}}"
            )
        return task.meta["travel"]


def _shown(rows: list[dict[str, Any]], lines: list[str], none: str) -> ToolResult:
    return ToolResult(("\n".join(lines) or none,), meta={"rows": rows})


class Trains(TravelTool):
    """Trains that leave a city."""

    registered = "tool:trains"
    spec = _spec(
        "trains", "List the trains that leave a city, day by day, and where they go.",
        start="The city in which they start.",
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any) -> ToolResult:
        rows = _named(state["trains"], start=args["start"])
        lines = [
            f"day {r['day']} | {r['train']} | {r['start']} {clock(r['leaves'])} - {r['end']} "
            f"{clock(r['arrives'])} | {money(r['price'])}" for r in rows
        ]  # fmt: skip
        return _shown(rows, lines, "No train is known there.")


class Hotels(TravelTool):
    """Hotels of a city."""

    registered = "tool:hotels"
    spec = _spec("hotels", "List a city's hotels with the price of a night.", city="The city.")

    def use(self, args: Mapping[str, Any], state: Any) -> ToolResult:
        rows = _named(state["hotels"], city=args["city"])
        lines = [f"{r['hotel']} | {money(r['price'])}" for r in rows]
        return _shown(rows, lines, "No hotel is known there.")


class Places(TravelTool):
    """A place to see."""

    registered = "tool:place"
    spec = _spec(
        "place", "Tell when a place is open, how long a visit takes and what it costs.",
        name="Its name.", city="The city in which it is.",
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any) -> ToolResult:
        rows = _named(state["places"], place=args["name"], city=args["city"])
        lines = [
            f"{r['place']}, {r['city']} | open {clock(r['opens'])} - {clock(r['closes'])}"
            + (f", closed on day {r['closed']}" if r["closed"] else "")
            + f" | a visit takes {r['minutes']} minutes | {money(r['price'])}" for r in rows
        ]  # fmt: skip
        return _shown(rows, lines, "No such place is known in this city.")
