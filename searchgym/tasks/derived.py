"""Families asked of relations that no page states (``derived-chain``, ``derived-count``, …).

Any family asked over the facts that the schema's rules imply as well; of its tasks, those are kept
that use an implied one. The evidence are the pages of the stated facts it follows from, and the
hops count those (PhantomWiki, arXiv 2502.20377, asks such questions with the same relations).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import TaskError
from ..types import Task
from .context import Context
from .draft import Draft, Family, Render

PREFIX = "derived-"
STATED_ONLY = ("masked", "difference")
"""Families that need a sentence or a number, which a rule does not give."""
TRIES = 20
"""Proposals of the family that are looked at for one of ours."""


def derived(of: Family) -> Family:
    """The family of tasks that another one makes and that use a relation given by a rule.

    Raises:
        TaskError: a family that cannot use one.
    """
    if of.name in STATED_ONLY:
        raise TaskError(
            f"{PREFIX}{of.name}: {of.name!r} asks for what a page states, and a relation given by "
            "a rule stands on none; take another family"
        )
    return replace(of, name=PREFIX + of.name, propose=_Derived(of))


class _Derived:
    def __init__(self, of: Family) -> None:
        self._of = of

    def __call__(self, ctx: Context, rng: np.random.Generator, turn: int, /) -> Draft | Task | None:
        """The family's next draft that uses an implied relation.

        Raises:
            TaskError: the world's schema has no rules.
        """
        rules = ctx.memo.get("rules")
        if rules is None:
            rules = ctx.memo["rules"] = {rule.name for rule in ctx.world.schema.rules}
            if not rules:
                raise TaskError(
                    f"the schema {ctx.world.schema.name!r} has no rules, so nothing follows from "
                    f"what its pages state; add [rules.…] or ask {self._of.name!r}"
                )
        for more in range(TRIES):  # the next turn, where this one's shape cannot use a rule
            draft = self._of.propose(ctx.derived, rng, turn + more)
            if isinstance(draft, Draft) and any(e.property in rules for e in draft.graph.edges):
                return replace(draft, family=PREFIX + self._of.name, render=_said(draft, ctx))
        return None


def _said(draft: Draft, ctx: Context) -> Render:
    return lambda voice: draft.render(voice.about(ctx.derived))
