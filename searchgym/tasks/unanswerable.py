"""``unanswerable``: the world does not hold what is asked; the only right answer is to abstain.

Worded exactly like answerable questions. Evidence are the pages on which the answer would stand.
"""

from __future__ import annotations

import numpy as np

from ..types import ABSTAIN
from .context import Context, pick
from .draft import Draft, Sketch, family
from .paths import Path, PathStep
from .wording import Voice


@family(same_answer=1.0)
def propose(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Propose tasks: of five, three ask for a missing object, one for a missing subject ("the film
    directed by" someone who directed none), one for something missing after a true first hop."""
    kind = turn % 5
    start = ctx.any_start(rng)
    if start is None:
        return None
    path: Path | None = Path(start)
    if kind == 4:
        path = ctx.walk(rng, start, 1, end=True)
    if path is None:
        return None
    missing = _missing(ctx, path.end, inverse=kind == 3)
    if not missing:
        return None
    return _draft(ctx, path, pick(rng, missing), inverse=kind == 3)


def _missing(ctx: Context, entity: int, *, inverse: bool) -> list[int]:
    """Properties an entity of this type could have and this one has not."""
    kind = ctx.schema.types[int(ctx.world.type_of[entity])].name
    have = ctx.lookup.into(entity) if inverse else ctx.lookup.out(entity)
    return [
        i
        for i, p in enumerate(ctx.schema.properties)
        if (p.target if inverse else p.source) == kind
        and i not in have
        and (not inverse or (ctx.invertible[i] and not p.symmetric))
        and len(ctx.lookup.facts_with(i))
    ]


def _draft(ctx: Context, path: Path, prop: int, *, inverse: bool) -> Draft | None:
    sketch = Sketch(ctx)
    here = sketch.path(path)
    if not sketch.hidden:
        return None
    end = sketch.unknown(prop, inverse)
    asked = PathStep(prop, inverse, -1, -1)
    sketch.absent(here, prop, inverse, end)
    sketch.look_at(path.end)
    whole = path.then(asked)

    def render(voice: Voice) -> str:
        return voice.ask(whole)

    return sketch.finish(
        "unanswerable", shape=f"missing-{'subject' if inverse else 'object'}-{len(whole.steps)}",
        answers=(ABSTAIN,), answer=end, hops=len(whole.steps), render=render, should_abstain=True,
    )  # fmt: skip
