"""``simple``: one fact. "Who directed S?", "Which film was directed by O?"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import TaskError
from .context import Context, pick
from .draft import Draft, Sketch, family
from .paths import Path, PathStep, backward, forward


@family()
def propose(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A question for the end of one definite step; one in four goes from object to subject."""
    step_from = definite_fact(ctx, rng, inverse=turn % 4 == 3)
    if step_from is None:
        return None
    start, step = step_from
    path = Path(start, (step,))
    if ctx.names.given(start) is None or not ctx.hidden(path.entities, ends(ctx, path)):
        return None
    return lookup(ctx, "simple", path, shape="inverse" if step.inverse else "forward")


def definite_fact(
    ctx: Context,
    rng: np.random.Generator,
    *,
    inverse: bool,
    among: Sequence[int] | None = None,
) -> tuple[int, PathStep] | None:
    """A random definite step and where it starts: its property first (of ``among``, else of the
    whole schema), so that rare ones occur."""
    prop = pick(rng, range(len(ctx.schema.properties)) if among is None else among)
    if inverse and (not ctx.invertible[prop] or ctx.prop(prop).symmetric):
        return None
    fact = ctx.any_fact(rng, prop)
    if fact is None:
        return None
    others = (
        ctx.lookup.subjects(prop, fact.object)
        if inverse
        else ctx.lookup.objects(fact.subject, prop)
    )
    step = backward(fact) if inverse else forward(fact)
    if len(others) != 1 or not ctx.stated(fact.id) or not ctx.usable_as_value(step):
        return None
    return (fact.object if inverse else fact.subject), step


def ends(ctx: Context, path: Path) -> tuple[int, ...]:
    """Entities a question must not name: everything a path reaches."""
    return tuple(s.value for s in path.steps if ctx.leads_on(s))


def answers(ctx: Context, path: Path) -> tuple[str, ...]:
    """Accepted answers for a path's end."""
    step = path.steps[-1]
    if step.inverse:
        return ctx.names.entity_answers(step.value)
    return ctx.names.value_answers(step.property, step.value)


def lookup(ctx: Context, family: str, path: Path, *, shape: str) -> Draft:
    """The draft that asks for a path's end."""
    sketch = Sketch(ctx)
    end = sketch.path(path)
    return sketch.finish(
        family, shape=shape, answers=answers(ctx, path), answer=end, hops=len(path.steps),
        render=lambda voice: voice.ask(path),
    )  # fmt: skip


HOPS = (2, 2, 3, 2, 4, 2, 3, 2, 3, 2, 4, 2, 3, 2, 5, 2, 3, 2, 4, 6)
"""Hops of twenty tasks in a row: half of two, a quarter of three, fewer of the longer ones."""
MOST_HOPS = 20


@family()
def chain(
    ctx: Context, rng: np.random.Generator, turn: int, hops: int | None = None
) -> Draft | None:
    """A random definite path whose end is asked for."""
    length = HOPS[turn % len(HOPS)] if hops is None else hops
    if not 2 <= length <= MOST_HOPS:
        raise TaskError(
            f"a chain has 2 to {MOST_HOPS} hops, got {length}; for one hop use 'simple'"
        )
    start = ctx.any_start(rng)
    path = None if start is None else ctx.walk(rng, start, length)
    if path is None or not ctx.hidden((path.start,), ends(ctx, path)):
        return None
    draft = lookup(ctx, "chain", path, shape=f"chain-{length}")
    # Two hops read off one page would be found by a single search.
    return draft if draft.difficulty.dispersion >= min(length, 1 + length // 2) else None
