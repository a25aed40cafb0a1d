"""The column beside every search score: how many of the questions the agent answers without tools.

A score of a search agent says little without it: what a model knows by heart, no search has found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from ..envs.search import SearchEnv
from ..errors import EvaluationError, unknown
from ..plugins import is_shipped
from ..types import Agent
from .decisions import Confusion, knowledge_boundary, solvable
from .metrics import Row
from .result import EvalResult

Mode = Literal["auto", "both", "only", "none"]
COLUMNS = ("em", "f1", "cover_em", "judge")


def plays(mode: str, agent: Agent, env: SearchEnv) -> tuple[bool, bool]:
    """Return a pair (with tools, closed book) that says what is played.

    ``"auto"`` plays both where asking again is free, and only with tools where it may cost money:
    with agents that count their usage (model servers) and with foreign ones, unless they say
    ``free = True``. An environment without tools is closed-book already.

    Raises:
        EvaluationError: an unknown mode.
    """
    if mode not in get_args(Mode):
        raise EvaluationError(unknown("way with the closed book", mode, get_args(Mode)))
    if not (env.rules.tools and env.search_enabled):
        return True, False
    if mode == "auto":
        return True, costs_nothing(agent)
    return mode != "only", mode in ("both", "only")


def costs_nothing(agent: Agent) -> bool:
    """Check whether an agent says that asking it is free, or is one of ours and counts no usage."""
    ours = is_shipped(type(agent).__module__)
    return bool(getattr(agent, "free", ours and not hasattr(agent, "usage")))


def beside(result: EvalResult, closed: EvalResult) -> EvalResult:
    """The result with the closed book's means in it."""
    return replace(result, closed_book={name: closed.means[name] for name in COLUMNS})


def boundary(opened: Sequence[Row], closed: Sequence[Row]) -> Confusion | None:
    """Return the confusion of not searching against knowing the answer, over answerable questions
    (``decisions.knowledge_boundary``); None if the agent answers none of them by heart, so that
    there is no boundary.
    """
    known = solvable([row for row in closed if not row.should_abstain])
    if not any(known.values()):
        return None
    return knowledge_boundary([row for row in opened if not row.should_abstain], known)
