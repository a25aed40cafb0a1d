"""The task families by name. A family proposes drafts; ``tasks.build`` keeps the good ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..errors import TaskError, unknown
from . import (
    chain,
    comparison,
    count,
    intersection,
    parallel,
    simple,
    superlative,
    unanswerable,
)
from .context import Context
from .draft import Draft

Propose = Callable[[Context, np.random.Generator, int], Draft | None]


@dataclass(frozen=True, slots=True)
class Family:
    """``propose(ctx, rng, turn)`` returns a draft, or None to be asked again; ``turn`` counts
    upwards and steers what should alternate (hops, who wins a comparison)."""

    name: str
    propose: Propose
    same_answer: float = 0.04
    """Largest share of a family's tasks that may have one and the same answer."""


FAMILIES: dict[str, Family] = {
    f.name: f
    for f in (
        Family("simple", simple.propose),
        Family("chain", chain.propose),
        Family("comparison", comparison.propose, same_answer=0.1),
        Family("intersection", intersection.propose),
        Family("count", count.propose, same_answer=0.3),
        Family("parallel", parallel.propose),
        Family("superlative", superlative.propose),
        Family("unanswerable", unanswerable.propose, same_answer=1.0),
    )
}

_CHAIN = re.compile(r"^chain-([2-6])$")


def family(name: str) -> Family:
    """A family by name; ``chain-2`` … ``chain-6`` are chains of that many hops. Raises
    ``TaskError`` for an unknown name."""
    found = _CHAIN.match(name)
    if found:
        return Family(name, partial(chain.propose, hops=int(found.group(1))))
    if name not in FAMILIES:
        raise TaskError(unknown("task family", name, [*FAMILIES, "chain-2", "chain-6"]))
    return FAMILIES[name]
