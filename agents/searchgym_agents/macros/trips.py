"""Macro-actions of TravelQA: what to look up, and which plan over what was shown to answer."""

from __future__ import annotations

from typing import Any

from searchgym.types import Answer, Call, Search, TurnRequest

from ..travel.plans import cheapest, minutes_of, written
from ..travel.tasks import first_of_all
from .history import History, between, read_history, tail
from .policy import Macro, Reading


def read_trip(request: TurnRequest) -> Reading:
    """A decision while a trip is planned."""
    seen = read_history(request)
    head, _, rest = seen.question.partition(" and back. ")
    days = between(head, "trip of ", " days")
    home, _, where = head.partition(" days from ")[2].partition(" to ")
    wanted = between(rest, "I want to visit ", ". My").replace(" and ", ", ").split(", ")
    if not days.isdecimal():
        return Reading(["always"], [Macro("give up", Answer("no plan"))])
    budget = _cents(rest.rpartition("My budget is ")[2])
    trip = _shown(seen, home, int(days), wanted, budget)
    ends = {row["end"] for row in trip["trains"] if row["start"] == home}
    city = trip["city"] = next((e for e in sorted(ends) if _stands(e, where, seen)), "")
    looked, hotels = (
        {args[column] for args in seen.arguments(tool)}
        for tool, column in (("trains", "start"), ("hotels", "city"))
    )
    others = sorted(ends - looked - {city, home}) if city else []
    stops = [("trains of home", home), ("trains of city", city)]
    stops += [("trains of others", end) for end in others[:1]]
    macros = [
        Macro(kind, Call("trains", {"start": start}))
        for kind, start in stops if start and start not in looked
    ]  # fmt: skip
    if not seen.of("search"):
        macros.append(Macro("search", Search((tail(where),))))
    nights = sorted((ends & looked) - hotels - {city}) if city else []
    if city and city not in hotels:
        macros.append(Macro("hotels", Call("hotels", {"city": city})))
    if nights:
        macros.append(Macro("hotels of others", Call("hotels", {"city": nights[0]})))
    known = {row["place"] for row in trip["places"]}
    missing = [name for name in wanted if name not in known]
    if city and missing:
        macros.append(Macro("place", Call("place", {"name": missing[0], "city": city})))
    best = cheapest(trip) if not missing and city in looked else None
    if best is not None:
        macros.append(Macro("plan", Answer(written(best[1]))))
        if city in hotels:
            macros.append(Macro("first", Answer(written(first_of_all(trip)))))
    bare = cheapest({**trip, "wanted": []}) if city in looked else None
    if bare is not None:  # a trip that visits nothing
        macros.append(Macro("bare", Answer(written(bare[1]))))
    macros.append(Macro("give up", Answer("no plan")))
    features = [
        "always", f"city {bool(city)}", f"plan {best is not None}",
        f"within {best is not None and best[0] <= budget}", f"others {min(len(others), 2)}",
        f"nights {min(len(nights), 2)}", f"missing {len(missing)}", f"hotels {bool(hotels)}",
    ]  # fmt: skip
    return Reading(features, macros)


def _cents(price: str) -> int:
    whole, _, rest = price.partition(".")
    return int(whole or 0) * 100 + int(rest[:2] or 0)


def _stands(city: str, where: str, seen: History) -> bool:
    """Check whether the page of what is named speaks of a city."""
    name = tail(where)
    return any(
        city in hit.passage.text
        for event in seen.of("search") for hit in event.hits
        if hit.passage.title.partition(" (")[0] in name or name in hit.passage.title
    )  # fmt: skip


def _shown(
    seen: History, home: str, days: int, wanted: list[str], budget: int
) -> dict[str, Any]:  # fmt: skip
    """A trip's tables, as far as the tools have shown them."""
    trip: dict[str, Any] = {"home": home, "city": "", "days": days, "budget": budget,
                            "wanted": wanted, "trains": [], "hotels": [], "places": []}  # fmt: skip
    for event, args in zip(seen.of("trains"), seen.arguments("trains"), strict=True):
        for fields in _table(event.text, 4):
            left, _, right = fields[2].partition(" - ")
            (_, _, leaves), (end, _, arrives) = left.rpartition(" "), right.rpartition(" ")
            trip["trains"].append({
                "train": fields[1], "start": args["start"], "end": end, "day": int(fields[0][4:]),
                "leaves": minutes_of(leaves), "arrives": minutes_of(arrives),
                "price": _cents(fields[3]),
            })  # fmt: skip
    for event, args in zip(seen.of("hotels"), seen.arguments("hotels"), strict=True):
        trip["hotels"] += [
            {"hotel": hotel, "city": args["city"], "price": _cents(price)}
            for hotel, price in _table(event.text, 2)
        ]
    for event, args in zip(seen.of("place"), seen.arguments("place"), strict=True):
        for fields in _table(event.text, 4):
            hours, _, closed = fields[1].partition(", closed on day ")
            opens, _, closes = hours.removeprefix("open ").partition(" - ")
            trip["places"].append({
                "place": args["name"], "city": args["city"], "opens": minutes_of(opens),
                "closes": minutes_of(closes), "closed": int(closed or 0),
                "minutes": int(fields[2].split(" ")[3]), "price": _cents(fields[3]),
            })  # fmt: skip
    return trip


def _table(text: str, columns: int) -> list[list[str]]:
    """Rows of so many columns."""
    rows = [line.split(" | ") for line in text.split("\n")]
    return [row for row in rows if len(row) == columns]
