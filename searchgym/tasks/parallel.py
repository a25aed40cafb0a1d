"""``parallel``: independent sub-questions, joined; ``difference``: how far two numbers lie apart.

The answer is a list of the parts, however they are set apart (``searchgym.scoring.sets``), in the
order of the question where it asks for one ("respectively"), or a difference in digits, which no
page says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from ..text import listed
from ..worlds.schema import Phrases
from .chains import answers, definite_fact, ends
from .comparison import keyed_path
from .context import Context, Path, amount_answers, joined_answers, number_answers, pick
from .draft import Draft, Rows, Sketch, family, operation
from .wording import Voice, capitalised

_JOIN = Phrases(
    (
        "What are {d}, respectively?",
        "Name each of these: {d}.",
        "Give {d}, in that order.",
        "Which answers fit {d}, in this order?",
        "List {d}.",
        "Tell me {d}.",
        "I need {d}. What are they?",
        "State {d} in turn.",
        "I would like to know {d}, in that order.",
        "Find out each of the following: {d}.",
        "Look up {d}.",
        "Could you give me {d}?",
        "Identify {d}, one after the other.",
    ),
    (
        "In the order given, what are {d}?",
        "Find {d} and list them in this order.",
        "Please answer with {d}, one after the other.",
    ),
)
_ASKED = re.compile(r"^What are (.*?)(, in each case)?\?$")
"""Opening of a question; about a person or a year nobody asks "what" or "who"."""
_IN_ORDER = re.compile(r"respectively|order|in turn|one after the other")
YEARS_APART = Phrases(
    (
        "How many years lie between {x} and {y}?",
        "By how many years do {x} and {y} differ?",
        "What is the difference in years between {x} and {y}?",
        "How many years apart are {x} and {y}?",
        "Count the years between {x} and {y}.",
        "How many years separate {x} and {y}?",
        "What is the gap in years between {x} and {y}?",
        "Work out the difference in years between {x} and {y}.",
        "How far apart, in years, are {x} and {y}?",
        "If you subtract the earlier from the later, how many years are there between {x} and {y}?",
    ),
    (
        "What span of years separates {x} from {y}?",
        "How great is the gap in years between {x} and {y}?",
        "Work out how many years there are between {x} and {y}.",
    ),
)


def between(voice: Voice, bank: Phrases, a: Path, b: Path) -> str:
    """Ask about two paths' ends, the {x} and {y} of a phrase."""
    text = voice.pick(bank)
    return capitalised(text.replace("{x}", voice.describe(a)).replace("{y}", voice.describe(b)))


@family()
def parallel(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Propose tasks: of ten, eight join two answers, one joins three, one takes a difference of
    years."""
    if turn % 10 == 9:
        made = _difference(ctx, rng)
        if made is not None or any(p.value == "year" for p in ctx.schema.properties):
            return made
    parts = 3 if turn % 10 == 8 else 2
    paths = [_branch(ctx, rng, 2 if turn % 4 == 3 and i == 0 else 1) for i in range(parts)]
    known = [p for p in paths if p is not None]
    if len(known) < parts or not _independent(ctx, known):
        return None
    accepted = tuple(answers(ctx, p) for p in known)
    if len({a[0].lower() for a in accepted}) < parts:
        return None
    sketch = Sketch(ctx)
    nodes = [sketch.path(p) for p in known]

    def render(voice: Voice) -> str:
        described = listed([voice.describe(p) for p in known])
        phrase = voice.pick(_JOIN)
        ends = [p.end for p in known if ctx.leads_on(p.steps[-1])]
        kinds = [ctx.schema.types[int(ctx.world.type_of[end])].name for end in ends]
        if ctx.schema.prose and any(map(voice.person, kinds)):
            people = len(kinds) == parts and all(map(voice.person, kinds))
            phrase = _ASKED.sub(r"Who are \1\2?" if people else r"Name \1.", phrase)
        voice.ordered = _IN_ORDER.search(phrase) is not None
        return capitalised(phrase.replace("{d}", described))

    return sketch.finish(
        "parallel", shape=f"join-{parts}", answers=joined_answers(accepted), items=accepted,
        hops=max(len(p.steps) for p in known), branches=parts,
        operation=f"join:{','.join(nodes)}", render=render,
    )  # fmt: skip


def _branch(ctx: Context, rng: np.random.Generator, hops: int) -> Path | None:
    if hops > 1:
        start = ctx.any_start(rng)
        return None if start is None else ctx.walk(rng, start, hops)
    start_step = definite_fact(ctx, rng, inverse=rng.random() < 0.2)
    if start_step is None or ctx.names.given(start_step[0]) is None:
        return None
    return Path(start_step[0], (start_step[1],))


def _independent(ctx: Context, paths: list[Path]) -> bool:
    starts = [p.start for p in paths]
    reached = [e for p in paths for e in ends(ctx, p)]
    return len({*starts, *reached}) == len(starts) + len(reached) and ctx.hidden(starts, reached)


def _difference(ctx: Context, rng: np.random.Generator) -> Draft | None:
    years = [i for i, p in enumerate(ctx.schema.properties) if p.value == "year"]
    paths: list[Path] = []
    for _ in range(2 if years else 0):
        start_step = definite_fact(ctx, rng, inverse=False, among=years)
        if start_step is None or ctx.names.given(start_step[0]) is None:
            return None
        paths.append(Path(start_step[0], (start_step[1],)))
    if len(paths) < 2 or paths[0].start == paths[1].start or paths[0].end == paths[1].end:
        return None
    a, b = paths
    sketch = Sketch(ctx)
    nodes = sketch.path(a), sketch.path(b)

    return sketch.finish(
        "parallel", shape="difference", answers=number_answers(abs(a.end - b.end)), hops=1,
        branches=2, operation=f"difference:{nodes[0]},{nodes[1]}",
        render=lambda voice: between(voice, YEARS_APART, a, b),
    )  # fmt: skip


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
def difference(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
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


@operation("difference")
def _apart(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    return [str(abs(a - b)) for a, b in rows]
