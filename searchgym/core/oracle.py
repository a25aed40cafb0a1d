"""The shortest actions that solve an episode from where it stands. Privileged: it knows the task.

Every generated task comes with gold queries that were proved to retrieve its evidence, so tests
walk these actions to show that every reachable state is still solvable within its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dialects.base import get_dialect
from ..dialects.search_r1 import SelfSearch
from ..errors import EpisodeError
from ..types import OWN_ACTIONS, Action, Answer, Call, Hit, Passage, Search, Task, ToolSpec
from .episode import Episode

SELF_SEARCHES = 7
"""Largest number of searches in a self-search text that earns the full format score (8
thoughts)."""


def gold_calls(task: Task, tools: Sequence[ToolSpec]) -> list[Action]:
    """The calls of ``tools`` that solve a task: ``task.meta["calls"]``, a list of {"tool", "args"},
    a search among them as any other. ``[]`` if it names none, a tool that is not offered, or
    nothing but searches and pages."""
    said = [Call(call["tool"], call["args"]) for call in task.meta.get("calls", ())]
    offered = {tool.name for tool in tools}
    if not all(call.tool in offered for call in said) or {c.tool for c in said} <= OWN_ACTIONS:
        return []
    return [Search((call.args["query"],)) if call.tool == "search" else call for call in said]


def uncalled(calls: Sequence[Action], dialect: Any, made: Sequence[Action]) -> list[Action]:
    """Those of ``calls``, as a dialect writes them, that are not among the actions ``made``."""
    left: list[Action] = [get_dialect(dialect).canonical(call) for call in calls]
    for action in made:
        if action in left:
            left.remove(action)
    return left


def oracle_actions(episode: Episode) -> list[Action]:
    """Searches for the evidence not yet seen, in hop order, then the answer. Where a task names its
    calls of tools (:func:`gold_calls`), those not yet made stand in place of the searches.

    Searches and calls that the remaining turns or queries do not allow are left out. In a
    delegated context the executor first reports back. ``[]`` once the episode is over.
    """
    if episode.phase == "done":
        return []
    task = episode.config.task
    actions: list[Action] = []
    if episode.contexts.active != 0:
        actions.append(Answer("done"))
    missing = set(episode.missing_evidence)
    calls = gold_calls(task, episode.config.rules.tools)
    searches: list[Action] = uncalled(
        calls, episode.config.rules.dialect, [turn.action for turn in episode.turns if turn.calls]
    )
    for evidence, query in zip(task.evidence, () if calls else task.queries, strict=False):
        if evidence in missing and Search((query,)) not in searches:
            searches.append(Search((query,)))
    if episode.config.rules.one_search:
        return searches[:1] or [Search((task.question,))]
    room = episode.turns_left - 1 - len(actions)
    left = episode.queries_left
    if len(searches) <= room and (left is None or len(searches) <= left):
        actions += searches
    return [*actions, Answer(task.answers[0])]


def oracle_texts(episode: Episode, passage: Callable[[str], Passage] | None = None) -> list[str]:
    """:func:`oracle_actions` in the episode's dialect.

    In self-search nothing is retrieved, so the text itself must hold the evidence: ``passage``
    says what a passage id stands for.
    """
    dialect, rules = get_dialect(episode.config.rules.dialect), episode.config.rules
    if not isinstance(dialect, SelfSearch):
        return [dialect.render_action(action) for action in oracle_actions(episode)]
    if episode.phase == "done":
        return []
    if passage is None:
        raise EpisodeError("the oracle of a self-search episode needs the corpus: passage=…")
    return [self_search_text(episode.config.task, dialect, passage, rules.snippet_chars)]


def self_search_text(
    task: Task, dialect: SelfSearch, passage: Callable[[str], Passage], chars: int | None
) -> str:
    """Write a text that asks the gold queries and states the gold passages, ``chars`` characters of
    each, then answers."""
    results: list[tuple[str, list[Hit]]] = []
    for i, evidence in enumerate(task.evidence):
        known = passage(evidence)
        hit = Hit(known._replace(text=known.text[:chars]), 1.0)
        query = task.queries[i] if i < len(task.queries) else task.question
        if len(results) < SELF_SEARCHES:
            results.append((query, [hit]))
        else:  # the rest share the last search
            results[-1][1].append(hit)
    # A task without passages (a real question, or one to be refused) is asked as it is.
    results = results or [(task.question, [])]
    searches = [dialect.render_search(query, tuple(hits)) for query, hits in results]
    return dialect.render_text(searches, task.answers[0])
