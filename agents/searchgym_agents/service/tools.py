"""Tools over the database of an episode, which they share."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

from searchgym.errors import TaskError
from searchgym.tools import Tool
from searchgym.types import Task, ToolResult, ToolSpec

from . import shop

STORE = "shop"
"""Name of the state that the tools share."""


def _spec(tool: str, description: str, /, **arguments: str) -> ToolSpec:
    properties = {
        name: {"type": "string", "maxLength": 200, "description": said}
        for name, said in arguments.items()
    }
    schema = {"type": "object", "properties": properties, "required": [*arguments]}
    return ToolSpec(tool, description, schema, shares=STORE)


class ShopTool(Tool):
    """A tool over the database that stands in the task's ``meta["shop"]``.

    ``TaskError`` for a task without one.
    """

    needs_task = True
    time_limit = None

    def initial_state(self, task: Task | None) -> Any:
        if task is None or "shop" not in task.meta:
            raise TaskError(
                f"the tool {self.spec.name!r} needs tasks with a shop: ask tasks={{'service': 100}}"
            )
        return copy.deepcopy(task.meta["shop"])


class Orders(ShopTool):
    """Orders of a customer."""

    registered = "tool:orders"
    spec = _spec(
        "orders", "List the orders of a customer.",
        name="The customer's whole name.", city="The city in which the customer lives.",
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any) -> str:
        named = [c for c in state["customers"] if shop.row([c], "name", args["name"])]
        customer = shop.row(named, "city", args["city"])
        if customer is None:
            return "There is no customer of this name in this city."
        lines = [
            f"{o['order']} | {o['kind']} | {o['title']} | {shop.euros(o['price'])} | {o['status']}"
            + (f" | delivered on {o['delivered']}" if o["delivered"] else "")
            for o in state["orders"] if o["customer"] == customer["customer"]
        ]  # fmt: skip
        member = "a member" if customer["member"] else "no member"
        return "\n".join([f"{customer['name']}, {customer['city']}, {member}:", *lines])


class Stock(ShopTool):
    """Price and stock of a product."""

    registered = "tool:stock"
    spec = _spec(
        "stock", "Tell a product's price, and how many are in stock.", title="The product's title."
    )

    def use(self, args: Mapping[str, Any], state: Any) -> str:
        product = shop.row(state["products"], "title", args["title"])
        if product is None:
            return "The shop does not sell this title."
        return f"{product['title']}: {shop.euros(product['price'])}, {product['stock']} in stock."


class ShopChange(ShopTool):
    """A tool that writes."""

    writes: ClassVar[str]

    def use(self, args: Mapping[str, Any], state: Any) -> ToolResult:
        return ToolResult((shop.change(state, self.writes, args),), state=state)


class Refund(ShopChange):
    """Take an order back."""

    registered = "tool:refund"
    writes = "refund"
    spec = _spec("refund", "Take an order back and return its price.", order="Its number.")


class Cancel(ShopChange):
    """Cancel an order."""

    registered = "tool:cancel"
    writes = "cancel"
    spec = _spec("cancel", "Cancel an order and return its price.", order="Its number.")


class Exchange(ShopChange):
    """Exchange an order."""

    registered = "tool:exchange"
    writes = "exchange"
    spec = _spec(
        "exchange", "Take an order back, send another product and settle the difference in price.",
        order="Its number.", title="The title of the product to send.",
    )  # fmt: skip
