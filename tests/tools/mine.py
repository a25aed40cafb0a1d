"""Tools as somebody else would write them; named by import path in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from searchgym.tools import Tool, ToolContext
from searchgym.types import Failure, ToolResult, ToolSpec


def double(number: int, state: dict | None = None) -> str:  # type: ignore[type-arg]
    """Double a
    number."""
    return str(2 * number + bool(state))


def describe(
    name: str, sizes: list[float] | None = None, unit: Literal["m", "km"] = "m", loud: bool = False
) -> str:
    """Describe a thing."""
    return f"{name} {sizes} {unit} {loud}"


_ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}


class Put(Tool):
    """Puts things into a basket that it shares with ``Take``."""

    spec = ToolSpec("put", "Put a thing into the basket.", _ITEM, shares="basket")

    def use(self, args: Mapping[str, Any], state: Any) -> str | ToolResult | Failure:
        basket = state or {"things": []}
        basket["things"].append(args["item"])  # its own copy: nobody else sees this change
        return ToolResult((f"{len(basket['things'])} things",), state=basket)


class Take(Tool):
    spec = ToolSpec("take", "Take a thing out of the basket.", _ITEM, shares="basket")

    def use(self, args: Mapping[str, Any], state: Any) -> str | ToolResult | Failure:
        things = list((state or {"things": []})["things"])
        if args["item"] not in things:
            return "It is not there."
        things.remove(args["item"])
        return ToolResult(("Taken.",), state={"things": things})


class Count(Tool):
    """Counts its calls by itself and says how large its world is."""

    spec = ToolSpec("count_calls", "Count.", {"type": "object", "properties": {}})

    def __init__(self, start: int = 0, *, cost: float = 0.0) -> None:
        super().__init__(cost=cost)
        self.start, self.size = start, -1

    def bind(self, context: ToolContext) -> Self:
        bound = type(self)(self.start, cost=self.cost)
        bound.size = len(context.corpus)
        return bound

    def use(self, args: Mapping[str, Any], state: Any) -> str | ToolResult | Failure:
        number = self.start if state is None else state + 1
        return ToolResult((f"{number} of {self.size}",), state=number)


class Told(Tool):
    """A tool that is told the task."""

    spec = ToolSpec("told", "Tell.", {"type": "object", "properties": {}})
    needs_task = True

    def run(self, batch: Any, /) -> list[ToolResult | Failure]:
        return [ToolResult((call.ctx.task.id if call.ctx.task else "nothing",)) for call in batch]


class NoSpec:
    needs_task = False

    def run(self, batch: Any, /) -> list[Any]:
        return []


READY = Count(10)
NUMBER = 7
