"""The family ``service``: customers of a shop that sells what a world's pages are about.

The customer names the product by a fact (“the film directed by …”), so that its page must be found
to know the order. Exactly one order of theirs fits; two customers bear the name. What they want is
allowed by the shop's rules or not; some change their mind when they are asked to confirm.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np

from searchgym.engines import build_engine
from searchgym.plugins import register
from searchgym.tasks.context import Context, pick
from searchgym.types import Task
from searchgym.worlds.world import Fact

from . import shop

KINDS: Mapping[str, tuple[str, ...]] = {
    "film": ("director", "composer", "film_company"),
    "book": ("author", "publisher"),
    "album": ("performer", "producer", "record_label"),
}
"""Types of a world that are sold, and the relations by which customers name them."""


class Case(NamedTuple):
    """A kind of task: what is wanted, in what state the order is, and what is wanted later."""

    want: str
    status: str
    late: bool = False
    """True for an order that was delivered too long ago."""
    sold_out: bool = False
    then: str = ""
    """What is wanted once the customer is asked to confirm; "" for the same."""


CASES = (
    Case("refund", "delivered"),
    Case("cancel", "processing"),
    Case("exchange", "delivered"),
    Case("refund", "delivered", late=True),
    Case("refund", "delivered", then="exchange"),
    Case("cancel", "shipped"),
    Case("exchange", "delivered", then="refund"),
    Case("exchange", "delivered", sold_out=True),
)
"""Kinds of tasks, by turns."""
ASKED: Mapping[str, str] = {
    "city": "In which city do you live?",
    "item": "Which item is it about?",
    "want": "What would you like?",
    "confirm": "Do you confirm that I do this?",
}
"""Questions that a script of the customer understands."""
_WORDS: Mapping[str, list[str]] = {
    "city": ["city", "live", "town", "address"],
    "item": ["item", "order", "product", "title", "which one", "what is it about", "bought",
             "purchase", "film", "book", "album", "article", "about"],
    "want": ["want", "like", "wish", "help", "problem", "do for you", "prefer", "request"],
    "confirm": ["confirm", "sure", "go ahead", "proceed", "is that right", "shall i", "should i"],
}  # fmt: skip
_WANTS = {
    "refund": "I would like my money back.",
    "cancel": "I would like to cancel it.",
    "exchange": "I would like to have it exchanged for {title}.",
}


@register("task family:service")
def service(ctx: Context, rng: np.random.Generator, turn: int) -> Task | None:
    """A customer with one wish; see the module."""
    case = CASES[turn % len(CASES)]
    kind = pick(rng, sorted(KINDS))
    fact = _named_by(ctx, rng, kind)
    if fact is None:
        return None
    fits = {f.subject for f in ctx.lookup.subjects(fact.property, fact.object)}
    alike = [e for e in _some(ctx, rng, kind, 7) if e not in fits]
    rest = [e for other in KINDS if other != kind for e in _some(ctx, rng, other, 3)]
    people, cities = _some(ctx, rng, "person", 3), _some(ctx, rng, "city", 4)
    if len(alike) < 5 or len(rest) < 4 or len(people) < 3 or len(cities) < 4:
        return None
    names, towns = [ctx.world.names[e] for e in people], [ctx.world.names[e] for e in cities]
    if len({*names}) < 3 or len({*towns}) < 4:
        return None
    item, wished = ctx.world.titles[fact.subject], ctx.world.titles[alike.pop()]
    today = date(2030, 1, 1) + timedelta(int(rng.integers(1_500)))
    db = _shop(ctx, rng, [fact.subject, *alike, *rest], wished, today)
    member = bool(rng.integers(2))
    owners = [(names[0], towns[0], member), (names[0], towns[1], not member),
              (names[1], towns[2], True), (names[2], towns[3], False)]  # fmt: skip
    numbers = rng.permutation(9_000)[:20].tolist()
    db["customers"] = [
        {"customer": f"C-{1000 + number}", "name": name, "city": city, "member": is_member}
        for number, (name, city, is_member) in zip(numbers, owners, strict=False)
    ]
    titles = [ctx.world.titles[e] for e in (*alike, *rest)]
    bought = [(0, item), *((0, title) for title in (*titles[:3], titles[-1])), (1, item),
              (1, titles[4]), (2, item), (2, titles[0]), (3, titles[1])]  # fmt: skip
    for (owner, title), number in zip(bought, numbers[4:], strict=False):
        state = pick(rng, ("delivered", "delivered", "processing", "shipped"))
        _order(db, rng, owner, title, f"O-{1000 + number}", state, int(rng.integers(1, 90)))
    order = db["orders"][0]["order"]
    limit = shop.MEMBERS_DAYS if member else shop.DAYS
    # of a member, an order that is late for others only; of others, one that is not for members
    days = limit + int(rng.integers(1, 30)) if case.late else limit - int(rng.integers(30))
    db["orders"][0] = {}
    _order(db, rng, 0, item, order, case.status, days)
    db["orders"][0] = db["orders"].pop()
    row = shop.row(db["products"], "title", wished)
    assert row is not None
    row["stock"] = 0 if case.sold_out else int(rng.integers(1, 5))
    db["orders"] = [db["orders"][i] for i in rng.permutation(len(db["orders"])).tolist()]
    if not _found(ctx, item, fact.subject):
        return None
    phrase = ctx.prop(fact.property).inverse.train[0]
    about = f"It is about {phrase.replace('{o}', ctx.names.title(fact.object))}."
    return _task(ctx, case, db, order, wished, fact, (names[0], towns[0], about))


def _some(ctx: Context, rng: np.random.Generator, kind: str, number: int) -> list[int]:
    """Entities of a type, each with a name of its own."""
    there = ctx.of_type[ctx.schema.type_index(kind)]
    drawn = [there[i] for i in rng.permutation(len(there))[: 2 * number].tolist()]
    return [e for e in drawn if ctx.names.clear(e)][:number]


def _named_by(ctx: Context, rng: np.random.Generator, kind: str) -> Fact | None:
    """A fact by which a thing of a type is named, stated in the corpus."""
    prop = ctx.schema.property_index(pick(rng, KINDS[kind]))
    fact = ctx.any_fact(rng, prop)
    if fact is None or not (ctx.stated(fact.id) and ctx.names.clear(fact.subject)):
        return None
    return (
        fact if ctx.names.given(fact.object) and ctx.hidden([fact.object], [fact.subject]) else None
    )


def _found(ctx: Context, title: str, entity: int) -> bool:
    """Check that a title finds its page."""
    engine: Any = ctx.memo.get("bm25")
    if engine is None:
        engine = ctx.memo["bm25"] = build_engine("bm25", ctx.corpus)
    page = ctx.corpus[int(ctx.corpus.page_of[entity])].id
    return page in [hit.passage.id for hit in engine.search([title], 3)[0]]


def _shop(
    ctx: Context, rng: np.random.Generator, sold: list[int], wished: str, today: date
) -> shop.Database:
    titles = dict.fromkeys([*(ctx.world.titles[e] for e in sold), wished])
    kinds = {ctx.world.titles[e]: ctx.noun(e) for e in sold}
    products = [
        {"title": title, "kind": kinds.get(title, ctx.noun(sold[0])),
         "price": int(rng.integers(500, 6_000)), "stock": int(rng.integers(5))}
        for title in titles
    ]  # fmt: skip
    return {"today": today.isoformat(), "customers": [], "products": products, "orders": [],
            "payments": []}  # fmt: skip


def _order(
    db: shop.Database, rng: np.random.Generator, owner: int, title: str, number: str, state: str,
    days: int,
) -> None:  # fmt: skip
    product = shop.row(db["products"], "title", title)
    assert product is not None
    delivered = (date.fromisoformat(db["today"]) - timedelta(days)).isoformat()
    db["orders"].append({
        "order": number, "customer": db["customers"][owner]["customer"], "title": title,
        "kind": product["kind"], "price": product["price"], "status": state,
        "delivered": delivered if state == "delivered" else "",
    })  # fmt: skip


def _task(
    ctx: Context, case: Case, db: shop.Database, order: str, wished: str, fact: Fact,
    told: tuple[str, str, str],
) -> Task:  # fmt: skip
    name, city, about = told
    last = case.then or case.want
    args = {"order": order, **({"title": wished} if last == "exchange" else {})}
    final = copy.deepcopy(db)
    calls: list[tuple[str, Mapping[str, str]]] = [
        ("ask_user", {"question": ASKED["city"]}), ("orders", {"name": name, "city": city}),
        ("ask_user", {"question": ASKED["item"]}),
        ("search", {"query": ctx.world.titles[fact.subject]}),
        ("ask_user", {"question": ASKED["want"]}), ("ask_user", {"question": ASKED["confirm"]}),
    ]  # fmt: skip
    if "exchange" in (case.want, last):
        calls.append(("stock", {"title": wished}))
    result = "denied"
    if shop.allowed(db, last, args):
        calls.append((last, args))
        shop.change(final, last, args)
        result = shop.euros(final["payments"][-1]["amount"])
    wants = {w: _WANTS[w].format(title=wished) for w in (case.want, last)}
    says = {"city": f"I live in {city}.", "item": about, "want": wants[case.want],
            "confirm": "Yes, please."}  # fmt: skip
    user: dict[str, Any] = {
        "scene": f"You are {name}, a customer of a shop.",
        "knows": _knows(says),
    }
    if case.then:
        later = {**says, "want": wants[last]}
        user["knows"] = _knows(
            {**says, "confirm": f"No, wait, I have thought again. {wants[last]}"}
        )
        user["later"] = {"after": "confirm", "knows": _knows(later)}
    passage = ctx.corpus[int(ctx.corpus.page_of[fact.subject])].id
    day = date.fromisoformat(db["today"])
    today = f"Today is {day.day} {day:%B %Y}."
    return Task(
        "service", f"{today} Hello, this is {name}. I need help with an order.",
        (f"{order} {result}", f"{result} {order}"),
        (passage,), (ctx.world.titles[fact.subject],), hops=1,
        meta={"shop": db, "final": shop.digest(final), "say": [order, result], "user": user,
              "calls": [{"tool": tool, "args": dict(of)} for tool, of in calls],
              "worked_out": True, "case": "-".join(filter(None, (case.want, case.then, result
              if result == "denied" else "")))},
    )  # fmt: skip


def _knows(says: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"about": about, "words": _WORDS[about], "says": text} for about, text in says.items()]
