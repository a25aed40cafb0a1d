"""Trips, plans as text, whether a plan is feasible, and the cheapest feasible plan of a trip.

A trip is JSON: ``home``, ``city`` (where to), ``days``, ``budget`` (cents), ``wanted`` (places to
see), and rows of ``trains`` (train, start, end, day, leaves, arrives, price), ``hotels`` (hotel,
city, price) and ``places`` (place, city, opens, closes, closed, minutes, price). Times are minutes
of the day, ``closed`` a day of the trip or 0.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from searchgym.text import normalise_answer

Trip = Mapping[str, Any]
BEGIN, MORNING, WAY = 6 * 60, 8 * 60, 30
"""Times of the first departure and of the other mornings, and minutes that each way within a city
takes (ours)."""
MOST_STEPS, MOST_CHARS = 60, 8_000
RULES = (
    "You plan trips by train. Find out which city is meant, look up trains, hotels and places, and "
    "answer with a plan that keeps these rules:\n"
    "1. It leaves the home city on day 1 and is back there on the last day.\n"
    "2. Every night but the last day's is spent in a hotel of the city in which the day ends.\n"
    "3. Every place that is asked for is visited once, on a day and at a time when it is open to "
    "the end of the visit.\n"
    f"4. After a train or a visit, {WAY} minutes pass before the next train leaves or visit "
    f"begins. Day 1 begins at 06:00, the others at 08:00.\n"
    "5. Trains, hotels and entrance fees together cost no more than the budget.\n"
    "Write the steps in order, apart by semicolons, each as DAY | train, visit or hotel | NAME | "
    "TIME | PRICE: 1 | train | T12 | 08:10 | 24.00; 1 | visit | Venn Museum | 11:00 | 8.00; "
    "1 | hotel | Hotel Oru | night | 61.50; 2 | train | T31 | 17:45 | 24.00\n\n{usage}"
)
"""Instructions of TravelQA-v0."""
KINDS = {"train": ("trains", "train"), "visit": ("places", "place"), "hotel": ("hotels", "hotel")}
"""Kind of step → table and column of what it names."""


class Step(NamedTuple):
    """A step of a plan, as it is written."""

    day: int
    kind: str
    name: str
    at: str
    """Departure of a train, begin of a visit, "night" of a hotel."""
    price: str

    def __str__(self) -> str:
        return " | ".join(map(str, self))


def clock(minutes: int) -> str:
    """08:10 for 490."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def minutes_of(text: str) -> int | None:
    """490 for 08:10 or 8:10; None for what is no time of the day."""
    hours, colon, minutes = text.partition(":")
    if not (colon and hours.isdecimal() and minutes.isdecimal() and len(minutes) == 2):
        return None
    value = int(hours[:3]) * 60 + int(minutes)
    return value if len(hours) <= 2 and int(minutes) < 60 and value < 24 * 60 else None


def money(cents: int) -> str:
    """A price as it is written: 24.00."""
    return f"{cents // 100}.{cents % 100:02d}"


def written(steps: Iterable[Step]) -> str:
    """A plan as text."""
    return "; ".join(map(str, steps))


def read_plan(text: str) -> list[Step] | str:
    """The steps of a text, or why it is no plan."""
    if len(text) > MOST_CHARS:
        return f"a plan has at most {MOST_CHARS} characters"
    steps = []
    for number, part in enumerate(filter(None, map(str.strip, text.split(";"))), 1):
        fields = [field.strip() for field in part.split("|")]
        if len(fields) != len(Step._fields) or fields[1].lower() not in KINDS:
            return f"step {number} is not DAY | train, visit or hotel | NAME | TIME | PRICE"
        if not (fields[0].isdecimal() and len(fields[0]) < 4):
            return f"step {number} begins with no day"
        steps.append(Step(int(fields[0]), fields[1].lower(), *fields[2:]))
        if number > MOST_STEPS:
            return f"a plan has at most {MOST_STEPS} steps"
    return steps or "there is no step"


def found(trip: Trip, step: Step) -> Mapping[str, Any] | None:
    """The row that a step names (of trains, that day's)."""
    table, column = KINDS[step.kind]
    wanted = normalise_answer(step.name)
    rows = (r for r in trip[table] if wanted and normalise_answer(r[column]) == wanted)
    return next((r for r in rows if step.kind != "train" or r["day"] == step.day), None)


