"""A shop's database as JSON values, what can be done to it, what its rules allow, and its digest.

``{"today": date, "customers": rows, "products": rows, "orders": rows, "payments": rows}``, each row
a table by column. Prices are whole cents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from searchgym.text import normalise_answer

Row = dict[str, Any]
Database = dict[str, Any]
DAYS, MEMBERS_DAYS = 30, 60
"""Days after its delivery in which an order can be given back (ours)."""
WRITES = ("refund", "cancel", "exchange")
RULES = (
    "You answer for a shop that sells films, books and albums. A customer writes to you. Ask them "
    "what you need to know, look things up, do what they want in the database if these rules allow "
    "it, and then answer.\n"
    "1. The orders of a customer are found by name and city.\n"
    f"2. A delivered order is refunded or exchanged up to {DAYS} days after its delivery "
    f"({MEMBERS_DAYS} for members), and never later.\n"
    "3. An order is cancelled only while it is processing; it is not refunded or exchanged then.\n"
    "4. An order is exchanged only for a product in stock.\n"
    "5. Customers may change their mind: ask them to confirm before you change anything.\n"
    "6. What these rules forbid is not done, and nothing else is done in its place.\n"
    "Answer with the number of the order and the money that is paid back, or paid for a dearer "
    "product, such as O-1234 12.50; where the customer's wish is forbidden, such as O-1234 denied."
    "\n\n{usage}"
)
"""Instructions of ServiceQA-v0."""


def euros(cents: int) -> str:
    """A price as it is written: 12.50."""
    return f"{abs(cents) // 100}.{abs(cents) % 100:02d}"


def row(rows: Sequence[Row], column: str, value: str) -> Row | None:
    """The row with a value in a column; case and punctuation do not count."""
    wanted = normalise_answer(value)
    return next((r for r in rows if normalise_answer(str(r[column])) == wanted), None)


def change(db: Database, tool: str, args: Mapping[str, str]) -> str:
    """Do what a tool that writes does to a database; return what the agent reads.

    What cannot be done (an order that there is not, or that was closed) changes nothing. What the
    shop's rules forbid is done all the same: keeping them is the agent's part.
    """
    order = row(db["orders"], "order", args["order"])
    if order is None:
        return "There is no such order."
    if order["status"] not in ("processing", "shipped", "delivered"):
        return f"Order {order['order']} is closed: {order['status']}."
    amount, product = order["price"], None
    if tool == "exchange":
        product = row(db["products"], "title", args["title"])
        if product is None or not product["stock"]:
            return "This title is not in stock."
        amount -= product["price"]
        product["stock"] -= 1
    status = {"refund": "refunded", "cancel": "cancelled", "exchange": "exchanged"}[tool]
    order["status"] = f"exchanged for {product['title']}" if product else status
    db["payments"].append({"order": order["order"], "amount": amount})
    way = "to be paid" if amount < 0 else "paid back"
    return f"Order {order['order']} is {order['status']}; {euros(amount)} {way}."


def allowed(db: Database, tool: str, args: Mapping[str, str]) -> bool:
    """Check whether the shop's rules allow a change of an order that is there."""
    order = row(db["orders"], "order", args["order"])
    assert order is not None
    if tool == "cancel":
        return bool(order["status"] == "processing")
    owner = next(c for c in db["customers"] if c["customer"] == order["customer"])
    limit = MEMBERS_DAYS if owner["member"] else DAYS
    today, delivered = date.fromisoformat(db["today"]), order["delivered"]
    if not delivered or (today - date.fromisoformat(delivered)).days > limit:
        return False
    if tool == "exchange":
        product = row(db["products"], "title", args["title"])
        return product is not None and product["stock"] > 0
    return True


def digest(db: Mapping[str, Any]) -> str:
    """SHA-256 of a database; the order of rows and columns does not count."""
    canonical = {
        name: sorted(json.dumps(each, sort_keys=True) for each in value)
        if isinstance(value, list) else value
        for name, value in db.items()
    }  # fmt: skip
    return hashlib.sha256(json.dumps(canonical, sort_keys=True).encode()).hexdigest()
