"""Macro-actions of ServiceQA: what to ask, look up, do and answer, filled in by reading."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime

from searchgym.types import Answer, Call, Search, TurnRequest

from .history import History, between, read_history, tail
from .policy import Macro, Reading

ASKS: Mapping[str, str] = {
    "city": "In which city do you live?", "item": "Which item is it about?",
    "want": "What would you like?", "confirm": "Do you confirm?",
}  # fmt: skip
_WISHES = {"money back": "refund", "cancel": "cancel", "exchanged for": "exchange"}


def read_desk(request: TurnRequest) -> Reading:
    """A decision at the service desk."""
    seen = read_history(request)
    said = " ".join(event.text for event in seen.of("ask_user"))
    asked = [str(args["question"]) for args in seen.arguments("ask_user")]
    today = between(seen.question, "Today is ", ".") or "1 January 2030"
    name = between(seen.question, "this is ", ". I need")
    city, item = between(said, "I live in ", "."), between(said, "It is about the ", ".")
    wish, title = _wish(said)
    rows = [line.split(" | ") for e in seen.of("orders") for line in e.text.split("\n")[1:]]
    member = any(", a member:" in e.text for e in seen.of("orders"))
    order = _order(seen, rows, item)
    features = [
        "always", f"wish {wish}", f"city {bool(city)}", f"item {bool(item)}",
        f"orders {bool(rows)}", f"member {member}", f"order {bool(order)}",
        *(f"asked {about} {asked.count(question)}" for about, question in ASKS.items()),
        f"confirmed {'Yes, please.' in said}",
    ]  # fmt: skip
    macros = [
        Macro(f"ask {about}", Call("ask_user", {"question": question}))
        for about, question in ASKS.items()
        if asked.count(question) <= (about == "confirm")
    ]
    if city and not rows:
        macros.append(Macro("orders", Call("orders", {"name": name, "city": city})))
    if item and rows and order is None:
        searches = [e.action for e in seen.of("search") if isinstance(e.action, Search)]
        looked = {query for search in searches for query in search.queries}
        fitting = [r[2] for r in rows if item.startswith(r[1]) and r[2] not in looked]
        macros += [Macro("look", Search((each,))) for each in fitting[:1]]
    if order is not None:
        number, status = order[0], order[4]
        delivered = order[5].removeprefix("delivered on ") if len(order) > 5 else ""
        day = datetime.strptime(today, "%d %B %Y").date()
        days = (day - date.fromisoformat(delivered)).days if delivered else -1
        old = "none" if days < 0 else "30" if days <= 30 else "60" if days <= 60 else "more"
        stock = any(", 0 in stock" not in e.text for e in seen.of("stock"))
        features += [f"status {status}", f"days {old}, member {member}", f"stock {stock}",
                     f"status {status}, wish {wish}"]  # fmt: skip
        done = [e for tool in ("refund", "cancel", "exchange") for e in seen.of(tool)]
        money = between(" ".join(e.text for e in done), "; ", " ")
        if title and not seen.of("stock"):
            macros.append(Macro("stock", Call("stock", {"title": title})))
        if not done:
            macros += [Macro(t, Call(t, {"order": number})) for t in ("refund", "cancel")]
            if title:
                args = {"order": number, "title": title}
                macros.append(Macro("exchange", Call("exchange", args)))
        macros.append(Macro("denied", Answer(f"{number} denied")))
        if money:
            macros.append(Macro("paid", Answer(f"{number} {money}")))
    return Reading(features, [*macros, Macro("give up", Answer("unknown"))])


def _wish(said: str) -> tuple[str, str]:
    """What was wanted last, and for which title an exchange."""
    places = {wish: said.rfind(words) for words, wish in _WISHES.items()}
    wish = max(places, key=places.__getitem__)
    title = between(said, "exchanged for ", ".")
    return (wish, title) if places[wish] >= 0 else ("none", "")


def _order(seen: History, rows: list[list[str]], item: str) -> list[str] | None:
    """The order whose title's page names what the customer names."""
    anchor = tail(item)
    for row in rows:
        for event in seen.of("search"):
            for hit in event.hits:
                if anchor and hit.passage.title == row[2] and anchor in hit.passage.text:
                    return row
    return None
