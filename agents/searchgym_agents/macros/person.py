"""Macro-actions of AmbiguousQA: what to ask the person, what to search, and which piece of the
pages to answer."""

from __future__ import annotations

import zlib
from functools import partial

import numpy as np

from searchgym.types import Answer, Call, Passage, Search, TurnRequest
from searchgym.utils.english import fold

from .history import between, read_history, tail
from .policy import PLACES, Macro, Reading, Slot
from .reading import Found, pages, says, spans

ASKED = (
    "year", "date", "birth date", "death date", "founded", "formed", "opened", "first aired",
    "first awarded", "described", "genre", "topic", "field", "industry", "sport", "occupation",
    "citizenship", "country", "city", "birthplace", "headquarters", "setting", "located", "river",
    "director", "producer", "composer", "author", "editor", "publisher", "creator", "performer",
    "founder", "designer", "architect", "coach", "chief executive", "president", "mayor", "owner",
    "parent company", "company", "network", "record label", "label", "cast", "member", "spouse",
    "father", "mother", "child", "teacher", "alma mater", "award", "team", "home ground",
    "stadium", "based on", "sequel", "population", "employees", "students", "episodes", "tracks",
    "running time", "length", "height", "area", "capacity", "colour", "price", "language",
    "weight", "currency", "religion", "motto",
)  # fmt: skip
"""What a person can be asked about: nouns of English, of which many fit no thing."""


def read_person(request: TurnRequest) -> Reading:
    """A decision while somebody thinks of something."""
    seen = read_history(request)
    thing, _, question = seen.question.partition(". ")
    thing = thing.removeprefix("I am thinking of ")
    noun = between(f"{question} ?", "this ", " ?").strip("?").split(" ")[0].strip(",.?’'s")
    name = tail(thing)
    told = [t for e in seen.of("ask_user") if (t := between(f"{e.text}\n", " is ", ".\n"))]
    shown = pages(seen)
    searched = [q for e in seen.of("search") if isinstance(e.action, Search)
                for q in e.action.queries]  # fmt: skip
    features = [
        "always", f"asked {len(seen.of('ask_user'))}", f"told {len(told)}",
        f"searched {len(searched)}", f"fit {min(3, sum(says(p, name) for p, _ in shown))}",
        f"right {any(says(p, name) and all(says(p, t) for t in told) for p, _ in shown)}",
        f"left {request.turns_left}",
    ]  # fmt: skip
    asked = {str(args["question"]) for args in seen.arguments("ask_user")}
    words = [w for w in ASKED if _ask(w) not in asked]
    marks = [[_mark(noun, w), _mark("", w)] for w in words]
    fitting = np.array([[w in question] for w in words], dtype=np.float64)
    things = Slot("about", words, fitting, np.array(marks))
    macros = []
    if request.turns_left > 2:  # time to search and to answer is left
        macros.append(
            Macro("ask", lambda w: Call("ask_user", {"question": _ask(w)}), lambda: [things])
        )
    queries = {"search": thing, "search name": name, "search told": " ".join([thing, *told])}
    if request.turns_left > 1:
        macros += [Macro(kind, Search((query,))) for kind, query in queries.items()
                   if query not in searched]  # fmt: skip
    places = {page.id: rank for page, rank in shown}

    def about(page: Passage) -> list[float]:
        fits, kind = says(page, name), fold(noun)[:5] in fold(page.text)[:120]
        right = bool(told) and all(says(page, t) for t in told)
        return [1.0, fits, right, fits and right, kind, fold(page.title) == fold(name),
                1 / (1 + places[page.id])]  # fmt: skip

    if shown:
        read = partial(spans, "answer", question, [page for page, _ in shown], about)
        macros.append(Macro("answer", _said, lambda: [read()]))
    return Reading(features, macros or [Macro("give up", Answer("unknown"))])


def _ask(words: str) -> str:
    return f"What about the {words}?"


def _said(found: Found | None) -> Answer:
    return Answer(found.text if found else "unknown")


def _mark(*words: str) -> int:
    return zlib.crc32("&".join(words).encode()) % PLACES
