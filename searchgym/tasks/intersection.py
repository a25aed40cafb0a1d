"""``intersection``: several constraints, each satisfied by many things, jointly by one.

Every constraint is necessary: without it more than one candidate is left (InfoSeek's necessity,
arXiv 2509.00375; BMGQ's weak clues, arXiv 2510.24151). Of six tasks one
names the object of a constraint only by description, which adds a hop, and one is a ring (treewidth
2): both constraints start from the same named thing ("the star of F who was born in the city where
the director of F was born").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..text import listed
from ..worlds.schema import Phrases
from .context import Context, Path, PathStep, backward, both_sides, forward, pick
from .draft import Draft, Sketch, family
from .wording import LOOKUP_PERSON, Voice, capitalised, clause, finite, indefinite

_SUBJECT = re.compile(r"(?:that|who) (?!the |[A-Z])")
"""Before a verb: "that was directed by X", not "that X directed"."""
MOST_CONSTRAINTS = 3
WIDEST = 12
"""Largest number of candidates of the narrowest constraint, so that a search can start there."""

_BOTH = Phrases(
    (
        "Which {n} is both {l}?",
        "Name the {n} that is at once {l}.",
        "What is the name of the {n} that is both {l}?",
        "Find the {n} that is {l} at the same time.",
        "There is one {n} that is {l}. Which?",
        "Which {n} is simultaneously {l}?",
        "Which one {n} can be described as {l}?",
        "Identify the {n} that is both {l}.",
        "I am looking for a {n} that is at once {l}. What is the name?",
        "Give the name of the {n} that is at the same time {l}.",
    ),
    (
        "Identify the {n} that is simultaneously {l}.",
        "Which {n} can be described as {l}?",
        "I am looking for the {n} that is {l} all at once. Which one is it?",
    ),
)
_CLAUSES = Phrases(
    (
        "Which is the {n} {l}?",
        "What is the name of the {n} {l}?",
        "Name the {n} {l}.",
        "Can you name the {n} {l}?",
        "Tell me the name of the {n} {l}.",
        "Give the name of the {n} {l}.",
        "I am looking for the {n} {l}. What is the name?",
        "Which one is the {n} {l}?",
        "Do you know the name of the {n} {l}?",
    ),
    (
        "Identify the {n} {l}.",
        "I am looking for the {n} {l}. Which one is it?",
        "What name belongs to the {n} {l}?",
    ),
)


_OF_ONE = re.compile(r"\} \w+s\b")
"""A verb of one thing behind a slot: "where {s} lives"."""


class Constraint(NamedTuple):
    """``step`` leads from ``known`` to the answer; ``candidates`` are all it could lead to."""

    known: int
    step: PathStep
    candidates: frozenset[int]


@family()
def intersection(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """The smallest necessary set of constraints on a random entity, two or three."""
    answer = ctx.any_entity(rng)
    if not ctx.names.clear(answer):
        return None
    choices = constraints(ctx, answer)
    order = rng.permutation(len(choices)).tolist()
    ordered = [choices[i] for i in order]
    shape = "ring" if turn % 6 == 5 else "described" if turn % 6 == 2 else "named"
    made = (_ring if shape == "ring" else _star)(ctx, rng, ordered, answer, shape)
    if made is None:
        return None
    chosen, paths = made
    if any(ctx.names.given(p.start) is None for p in paths):
        return None
    sketch = Sketch(ctx)
    node = sketch.entity(answer)
    # Pages that list the answer among others come first: they tell its name.
    for path in sorted(paths, key=lambda p: (p.steps[-1].inverse, -len(p.steps))):
        query = _query(ctx, chosen, answer) if path.steps[-1].inverse else None
        sketch.path(path, end=node, last_query=query)
    if not sketch.hidden:
        return None
    kind = ctx.schema.types[int(ctx.world.type_of[answer])]

    def render(voice: Voice) -> str:
        parts, clauses, told = [], [], []
        for path in paths:
            step = path.steps[-1]
            phrase = voice.phrase(step, nested=len(path.steps) > 1)
            known = voice.describe(path.prefix)
            parts.append(indefinite(phrase).replace("{o}", known).replace("{s}", known))
            rest = clause(phrase, kind.noun)
            if rest is not None:
                clauses.append(rest.replace("{o}", known).replace("{s}", known))
                told.append((rest, known))
        if ctx.schema.prose and len(clauses) == len(parts) == 2:  # "was founded by both A and B"
            (rest, one), (other, two) = told
            if rest == other and not _OF_ONE.search(rest):
                clauses = [re.sub(r"\{[os]\}", lambda _: f"both {one} and {two}", rest)]
                parts = parts[:1]
        if ctx.schema.prose:
            who = "person" if voice.person(kind.name) else kind.noun
            clauses = [finite(rest, who) for rest in clauses]
        whole = len(clauses) == len(parts)
        real, person = bool(ctx.schema.prose), voice.person(kind.name)
        if whole and real and all(map(_SUBJECT.match, clauses)) and voice.coin():
            asked = listed([c.partition(" ")[2] for c in clauses])
            text = f"{'Who' if person else 'Which {n}'} {asked}?"
        elif whole and real and person:
            text = voice.pick(LOOKUP_PERSON).replace("{d}", f"the {{n}} {listed(clauses)}")
        elif whole:
            text = voice.pick(_CLAUSES).replace("{l}", listed(clauses))
        else:
            text = voice.pick(_BOTH).replace("{l}", listed(parts))
        return capitalised(text.replace("{n}", kind.noun))

    longest = max(len(p.steps) for p in paths)
    return sketch.finish(
        "intersection", shape=shape, answer=node,
        answers=ctx.names.entity_answers(answer), hops=longest, branches=len(chosen),
        render=render,
    )  # fmt: skip


def _query(ctx: Context, chosen: list[Constraint], answer: int) -> str:
    """Return the query that finds the answer's own page: its name where another page lists it, else
    everything that is known of it."""
    if any(not c.step.inverse for c in chosen):
        return ctx.names.title(answer)
    words = [ctx.noun(answer)]
    for c in chosen:
        if c.step.inverse:
            words.append(f"{ctx.label(c.step.property)} {ctx.names.title(c.known)}")
    return " ".join(words)


def constraints(ctx: Context, entity: int) -> tuple[Constraint, ...]:
    """Stated facts about an entity that leave at least two candidates each.

    They are worked out once: in a small world an entity is proposed many times.
    """
    kept = ctx.memo.setdefault("constraints", {})
    if entity not in kept:
        kept[entity] = tuple(_constraints(ctx, entity))
    found: tuple[Constraint, ...] = kept[entity]
    return found


def _constraints(ctx: Context, entity: int) -> Iterator[Constraint]:
    for prop, facts in ctx.lookup.out(entity).items():
        if not ctx.invertible[prop]:
            continue
        for fact in facts:
            others = _candidates(ctx, prop, fact.object, True)
            if len(others) > 1 and ctx.stated(fact.id) and ctx.names.clear(fact.object):
                yield Constraint(fact.object, backward(fact), others)
    for prop, facts in ctx.lookup.into(entity).items():
        if not both_sides(ctx.prop(prop).noun) or ctx.prop(prop).symmetric:
            continue
        for fact in facts:
            others = _candidates(ctx, prop, fact.subject, False)
            if len(others) > 1 and ctx.stated(fact.id) and ctx.names.clear(fact.subject):
                yield Constraint(fact.subject, forward(fact), others)


def _candidates(ctx: Context, prop: int, known: int, inverse: bool) -> frozenset[int]:
    """Entities that a property leads to from ``known``; one set for all that share it."""
    kept = ctx.memo.setdefault("candidates", {})
    if (prop, known, inverse) not in kept:
        facts = ctx.lookup.subjects(prop, known) if inverse else ctx.lookup.objects(known, prop)
        kept[prop, known, inverse] = frozenset(f.subject if inverse else f.object for f in facts)
    found: frozenset[int] = kept[prop, known, inverse]
    return found


def necessary(choices: list[Constraint], answer: int) -> list[Constraint] | None:
    """The first smallest set of constraints that leaves only ``answer`` and of which none can be
    dropped; None if there is none of at most ``MOST_CONSTRAINTS``."""
    for size in range(2, MOST_CONSTRAINTS + 1):
        for chosen in combinations(choices[:8], size):
            if min(len(c.candidates) for c in chosen) > WIDEST:
                continue
            if frozenset.intersection(*(c.candidates for c in chosen)) != {answer}:
                continue
            fewer = combinations([c.candidates for c in chosen], size - 1)
            if all(len(frozenset.intersection(*rest)) > 1 for rest in fewer):
                return list(chosen)
    return None


def _star(
    ctx: Context, rng: np.random.Generator, choices: list[Constraint], answer: int, shape: str
) -> tuple[list[Constraint], list[Path]] | None:
    chosen = necessary(choices, answer)
    if chosen is None:
        return None
    paths = [Path(c.known, (c.step,)) for c in chosen]
    if shape == "described":
        paths = _described(ctx, rng, chosen, answer) or []
    if len({p.start for p in paths} | {answer}) <= len(chosen):
        return None
    return chosen, paths


def _ring(
    ctx: Context, rng: np.random.Generator, choices: list[Constraint], answer: int, shape: str
) -> tuple[list[Constraint], list[Path]] | None:
    """Two constraints, one on something that the other's start leads to by definite steps."""
    for near in choices:
        if near.step.inverse:
            continue  # the page of ``near.known`` must list the answer, so that its name is found
        for far in choices:
            if not far.step.inverse or far.candidates & near.candidates != {answer}:
                continue
            for path in _definite_paths(ctx, near.known, 2):
                if path.end == far.known and answer not in path.entities:
                    return [near, far], [Path(near.known, (near.step,)), path.then(far.step)]
    return None


