"""``difference``: how far two numbers lie apart, years or counts; no page says the answer."""

from __future__ import annotations

import numpy as np

from ..worlds.schema import Phrases
from .comparison import keyed_path
from .context import Context, pick
from .draft import Draft, Sketch, family
from .names import amount_answers
from .parallel import YEARS_APART, between

_APART = Phrases(
    (
        "What is the difference between {x} and {y}?",
        "By how much do {x} and {y} differ?",
        "How far apart are {x} and {y}?",
        "Subtract the smaller from the larger: {x} and {y}. What is left?",
        "How large is the gap between {x} and {y}?",
        "Work out the difference between {x} and {y}.",
        "Tell me the difference between {x} and {y}.",
        "Compare {x} with {y}. By how much does one exceed the other?",
        "I would like to know how much {x} and {y} differ.",
    ),
    (
        "How great is the difference between {x} and {y}?",
        "What separates {x} from {y}, as a number?",
        "Calculate how much lies between {x} and {y}.",
    ),
)


@family()
def propose(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Two named things of one type and their values of one attribute, which differ by more than
    one; years in every second task, counts in the others, where the schema has both."""
    kinds = ("year", "count") if turn % 2 else ("count", "year")
    for kind in kinds:
        keys = [i for i, p in enumerate(ctx.schema.properties) if p.value == kind]
        if keys:
            break
    else:
        return None
    key = pick(rng, keys)
    about = ctx.prop(key)
    members = ctx.of_type[ctx.schema.type_index(about.source)]
    if not members:
        return None
    a, b = (keyed_path(ctx, pick(rng, members), None, key) for _ in range(2))
    if a is None or b is None or a.start == b.start or abs(a.end - b.end) < 2:
        return None
    sketch = Sketch(ctx)
    nodes = sketch.path(a), sketch.path(b)
    bank = YEARS_APART if about.value == "year" else _APART
    unit = "years" if about.value == "year" else about.unit
    return sketch.finish(
        "difference", shape=str(about.value), answers=amount_answers(abs(a.end - b.end), unit),
        hops=1, branches=2, operation=f"difference:{nodes[0]},{nodes[1]}",
        render=lambda voice: between(voice, bank, a, b),
    )  # fmt: skip
