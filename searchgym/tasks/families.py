"""Task families by name, path or object, from a table such as ``tasks={"simple": 200}``.

``derived-NAME`` is a family asked over the facts that the schema's rules imply as well; of its
tasks, those are kept that use an implied one. The evidence are the pages of the stated facts it
follows from, and the hops count those (PhantomWiki, arXiv 2502.20377, asks such questions).
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import TaskError, unknown
from ..objects import from_spec
from ..plugins import Registry
from ..types import Task
from .context import Context
from .draft import SAME_ANSWER, Draft, Family, Render

PREFIX = "derived-"
STATED_ONLY = ("masked", "difference", "report", "computed", "sql")
"""Families that need a sentence, a page, a table or a number, which a rule does not give."""
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

    def propose(ctx: Context, rng: np.random.Generator, turn: int, /) -> Draft | Task | None:
        rules = ctx.memo.get("rules")
        if rules is None:
            rules = ctx.memo["rules"] = {rule.name for rule in ctx.world.schema.rules}
        if not rules:
            raise TaskError(
                f"the schema {ctx.world.schema.name!r} has no rules, so nothing follows from "
                f"what its pages state; add [rules.…] or ask {of.name!r}"
            )
        for more in range(TRIES):  # the next turn, where this one's shape cannot use a rule
            draft = of.propose(ctx.derived, rng, turn + more)
            if isinstance(draft, Draft) and any(e.property in rules for e in draft.graph.edges):
                render = _over(ctx.derived, draft.render)
                return replace(draft, family=PREFIX + of.name, render=render)
        return None

    return replace(of, name=PREFIX + of.name, propose=propose)


def _over(ctx: Context, render: Render) -> Render:
    return lambda voice: render(voice.about(ctx))


FAMILIES = Registry(
    "task family",
    {
        name: f"searchgym.tasks.{place}"
        for name, place in {
            "simple": "chains:simple", "chain": "chains:chain",
            "comparison": "comparison:comparison", "intersection": "intersection:intersection",
            "count": "groups:count", "parallel": "parallel:parallel",
            "superlative": "comparison:superlative", "unanswerable": "chains:unanswerable",
            "difference": "parallel:difference", "aggregate": "groups:aggregate",
            "masked": "chains:masked", "follow_up": "chains:follow_up", "set": "groups:member_set",
            "report": "reports:report",
        }.items()
    },
    package="searchgym.tasks",
)  # fmt: skip
"""Name → import path. Others are named by their own path, or entered here."""
AT_MOST = "at_most"
"""Key of a table of counts: true where a world that holds fewer tasks is no error."""
_CHAIN = re.compile(r"^chain-([2-9]|1\d|20)$")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")


def make_family(spec: Any, name: str = "") -> Family:
    """Make a task family.

    Args:
        spec: A name of :data:`FAMILIES`, ``chain-2`` to ``chain-20`` (chains of that many hops),
            either after ``derived-`` (asked of relations that no page states), an import path,
            ``{"use": either, **options}``, a function or a class with ``propose``
            (:class:`searchgym.tasks.draft.Propose`), or an object.
        name: What tasks call it; by default what it calls itself.

    Raises:
        TaskError: an unknown name, or what is no family.
        CardError: a path that cannot be loaded, or an option it does not take.
    """
    if isinstance(spec, Family):
        return spec
    if isinstance(spec, str) and spec.startswith(PREFIX):
        asked = derived(make_family(spec.removeprefix(PREFIX)))
        return replace(asked, name=name) if name else asked
    if isinstance(spec, str) and (chain := _CHAIN.match(spec)):
        spec, name = {"use": "chain", "hops": int(chain[1])}, name or spec
    use = spec.get("use") if isinstance(spec, Mapping) else spec
    if isinstance(use, str) and use not in FAMILIES and ":" not in use:
        raise TaskError(unknown("task family", use, [*FAMILIES, "chain-2", "chain-20"]))
    made = from_spec("task family", spec, FAMILIES, accepts=("propose",), functions=True)
    if inspect.isclass(made):
        made = made()
    propose = getattr(made, "propose", made)
    if not callable(propose):
        raise TaskError(f"{made!r:.80} is no task family: a function of (ctx, rng, turn)")
    marked = made.func if isinstance(made, functools.partial) else made
    if not name and isinstance(use, str) and use in FAMILIES:
        name = use
    name = name or getattr(marked, "name", "") or getattr(marked, "__name__", type(marked).__name__)
    if not _NAME.fullmatch(name):
        raise TaskError(f"a family's name is letters, digits, '_', '.' and '-', got {name!r}")
    return Family(
        name,
        propose,
        float(getattr(marked, "same_answer", SAME_ANSWER)),
        bool(getattr(marked, "proofs", False)),
        getattr(made, "ask", None),
    )


def wanted_families(
    counts: Mapping[Any, Any], only: Collection[str] | None = None
) -> list[tuple[Family, int]]:
    """The families of a table and how many tasks of each.

    Args:
        counts: Family (anything :func:`make_family` reads; by convention a text) → number, or →
            ``{"count": number, "use": family, **options}`` under a name of one's own.
        only: Names of the families to keep; by default all.

    Raises:
        TaskError: a number is none or negative, or two families bear one name.
    """
    wanted: dict[str, tuple[Family, int]] = {}
    for key, value in counts.items():
        if key == AT_MOST:
            if not isinstance(value, bool):
                raise TaskError(f"{AT_MOST} is true or false, got {value!r}")
            continue
        if isinstance(value, Mapping):
            options = dict(value)
            number, use = options.pop("count", None), options.pop("use", key)
            if options and not isinstance(use, str):
                raise TaskError(f"counts[{key!r}]: options go with a name or an import path")
            made = make_family({"use": use, **options} if options else use, str(key))
        else:
            number, made = value, make_family(key)
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not 0 <= number <= sys.maxsize
        ):
            raise TaskError(f"counts[{key!r}] must be 0 or more, got {number!r:.80}")
        if made.name in wanted:
            raise TaskError(f"two task families are called {made.name!r}; name one anew")
        wanted[made.name] = made, number
    return [w for w in wanted.values() if only is None or w[0].name in only]


def unproved(counts: Mapping[Any, Any]) -> frozenset[str]:
    """Names of the families of a table that do not promise proofs."""
    return frozenset(family.name for family, _ in wanted_families(counts) if not family.proofs)
