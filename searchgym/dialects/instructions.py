"""Task instructions for tag dialects, composed from what the episode allows."""

from __future__ import annotations

from ..types import ABSTAIN, Access, Call, Delegate, Judge, ToolSpec
from .base import View
from .calls import call_specs, listed

NO_SEARCH = "Searching is not possible; answer from what you know."


def limits(view: View, *, parallel: bool) -> list[str]:
    """Sentences on budgets, parallel queries and refusing, the same for every dialect."""
    parts = []
    if parallel and view.max_parallel > 1:
        parts.append(f"One turn may hold up to {view.max_parallel} queries.")
    if view.queries_left is not None and view.queries_left > 0:
        parts.append(f"You have {view.queries_left} queries in all.")
    parts.append(f"You have {view.turns_left} turns, the answer included.")
    if view.may_abstain:
        parts.append(f"If no answer can be established, answer: {ABSTAIN}.")
    return parts


def callable_tools(view: View, renders: frozenset[type]) -> list[ToolSpec]:
    """The tools other than search and access that may be called now, in a dialect that can."""
    if Call not in renders or view.role == "planner" or view.queries_left == 0:
        return []
    return call_specs(view.tools)


def opening(view: View) -> str:
    """The first sentence, which depends on the role."""
    if view.prompt:
        return view.prompt
    if view.role == "planner":
        return "Answer the question by splitting it into sub-tasks for assistants who can search."
    if view.role != "agent":
        return "Carry out the task below and report what you found as your answer."
    return "Answer the question as briefly as you can, a name or a few words."


def handed(view: View) -> str:
    """How a sub-task is written: with the role that is to do it, where there are several."""
    named = f" (NAME: {', '.join(view.targets)})" if view.targets else ""
    return f"{'NAME: ' if view.targets else ''}what to find out{named}"


def tag_instructions(view: View, renders: frozenset[type], *, parallel: bool) -> str:
    """Instructions in terms of ``<search>``-like tags; ends with a blank line."""
    parts = [opening(view), "Think between <think> and </think> whenever you learn something new."]
    parts += tag_tools(view, renders, parallel=parallel)
    parts.append("To finish, write only the answer itself, <answer> like this </answer>.")
    parts += limits(view, parallel=parallel)
    return " ".join(parts) + "\n\n"


def tag_tools(view: View, renders: frozenset[type], *, parallel: bool) -> list[str]:
    """Sentences on every tool that the episode offers and the dialect can write."""
    parts = []
    tools = {spec.name for spec in view.tools} if view.role != "planner" else set()
    if "search" in tools and view.queries_left != 0:
        parts.append(
            f"To search, write <search> query </search>; the best {view.k} passages come back "
            "between <information> and </information>."
        )
        if parallel and view.max_parallel > 1:
            parts.append("Separate several queries by ##.")
    elif view.role != "planner" and not callable_tools(view, renders):
        parts.append(NO_SEARCH)
    if specs := callable_tools(view, renders):
        parts.append(
            'To use another tool, write <tool>{"name": …, "arguments": {…}}</tool> in JSON; its '
            f"output comes back in the same way. The tools:\n{listed(specs)}\n"
        )
    if "access" in tools and Access in renders:
        parts.append("To open a page, write <access> its title or URL </access>.")
    if Judge in renders and view.judge:
        parts.append(
            "After results you may write <judge>good</judge> to keep them or <judge>bad</judge> "
            "to have them removed from view."
        )
    if Delegate in renders and view.delegate:
        parts.append(
            f"To hand over a sub-task, write <task> {handed(view)} </task>; the report comes "
            "back between <information> and </information>."
        )
    return parts
