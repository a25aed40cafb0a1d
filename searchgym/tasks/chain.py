"""``chain``: two to six facts, each found from the one before; intermediate names stay hidden."""

from __future__ import annotations

import numpy as np

from ..errors import TaskError
from .context import Context
from .draft import Draft
from .family import family
from .simple import ends, lookup

HOPS = (2, 2, 3, 2, 4, 2, 3, 2, 3, 2, 4, 2, 3, 2, 5, 2, 3, 2, 4, 6)
"""Hops of twenty tasks in a row: half of two, a quarter of three, fewer of the longer ones."""


@family()
def propose(
    ctx: Context, rng: np.random.Generator, turn: int, hops: int | None = None
) -> Draft | None:
    """A random definite path whose end is asked for."""
    length = HOPS[turn % len(HOPS)] if hops is None else hops
    if not 2 <= length <= 6:
        raise TaskError(f"a chain has 2 to 6 hops, got {length}; for one hop use 'simple'")
    start = ctx.any_start(rng)
    path = None if start is None else ctx.walk(rng, start, length)
    if path is None or not ctx.hidden((path.start,), ends(ctx, path)):
        return None
    draft = lookup(ctx, "chain", path, shape=f"chain-{length}")
    # Two hops read off one page would be found by a single search.
    return draft if draft.difficulty.dispersion >= min(length, 1 + length // 2) else None
