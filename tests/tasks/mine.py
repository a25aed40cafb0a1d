"""Families as somebody else would write them; named by import path in tests."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

from searchgym.tasks.chains import definite_fact, lookup
from searchgym.tasks.context import Context, Path
from searchgym.tasks.draft import Draft, Sketch, family
from searchgym.types import Task


def born_before(ctx: Context, rng: np.random.Generator, turn: int, year: int = 1950) -> Task | None:
    """A ready task without a reasoning graph: taken as it is."""
    people = ctx.of_type[ctx.schema.type_index("person")]
    one = people[int(rng.integers(len(people)))]
    facts = ctx.lookup.objects(one, ctx.schema.property_index("birth_date"))
    name = ctx.names.given(one)
    if len(facts) != 1 or name is None:
        return None
    answer = "yes" if facts[0].object < date(year, 1, 1).toordinal() else "no"
    page = ctx.corpus[ctx.page(facts[0].id)].id
    return Task("", f"Was {name} born before {year}?", (answer,), (page,), (ctx.names.title(one),))


born_before.same_answer = 1.0  # type: ignore[attr-defined]


@family(same_answer=0.5)
def again(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A proved family: one fact, under a name of its own."""
    found = definite_fact(ctx, rng, inverse=False)
    if found is None or ctx.names.given(found[0]) is None:
        return None
    return lookup(ctx, "again", Path(found[0], (found[1],)), shape="again")


@family(proofs=True)
def liar(ctx: Context, rng: np.random.Generator, turn: int) -> Task | None:
    """Promises proofs and brings none."""
    return Task("", f"Question {turn}?", (f"answer {turn}",))


@family(same_answer=1.0)
def wrong(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Brings a graph whose answer is another."""
    found = definite_fact(ctx, rng, inverse=False)
    if found is None or ctx.names.given(found[0]) is None:
        return None
    path = Path(found[0], (found[1],))
    sketch = Sketch(ctx)
    end = sketch.path(path)
    return sketch.finish(
        "wrong", shape="wrong", answers=("not this",), answer=end, hops=1,
        render=lambda voice: voice.ask(path),
    )  # fmt: skip


class Every:
    """A family with an option, as a class."""

    name = "every"
    same_answer = 1.0
    proofs = False

    def __init__(self, word: str = "plain") -> None:
        self.word = word

    def propose(self, ctx: Any, rng: Any, turn: int) -> Task | None:
        passage = ctx.corpus[turn % len(ctx.corpus)]
        return Task("", f"{self.word} {turn}: which page is this?", (passage.title,), (passage.id,))


def raising(ctx: Context, rng: np.random.Generator, turn: int) -> Task | None:
    """Cannot ask at all."""
    raise ValueError("no pages")


def texts(ctx: Context, rng: np.random.Generator, turn: int) -> Any:
    """Gives questions that are no tasks."""
    return f"Question {turn}?"


def unanswered(ctx: Context, rng: np.random.Generator, turn: int) -> Task:
    """Gives a task without an answer."""
    return Task("", f"Question {turn}?", ())