def _definite_paths(ctx: Context, start: int, most: int) -> list[Path]:
    paths: list[Path] = []
    frontier = [Path(start)]
    for _ in range(most):
        frontier = [
            path.then(step)
            for path in frontier
            for step in ctx.steps(path.end)
            if ctx.leads_on(step) and not step.inverse and step.value not in (*path.entities, start)
        ]
        paths += frontier
    return paths


def _described(
    ctx: Context, rng: np.random.Generator, chosen: list[Constraint], answer: int
) -> list[Path] | None:
    which = int(rng.random() * len(chosen))
    about = chosen[which].known
    taken = {c.known for c in chosen} | {answer}
    options = [
        (step, other)
        for other, step in definite_into(ctx, about)
        if other not in taken and ctx.names.given(other) is not None
    ]
    if not options:
        return None
    step, other = pick(rng, options)
    paths = [Path(c.known, (c.step,)) for c in chosen]
    paths[which] = Path(other, (step, chosen[which].step))
    return paths


def definite_into(ctx: Context, entity: int) -> list[tuple[int, PathStep]]:
    """Definite steps that lead to an entity, with where they start; few are looked at, since a
    country has thousands."""
    ways = []
    for facts in ctx.lookup.into(entity).values():
        for fact in facts[:3]:
            if forward(fact) in ctx.steps(fact.subject):
                ways.append((fact.subject, forward(fact)))
    for prop, facts in ctx.lookup.out(entity).items():
        if ctx.prop(prop).is_relation:
            ways += [(f.object, backward(f)) for f in facts if backward(f) in ctx.steps(f.object)]
    return ways
