"""``computed``: what must be worked out of several pages: days between two dates, one number as a
percentage of another, the mean of a group's numbers. No page says it, and copying finds it nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from ..plugins import register
from ..worlds.schema import Phrases
from .comparison import keyed_path
from .context import Context, Path, amount_answers, forward, pick
from .draft import Draft, Rows, Sketch, family, operation
from .groups import describe_group, random_group
from .parallel import between
from .wording import Voice, capitalised

DAYS_APART = Phrases(
    (
        "How many days lie between {x} and {y}?",
        "By how many days do {x} and {y} differ?",
        "How many days apart are {x} and {y}?",
        "Count the days between {x} and {y}.",
        "How many days separate {x} and {y}?",
        "What is the gap in days between {x} and {y}?",
        "Work out the number of days between {x} and {y}.",
        "How far apart, in days, are {x} and {y}?",
    ),
    (
        "What span of days separates {x} from {y}?",
        "How great is the gap in days between {x} and {y}?",
        "Tell me how many days there are between {x} and {y}.",
    ),
)
PERCENT = Phrases(
    (
        "What percentage of {y} is {x}? Round to a whole number.",
        "To the nearest whole number, how many percent of {y} is {x}?",
        "Work out {x} as a percentage of {y}, rounded to a whole number.",
        "Take {y} as a hundred percent. How many percent, rounded to a whole number, is {x}?",
        "How many percent of {y} does {x} come to? Give a whole number.",
        "Tell me, as a whole number, what percentage of {y} is {x}.",
        "Express {x} as a percentage of {y}, without decimals.",
        "Divide {x} by {y}. What is the result in percent, to the nearest whole number?",
    ),
    (
        "In percent, what is the ratio of {x} to {y}? Round it.",
        "If {y} is a hundred percent, what percentage is {x}? Round it.",
        "Calculate which percentage of {y} is made up by {x}, in whole numbers.",
    ),
)
MEAN = Phrases(
    (
        "What is the average {l} of the {g}? Round to a whole number.",
        "To the nearest whole number, what is the mean {l} of the {g}?",
        "Work out the average {l} of the {g}, rounded to a whole number.",
        "Take the {l} of each of the {g}. What is the average, to the nearest whole number?",
        "Give the mean {l} of the {g}, without decimals.",
        "Averaged over the {g}, what is the {l}? Give a whole number.",
        "Tell me the average {l} of all {g}, to the nearest whole number.",
        "I would like to know the mean {l} of the {g}, as a whole number.",
    ),
    (
        "What, on average, is the {l} of the {g}? Round it.",
        "Calculate the mean of the {l} of all {g}, and round it.",
        "How much is the {l} of the {g} on average? Round it.",
    ),
)
LEAST, MOST = 3, 8
"""Members of a group."""


def rounded(value: Fraction) -> int | None:
    """The nearest whole number; None halfway between two, which is rounded in different ways."""
    doubled = 2 * value
    if doubled.denominator == 1 and doubled.numerator % 2:
        return None
    return round(value)


@register("computed")
@family(same_answer=0.08)
def computed(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """In turn days, a percentage and a mean, where the schema has dates and counts."""
    return (_days, _percent, _mean)[turn % 3](ctx, rng)


def _pair(ctx: Context, rng: np.random.Generator, kind: str) -> tuple[int, Path, Path] | None:
    """An attribute of a kind and two named things with different values of it, the less first."""
    keys = [i for i, p in enumerate(ctx.schema.properties) if p.value == kind]
    if not keys:
        return None
    key = pick(rng, keys)
    members = ctx.of_type[ctx.schema.type_index(ctx.prop(key).source)]
    if not members:
        return None
    a, b = (keyed_path(ctx, pick(rng, members), None, key) for _ in range(2))
    if a is None or b is None or a.start == b.start or a.end == b.end:
        return None
    return (key, a, b) if a.end < b.end else (key, b, a)


def _days(ctx: Context, rng: np.random.Generator) -> Draft | None:
    made = _pair(ctx, rng, "date")
    if made is None:
        return None
    _, a, b = made
    sketch = Sketch(ctx)
    nodes = sketch.path(a), sketch.path(b)
    return sketch.finish(
        "computed", shape="days", answers=amount_answers(b.end - a.end, "days"), hops=1,
        branches=2, operation=f"days:{nodes[0]},{nodes[1]}",
        render=lambda voice: between(voice, DAYS_APART, a, b),
    )  # fmt: skip


def _percent(ctx: Context, rng: np.random.Generator) -> Draft | None:
    made = _pair(ctx, rng, "count")
    if made is None:
        return None
    _, a, b = made
    share = rounded(Fraction(100 * a.end, b.end))
    if share is None or not 2 <= share <= 98:
        return None
    sketch = Sketch(ctx)
    nodes = sketch.path(a), sketch.path(b)
    forms = amount_answers(share, "%")
    return sketch.finish(
        "computed", shape="percent", answers=(*forms, f"{share}%", f"{share} percent"), hops=1,
        branches=2, operation=f"percent:{nodes[0]},{nodes[1]}",
        render=lambda voice: between(voice, PERCENT, a, b),
    )  # fmt: skip


def _mean(ctx: Context, rng: np.random.Generator) -> Draft | None:
    keys = [i for i, p in enumerate(ctx.schema.properties) if p.value == "count"]
    if not keys:
        return None
    key = pick(rng, keys)
    group = random_group(ctx, rng, LEAST, MOST, key=key)
    if group is None:
        return None
    facts = [ctx.lookup.objects(member, key) for member in group.members]
    if any(len(row) != 1 or not ctx.stated(row[0].id) for row in facts):
        return None
    values = [row[0].object for row in facts]
    mean = rounded(Fraction(sum(values), len(values)))
    if mean is None or mean in values:
        return None
    sketch = Sketch(ctx)
    near, member = sketch.entity(group.anchor, given=True), sketch.entity(group.members[0])
    value = sketch.value(key, values[0])
    sketch.group(group, near, member)
    for (fact,) in facts:
        sketch.edge(member, forward(fact), value, ctx.names.title(fact.subject))

    def render(voice: Voice) -> str:
        text = voice.pick(MEAN).replace("{l}", ctx.label(key))
        return capitalised(text.replace("{g}", describe_group(ctx, voice, group)))

    return sketch.finish(
        "computed", shape="mean", answers=amount_answers(mean, ctx.prop(key).unit), hops=2,
        branches=len(values), operation=f"mean:{member}={value}", render=render,
    )  # fmt: skip


@operation("days")
def _days_apart(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    return [str(abs(a - b)) for a, b in rows]


@operation("percent")
def _share(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    return [str(rounded(Fraction(100 * a, b))) for a, b in rows if b]


@operation("mean")
def _average(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    return [str(rounded(Fraction(sum(v for _, v in rows), len(rows))))] if rows else []
