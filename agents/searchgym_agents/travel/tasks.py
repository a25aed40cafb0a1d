"""The family ``travel``: trips between cities of a world, each with tables of its own.

The destination is named by a fact (“the city where P was born”), whose page must be found. Every
trip has a feasible plan, found by exhaustive search; the budget is at most ``SLACK`` above the
cheapest, and the plan that takes the first of everything is not feasible.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from searchgym.engines import build_engine
from searchgym.plugins import register
from searchgym.tasks.context import Context, Path, PathStep
from searchgym.tasks.wording import Voice
from searchgym.types import Task

from . import plans
from .plans import MORNING, WAY, Step, clock, money

SLACK = 0.03
"""Share of the least cost by which the budget may be above it."""
SIGHTS = ("Museum", "Gallery", "Garden", "Tower", "Theatre", "Library")


@register("task family:travel")
def travel(ctx: Context, rng: np.random.Generator, turn: int) -> Task | None:
    """A trip of two or three days."""
    described = _destination(ctx, rng)
    cities = ctx.of_type[ctx.schema.type_index("city")]
    others = [cities[i] for i in rng.permutation(len(cities))[:8].tolist()]
    if described is None:
        return None
    about, step = described
    others = [e for e in others if e != step.value and ctx.names.given(e)][:3]
    if len(others) < 3:
        return None
    towns = [ctx.world.names[e] for e in (others[0], step.value, *others[1:])]
    names = _surnames(ctx, rng, 16)
    if len({*towns}) < 4 or len(names) < 16:
        return None
    trip = _trip(rng, towns, names, days=2 + turn % 2)
    best = plans.cheapest(trip)
    if best is None:
        return None
    cost, steps = best
    trip["budget"] = int(cost * (1 + SLACK * float(rng.random())))
    if not plans.fault(trip, first_of_all(trip)):
        return None
    passage = ctx.corpus[int(ctx.corpus.page_of[about])].id
    title = ctx.names.title(about)
    if passage not in [hit.passage.id for hit in _engine(ctx).search([title], 3)[0]]:
        return None
    where = Voice(ctx, "train", 0, "travel", about).describe(Path(about, (step,)))
    sights = trip["wanted"]
    wish = " and ".join([", ".join(sights[:-1]), sights[-1]])
    question = (
        f"Plan a trip of {trip['days']} days from {trip['home']} to {where} and back. I want to "
        f"visit {wish}. My budget is {money(trip['budget'])}."
    )
    answer = plans.written(steps)
    meta = {"travel": trip, "calls": _calls(trip, steps, title), "worked_out": True}
    return Task("travel", question, (answer,), (passage,), (title,), hops=1, meta=meta)


def _destination(ctx: Context, rng: np.random.Generator) -> tuple[int, PathStep] | None:
    """Something whose page says in which city it is, or was born, and that step."""
    about = ctx.any_entity(rng)
    kind = ctx.schema.type_index("city")
    steps = [
        s for s in ctx.steps(about)
        if not s.inverse and ctx.leads_on(s) and int(ctx.world.type_of[s.value]) == kind
        and ctx.names.given(s.value) and ctx.page(s.fact) == int(ctx.corpus.page_of[about])
    ]  # fmt: skip
    if not steps or ctx.names.given(about) is None or not ctx.hidden([about], [steps[0].value]):
        return None
    return about, steps[int(rng.random() * len(steps))]


def _surnames(ctx: Context, rng: np.random.Generator, number: int) -> list[str]:
    people = ctx.of_type[ctx.schema.type_index("person")]
    drawn = [people[i] for i in rng.permutation(len(people))[: 2 * number].tolist()]
    return list(dict.fromkeys(ctx.world.names[e].split()[-1] for e in drawn))[:number]


def _engine(ctx: Context) -> Any:
    if "bm25" not in ctx.memo:
        ctx.memo["bm25"] = build_engine("bm25", ctx.corpus)
    return ctx.memo["bm25"]


def _trip(
    rng: np.random.Generator, towns: list[str], names: list[str], days: int
) -> dict[str, Any]:  # fmt: skip
    """Tables of a trip between four cities: home, destination, one between them, one aside."""

    def drawn(low: int, high: int, step: int = 1) -> int:
        return int(rng.integers(low // step, high // step + 1)) * step

    home, city, between, aside = towns
    routes = [(home, city, 2), (home, between, 1), (between, city, 1), (home, aside, 1)]
    routes += [(end, start, n) for start, end, n in routes]
    numbers = iter(rng.permutation(900).tolist())
    trains = []
    for day in range(1, days + 1):
        for start, end, often in routes:
            for _ in range(often):
                leaves, takes = drawn(380, 1_080, 5), drawn(60, 200, 5)
                direct = {start, end} == {home, city}
                trains.append({
                    "train": f"T{100 + next(numbers)}", "start": start, "end": end, "day": day,
                    "leaves": leaves, "arrives": leaves + takes,
                    "price": drawn(3_500, 9_000, 50) if direct else drawn(1_000, 3_000, 50),
                })  # fmt: skip
    hotels = [
        {"hotel": f"Hotel {name}", "city": town, "price": drawn(4_000, 15_000, 50)}
        for name, town in zip(names, (city, city, city, between), strict=False)
    ]
    places = []
    for name in names[4:9]:
        opens = drawn(540, 720, 30)
        places.append({
            "place": f"{name} {SIGHTS[drawn(0, 5)]}", "city": city, "opens": opens,
            "closes": opens + drawn(180, 420, 30), "closed": drawn(0, days),
            "minutes": drawn(60, 150, 15), "price": drawn(0, 2_500, 50),
        })  # fmt: skip
    wanted = [p["place"] for p in places[:days]]
    return {"home": home, "city": city, "days": days, "budget": 0, "wanted": wanted,
            "trains": trains, "hotels": hotels, "places": places}  # fmt: skip


def first_of_all(trip: plans.Trip) -> list[Step]:
    """The plan that takes the first train, the first hotel and each place as soon as it can."""
    home, city, days = trip["home"], trip["city"], trip["days"]

    def train(start: str, end: str, day: int) -> Step:
        row = next(
            r for r in trip["trains"] if (r["start"], r["end"], r["day"]) == (start, end, day)
        )
        return Step(day, "train", row["train"], clock(row["leaves"]), money(row["price"]))

    steps, now, day = [train(home, city, 1)], 0, 1
    now = next(r["arrives"] for r in trip["trains"] if r["train"] == steps[0].name) + WAY
    hotel = next(r for r in trip["hotels"] if r["city"] == city)
    for name in trip["wanted"]:
        row = next(r for r in trip["places"] if r["place"] == name)
        at = max(now, row["opens"])
        if at + row["minutes"] > row["closes"] and day < days:
            steps.append(Step(day, "hotel", hotel["hotel"], "night", money(hotel["price"])))
            day, now = day + 1, MORNING
            at = max(now, row["opens"])
        steps.append(Step(day, "visit", name, clock(at), money(row["price"])))
        now = at + row["minutes"] + WAY
    for night in range(day, days):
        steps.append(Step(night, "hotel", hotel["hotel"], "night", money(hotel["price"])))
    return [*steps, train(city, home, days)]


def _calls(trip: plans.Trip, steps: list[Step], title: str) -> list[dict[str, Any]]:
    """Look-ups that show all that a plan uses, and where the trip goes to."""
    calls: list[dict[str, Any]] = [{"tool": "search", "args": {"query": title}}]
    for step in steps:
        row = plans.found(trip, step)
        assert row is not None
        args = {
            "train": {"start": row.get("start")},
            "hotel": {"city": row.get("city")},
            "visit": {"name": step.name, "city": row.get("city")},
        }[step.kind]  # fmt: skip
        tool = {"train": "trains", "hotel": "hotels", "visit": "place"}[step.kind]
        if {"tool": tool, "args": args} not in calls:
            calls.append({"tool": tool, "args": args})
    return calls
