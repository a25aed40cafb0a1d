"""The shortest actions that solve an episode from where it stands. Privileged: it knows the task.

Every generated task comes with gold queries that were proved to retrieve its evidence, so tests
walk these actions to show that every reachable state is still solvable within its budget.
"""

from __future__ import annotations

from .dialects.base import get_dialect
from .episode import Episode
from .types import Action, Answer, Search


def oracle_actions(episode: Episode) -> list[Action]:
    """Searches for the evidence not yet seen, in hop order, then the answer.

    Searches that the remaining turns or queries do not allow are left out. In a delegated context
    the executor first reports back. ``[]`` once the episode is over.
    """
    if episode.phase == "done":
        return []
    task = episode.config.task
    actions: list[Action] = []
    if episode.contexts.active != 0:
        actions.append(Answer("done"))
    missing = set(episode.missing_evidence)
    searches: list[Action] = []
    for evidence, query in zip(task.evidence, task.queries, strict=False):
        if evidence in missing and Search((query,)) not in searches:
            searches.append(Search((query,)))
    room = episode.turns_left - 1 - len(actions)
    left = episode.queries_left
    if len(searches) <= room and (left is None or len(searches) <= left):
        actions += searches
    return [*actions, Answer(task.answers[0])]


def oracle_texts(episode: Episode) -> list[str]:
    """:func:`oracle_actions` in the episode's dialect."""
    dialect = get_dialect(episode.config.rules.dialect)
    return [dialect.render_action(action) for action in oracle_actions(episode)]
