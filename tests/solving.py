"""Oracles on generated tasks, from the start and after random prefixes; shared by tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from searchgym.agents import OracleAgent, read_state
from searchgym.core import Episode, oracle_actions, oracle_texts, run_episodes, run_tools
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.evaluation import episode_for
from searchgym.seeding import stream
from searchgym.tasks import FAMILIES
from searchgym.types import Access, Action, Search, Task
from searchgym_agents.candidate.actions import candidates

OPTIONS = {"corpus": "encyclopedia", "max_turns": 42, "may_abstain": True}
"""Turns enough for the largest group of the family ``aggregate``, a search for each member."""


def in_dialect(shared: SearchEnv, dialect: str) -> SearchEnv:
    """The same material in another dialect, with pages where the dialect has words for them."""
    tools = ("search", "access") if Access in get_dialect(dialect).renders else ("search",)
    return shared.under(dialect=dialect, tools=tools)


def world(per_family: int, **changes: object) -> SearchEnv:
    """A world with tasks of every family."""
    return SearchEnv(**{**OPTIONS, "tasks": dict.fromkeys(FAMILIES.shipped, per_family), **changes})


def wander(episodes: Sequence[Episode], shared: SearchEnv, seed: int) -> None:
    """A random number of random legal actions that do not end the episode and leave the oracle
    enough turns: searches an agent might make, pages, gold queries of other tasks."""
    rng = stream(seed, "wander")
    dialect = get_dialect(shared.rules.dialect)
    wishes = {e.config.episode_id: int(rng.integers(0, 9)) for e in episodes}
    while True:
        active = [
            e
            for e in episodes
            if wishes[e.config.episode_id] > 0 and e.turns_left > len(oracle_actions(e))
        ]
        if not active:
            return
        for e in active:
            wishes[e.config.episode_id] -= 1
            e.act(dialect.render_action(_random_action(e, shared, rng)))
        run_tools(active, shared.toolbox)


def _random_action(e: Episode, shared: SearchEnv, rng: np.random.Generator) -> Action:
    state = read_state(e.requests()[0])
    kind = rng.random()
    if kind < 0.3 and state.found and "access" in shared.toolbox.tools:
        return Access(state.found[int(rng.integers(len(state.found)))][0].url)
    if kind < 0.5:
        other = shared.tasks[int(rng.integers(len(shared.tasks)))]
        if other.queries:
            return Search((other.queries[int(rng.integers(len(other.queries)))],))
    searches = [c.action for c in candidates(state) if c.is_search]
    return searches[int(rng.integers(len(searches)))]


def unsolved(tasks: Sequence[Task], shared: SearchEnv, seed: int) -> list[str]:
    """Ids of tasks that either oracle fails after a random prefix; [] is what tests want.

    ``env.unwrapped.oracle()``'s actions must score in all; the oracle agent, which does not count
    evidence read on pages, wherever its own remaining cost fits."""
    episodes = [episode_for(shared, task, seed) for task in tasks]
    wander(episodes, shared, seed)
    assert all(e.phase == "act" for e in episodes)
    failed = []
    copies = [e.fork() for e in episodes]
    for e in episodes:
        for text in oracle_texts(e):
            e.act(text)
            run_tools([e], shared.toolbox)
        if e.outcome() is None or e.outcome().parts.get("em") != 1.0:  # type: ignore[union-attr]
            failed.append(f"oracle() {e.config.task.id}")
    fits = [e for e in copies if e.turns_left > _unasked(e)]
    for e in run_episodes_from(fits, OracleAgent(tasks), shared):
        if e.outcome().parts.get("em") != 1.0:  # type: ignore[union-attr]
            failed.append(f"OracleAgent {e.config.task.id}")
    return failed


def _unasked(e: Episode) -> int:
    """Searches the oracle agent may still need: gold queries it has not made."""
    made = {t.action.queries[0] for t in e.turns if isinstance(t.action, Search)}
    return len({q for q in e.config.task.queries if q not in made})


def run_episodes_from(
    episodes: Sequence[Episode], agent: OracleAgent, shared: SearchEnv
) -> list[Episode]:
    """Play begun episodes to their ends."""
    return run_episodes(episodes, agent, shared.toolbox) if episodes else []