def fault(trip: Trip, steps: Sequence[Step]) -> str:
    """Why a plan is not feasible in time and space, or for the budget; "" if it is.

    Costs are those of the trip's rows, whatever prices the plan states.
    """
    day, now, city, over = 1, BEGIN, trip["home"], False
    seen: set[str] = set()
    cost = 0
    for number, step in enumerate(steps, 1):
        if step.day == day + 1 and over:
            day, now, over = day + 1, MORNING, False
        if step.day != day or over:
            return f"step {number}: the plan is at day {day}" + (", which is over" if over else "")
        row = found(trip, step)
        if row is None:
            return f"step {number}: there is no {step.kind} {step.name[:60]!r} on day {day}"
        cost += row["price"]
        if row["start" if step.kind == "train" else "city"] != city:
            return f"step {number}: the plan is in {city}"
        if step.kind == "hotel":
            over = True
            continue
        at = minutes_of(step.at)
        if at is None or at < now:
            return f"step {number}: it is {clock(now)} at the earliest"
        if step.kind == "train":
            if at != row["leaves"]:
                return f"step {number}: {row['train']} leaves at {clock(row['leaves'])}"
            city, now = row["end"], row["arrives"] + WAY
            continue
        if row["closed"] == day or at < row["opens"] or at + row["minutes"] > row["closes"]:
            return f"step {number}: {row['place']} is closed"
        if row["place"] in seen:
            return f"step {number}: {row['place']} is visited twice"
        seen.add(row["place"])
        now = at + row["minutes"] + WAY
    if missing := [place for place in trip["wanted"] if place not in seen]:
        return f"{missing[0]} is not visited"
    if city != trip["home"] or day != trip["days"] or over:
        return f"the plan ends in {city} on day {day}"
    return "" if cost <= trip["budget"] else f"it costs {money(cost)}"


class _Place(NamedTuple):
    """A point of a trip: day, time, city, what was seen."""

    day: int
    now: int
    city: str
    seen: frozenset[str]


def cheapest(trip: Trip) -> tuple[int, list[Step]] | None:
    """The least cost of a plan that keeps all rules but the budget, and such a plan; None if there
    is none.

    Exhaustive: the points of a trip (day, time, city, what was seen) are expanded in the order of
    their costs. A visit begins as early as it can, which shuts out no plan: whoever is done earlier
    can wait.
    """
    order = count()
    start = _Place(1, BEGIN, trip["home"], frozenset())
    queue: list[tuple[int, int, _Place, tuple[Step, ...]]] = [(0, next(order), start, ())]
    done: set[_Place] = set()
    while queue:
        cost, _, here, steps = heapq.heappop(queue)
        if here in done:
            continue
        done.add(here)
        at_home = here.city == trip["home"] and here.day == trip["days"]
        if at_home and here.seen.issuperset(trip["wanted"]):
            return cost, list(steps)
        for price, place, step in _moves(trip, here):
            if place not in done:
                heapq.heappush(queue, (cost + price, next(order), place, (*steps, step)))
    return None


def _moves(trip: Trip, here: _Place) -> Iterator[tuple[int, _Place, Step]]:
    day, now, city, seen = here
    for row in trip["trains"]:
        if (row["day"], row["start"]) == (day, city) and row["leaves"] >= now:
            step = Step(day, "train", row["train"], clock(row["leaves"]), money(row["price"]))
            yield row["price"], _Place(day, row["arrives"] + WAY, row["end"], seen), step
    for row in trip["places"]:
        if row["place"] in trip["wanted"] and row["place"] not in seen and row["city"] == city:
            at = max(now, row["opens"])
            if row["closed"] != day and at + row["minutes"] <= row["closes"]:
                step = Step(day, "visit", row["place"], clock(at), money(row["price"]))
                after = _Place(day, at + row["minutes"] + WAY, city, seen | {row["place"]})
                yield row["price"], after, step
    for row in trip["hotels"] if day < trip["days"] else ():
        if row["city"] == city:
            step = Step(day, "hotel", row["hotel"], "night", money(row["price"]))
            yield row["price"], _Place(day + 1, MORNING, city, seen), step
