"""``comparison``: which of two is older, bigger or first, or are two things alike; ``superlative``:
which member of a group.

Of five comparisons three have two named things, one compares them by something they lead to ("which
film has the older director"), one asks yes or no. The winner is mentioned first in half of them,
and half the yes/no questions are true, so that no constant answer pays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from ..worlds.schema import Phrases, Property
from .context import Context, Path, forward, pick
from .draft import Draft, Rows, Sketch, family, operation
from .groups import describe_group, random_group
from .wording import PEOPLE, Voice, capitalised

_CHOICE = Phrases(
    (
        "Which {n} {is}, {a} or {b}?",
        "Which {n} {is}: {a} or {b}?",
        "Between {a} and {b}, which {n} {is}?",
        "Of {a} and {b}, which {n} {is}?",
        "{a} or {b}: which {n} {is}?",
        "Comparing {a} with {b}, which {n} {is}?",
        "Take {a} and {b}. Which {n} {is}?",
        "Tell me which {n} {is}: {a} or {b}.",
        "Out of {a} and {b}, which {n} {is}?",
        "Given {a} and {b}, which {n} {is}?",
        "I would like to know which {n} {is}, {a} or {b}.",
        "If you set {a} beside {b}, which {n} {is}?",
    ),
    (
        "Tell me which {n} {is}: is it {a} or {b}?",
        "Considering {a} and {b}, say which {n} {is}.",
        "Set {a} beside {b}: which {n} {is}?",
    ),
)
_SAME = Phrases(
    (
        "Is {x} the same as {y}?",
        "Are {x} and {y} the same?",
        "Is {y} also {x}?",
        "Is {x} identical to {y}?",
        "Do {x} and {y} coincide?",
        "Are {x} and {y} one and the same?",
        "Is it true that {x} is also {y}?",
        "Is {x} one and the same as {y}?",
        "Tell me, yes or no: is {x} the same as {y}?",
        "Does it hold that {x} and {y} are the same?",
    ),
    (
        "Does {x} match {y}?",
        "Is it correct that {x} and {y} are one and the same?",
        "Are {x} and {y} equal?",
    ),
)
_SAME_LABEL = Phrases(
    (
        "Do {a} and {b} have the same {l}?",
        "Do {a} and {b} share the same {l}?",
        "Is the {l} of {a} the same as that of {b}?",
        "Are {a} and {b} alike in their {l}?",
        "Have {a} and {b} got the same {l}?",
        "Is it true that {a} and {b} have the same {l}?",
        "Does {a} have the same {l} as {b}?",
        "Does the {l} of {a} match that of {b}?",
        "Is the {l} the same for {a} and {b}?",
        "As far as the {l} is concerned, are {a} and {b} the same?",
        "Would you give the same answer for the {l} of {a} and the {l} of {b}?",
    ),
    (
        "Is there one {l} that {a} and {b} have in common?",
        "Do {a} and {b} match in their {l}?",
        "Is the {l} that {a} has also that of {b}?",
    ),
)
_LABEL = re.compile(r"^the ([\w' -]+) of \{s\}$")
_CLAUSE = re.compile(r" (who|that|at|on|named|chosen|elected|spanned|in charge)\b")
_VERBS = (
    "is",
    "was",
    "were",
    "are",
    "has",
    "had",
    "came",
    "covers",
    "lies",
    "holds",
    "opened",
    "earned",
)


@family(same_answer=0.1)
def comparison(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A comparison; the kind and the winner's place follow from ``turn``."""
    kind = turn % 5
    if kind == 4:
        return _alike(ctx, rng, same=turn // 5 % 2 == 0)
    return _choice(ctx, rng, first=turn // 5 % 2 == 0, bridged=kind == 3)


def labels(prop: Property, label: str) -> Phrases:
    """Bare labels ("director") of the phrases that read "the director of {s}"; a side that has
    none gets the property's name without its type."""

    def bare(side: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(m.group(1) for m in map(_LABEL.match, side) if m) or (label,)

    return Phrases(bare(prop.noun.train), bare(prop.noun.heldout))


def plain(bare: Phrases, label: str) -> Phrases:
    """Leave out labels that hold a clause ("person who was the director"): an adjective before
    one, or a second clause after it, cannot be read at once."""

    def short(side: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(one for one in side if not _CLAUSE.search(one)) or (label,)

    return Phrases(short(bare.train), short(bare.heldout))


def is_phrase(wording: str) -> str:
    """ "older" -> "is older"; wording that begins with a verb stays as it is."""
    return wording if wording.split()[0] in _VERBS else f"is {wording}"


def comparable(ctx: Context) -> list[int]:
    """Attributes with comparative wording for at least one direction."""
    attributes: list[int] | None = ctx.memo.get("comparable")
    if attributes is None:
        attributes = ctx.memo["comparable"] = [
            i
            for i, p in enumerate(ctx.schema.properties)
            if not p.is_relation and (p.more or p.less)
        ]
    return attributes


def _choice(ctx: Context, rng: np.random.Generator, *, first: bool, bridged: bool) -> Draft | None:
    keys = comparable(ctx)
    if not keys:
        return None
    key = pick(rng, keys)
    about = ctx.prop(key)
    via = None
    if bridged:
        bridges = ctx.memo.get(("bridges", about.source))
        if bridges is None:
            bridges = ctx.memo["bridges", about.source] = [
                i
                for i, p in enumerate(ctx.schema.properties)
                if p.target == about.source and p.functional
            ]
        if not bridges:
            return None
        via = pick(rng, bridges)
    source = ctx.schema.type_index(about.source if via is None else ctx.prop(via).source)
    least = bool(about.less) and (not about.more or rng.random() < 0.5)
    if not ctx.of_type[source]:
        return None
    a, b = (keyed_path(ctx, pick(rng, ctx.of_type[source]), via, key) for _ in range(2))
    if a is None or b is None or a.start == b.start or a.end == b.end:
        return None
    if ctx.names.name(a.start).lower() == ctx.names.name(b.start).lower():
        return None  # told apart in the question by their titles, but not in an answer
    if via is not None and a.steps[0].value == b.steps[0].value:
        return None
    if ((a.end < b.end) == least) != first:
        a, b = b, a
    winner = a.start if first else b.start
    sketch = Sketch(ctx)
    ends = [(sketch.path(p), p) for p in (a, b)]
    if not sketch.hidden:
        return None
    choices = ",".join(f"{sketch.entity(p.start, given=True)}={end}" for end, p in ends)
    words = (about.less if least else about.more).split("|")[0]
    noun = ctx.schema.types[source].noun
    adjective = is_phrase(words) != words
    who = "who" if ctx.noun(a.entities[-1]) in PEOPLE else "that"

    def render(voice: Voice) -> str:
        is_what = is_phrase(words)
        if via is not None:
            label = voice.pick(plain(labels(ctx.prop(via), ctx.label(via)), ctx.label(via)))
            is_what = (
                f"has the {words} {label}" if adjective else f"has the {label} {who} {is_what}"
            )
        text = voice.pick(_CHOICE).replace("{is}", is_what).replace("{n}", noun)
        text = text.replace("{a}", voice.named(a.start)).replace("{b}", voice.named(b.start))
        return capitalised(text)

    return sketch.finish(
        "comparison", shape="a-or-b" if via is None else "bridged-a-or-b",
        answers=ctx.names.entity_answers(winner), hops=len(a.steps), branches=2,
        operation=f"{'argmin' if least else 'argmax'}:{choices}", render=render,
    )  # fmt: skip


def keyed_path(ctx: Context, entity: int, via: int | None, key: int) -> Path | None:
    """The path from a nameable entity to its value of ``key``, if definite and stated."""
    if ctx.names.given(entity) is None:
        return None
    path = Path(entity)
    for prop in (key,) if via is None else (via, key):
        facts = ctx.lookup.objects(path.end, prop)
        step = forward(facts[0]) if len(facts) == 1 else None
        if step is None or not ctx.stated(step.fact) or not ctx.usable_as_value(step):
            return None
        path = path.then(step)
    return path


def _alike(ctx: Context, rng: np.random.Generator, *, same: bool) -> Draft | None:
    kinds = [i for i, p in enumerate(ctx.schema.properties) if _alike_property(ctx, i)]
    if not kinds:
        return None
    prop = pick(rng, kinds)
    fact = ctx.any_fact(rng, prop)
    if fact is None:
        return None
    mates = [f for f in ctx.lookup.subjects(prop, fact.object) if f.subject != fact.subject]
    if not mates:  # asked of true and of false questions alike: the first thing must not tell
        return None
    other = pick(rng, mates) if same else ctx.any_fact(rng, prop)
    if other is None or (other.object == fact.object) != same or other.subject == fact.subject:
        return None
    a, b = (keyed_path(ctx, f.subject, None, prop) for f in (fact, other))
    if a is None or b is None:
        return None
    sketch = Sketch(ctx)
    nodes = sketch.path(a), sketch.path(b)
    about = ctx.prop(prop)
    bare = labels(about, ctx.label(prop))
    bare = plain(bare, ctx.label(prop)) if ctx.schema.prose else bare

    def render(voice: Voice) -> str:
        if voice.coin():
            text = voice.pick(_SAME_LABEL).replace("{l}", voice.pick(bare))
            text = text.replace("{a}", voice.named(a.start)).replace("{b}", voice.named(b.start))
        else:
            text = (
                voice.pick(_SAME)
                .replace("{x}", voice.describe(a, last=True))
                .replace("{y}", voice.describe(b, last=True))
            )
        return capitalised(text)

    return sketch.finish(
        "comparison", shape="yes-no", answers=("yes",) if same else ("no",), hops=1, branches=2,
        operation=f"equal:{nodes[0]},{nodes[1]}", render=render,
    )  # fmt: skip


def _alike_property(ctx: Context, index: int) -> bool:
    """Properties many things share: categories and single-valued relations many subjects have."""
    prop = ctx.prop(index)
    if prop.is_relation:
        return prop.cardinality == "n-1" and not prop.acyclic
    return prop.value == "category"


_WHICH = Phrases(
    (
        "Which of the {g} {is}?",
        "Of the {g}, which one {is}?",
        "Among the {g}, which {is}?",
        "Out of all the {g}, which one {is}?",
        "Take the {g}. Which of them {is}?",
        "Which one of the {g} {is}?",
        "Tell me which of the {g} {is}.",
        "If you compare the {g}, which one {is}?",
    ),
    (
        "Looking at the {g}, which one {is}?",
        "There are several {g}; which one {is}?",
        "Considering the {g}, say which {is}.",
    ),
)
MOST_COMPARED = 4


@family()
def superlative(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Two to four members, each with one stated value, and no tie for the extreme."""
    keys = comparable(ctx)
    if not keys:
        return None
    key = pick(rng, keys)
    about = ctx.prop(key)
    group = random_group(ctx, rng, 2, MOST_COMPARED, key=key)
    if group is None:
        return None
    values = []
    for one in group.members:
        facts = ctx.lookup.objects(one, key)
        if len(facts) != 1 or not ctx.stated(facts[0].id):
            return None
        values.append(facts[0])
    least = bool(about.less) and (not about.more or rng.random() < 0.5)
    best = (min if least else max)(f.object for f in values)
    winners = [f.subject for f in values if f.object == best]
    if len(winners) != 1:
        return None
    sketch = Sketch(ctx)
    anchor = sketch.entity(group.anchor, given=True)
    member = sketch.entity(winners[0])
    value = sketch.value(key, best)
    sketch.group(group, anchor, member)
    for fact in values:
        step = forward(fact)
        sketch.edge(member, step, value, sketch.query(fact.subject, step))
    words = (about.less if least else about.more).split("|")[-1]

    def render(voice: Voice) -> str:
        text = voice.pick(_WHICH).replace("{is}", is_phrase(as_superlative(words)))
        return capitalised(text.replace("{g}", describe_group(ctx, voice, group)))

    return sketch.finish(
        "superlative", shape="first" if least else "last",
        answers=ctx.names.entity_answers(winners[0]), hops=2, branches=len(values),
        operation=f"{'argmin' if least else 'argmax'}:{member}={value}", render=render,
    )  # fmt: skip


def as_superlative(words: str) -> str:
    """ "oldest" -> "the oldest"; verb phrases and wording with an article stay."""
    if words.startswith("the ") or is_phrase(words) == words or words in ("first", "last"):
        return words
    return f"the {words}"


@operation("argmin")
def _least(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    keyed = {(row[at + 1], at, row[at]) for row in rows for at in range(0, len(row), 2)}
    least = min((key for key, _, _ in keyed), default=0)
    return [text(at, choice) for key, at, choice in keyed if key == least]


@operation("argmax")
def _greatest(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    turned = {tuple(-v if at % 2 else v for at, v in enumerate(row)) for row in rows}
    return _least(turned, text)


@operation("equal")
def _equal(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    return ["yes" if len(set(row)) == 1 else "no" for row in rows]


@operation("between")
def _between(rows: Rows, text: Callable[[int, int], str]) -> Iterable[str]:
    """Choices, the first of each row, whose values after it lie between the two ends that follow
    each."""
    return {
        text(0, row[0])
        for row in rows
        if all(low <= value <= high for value, low, high in zip(*[iter(row[1:])] * 3, strict=True))
    }
