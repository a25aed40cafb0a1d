"""The bars below learning, per task family: what costs nothing must score next to nothing, and the
oracle must score everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import searchgym as sg
from searchgym.agents import ConstantAgent, OracleAgent
from searchgym.dialects import DIALECTS
from searchgym.envs import SearchEnv, search_env
from searchgym.evaluation import evaluate
from searchgym.types import ABSTAIN, Agent, Task


def majority_answer(tasks: Sequence[Task]) -> str:
    """The most frequent canonical answer, refusals left out (ties: the first in order)."""
    counts = Counter(task.answers[0] for task in tasks if not task.should_abstain)
    return counts.most_common(1)[0][0] if counts else ABSTAIN


def baselines(
    env: Any,
    *,
    dialects: Sequence[str] = tuple(DIALECTS),
    tasks: Sequence[Task] | None = None,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> dict[str, dict[str, float]]:
    """EM by agent and family, ``"all"`` being the mean over all tasks.

    Agents: the oracle agent once per dialect, uniform over the legal candidate actions (search
    first where that is legal, as any action), always "yes", the majority answer, always refusing,
    and two closed-book players: the best guess from the question alone, and the rules agent.

    Args:
        env: An environment, its id or its spec; its dialect is replaced for the oracle.
        dialects: Dialects the oracle goes through.
        tasks: Which tasks; the environment's by default.
        seed: Seed of the evaluation and of the random agent.
        progress: Told how many episodes have just finished.
    """
    shared = search_env(env, stepped=True)
    chosen = list(shared.tasks if tasks is None else tasks)
    table: dict[str, dict[str, float]] = {}

    def play(name: str, agent: Agent, where: SearchEnv, search_enabled: bool | None = None) -> None:
        result = evaluate(
            agent, where, name=name, tasks=chosen, seed=seed, progress=progress,
            search_enabled=search_enabled,
        )  # fmt: skip
        table[name] = {"all": result.means["em"].mean, **result.by_family()}

    for dialect in dialects:
        play(f"oracle, {dialect}", OracleAgent(chosen), shared.under(dialect=dialect))
    play("random", sg.RandomAgent(seed), shared)
    play("always yes", ConstantAgent("yes"), shared)
    play("majority answer", ConstantAgent(majority_answer(chosen)), shared)
    play("always refuse", ConstantAgent(), shared)
    for name, agent in (("best span", sg.BestSentenceAgent()), ("rules", sg.RulesAgent())):
        play(f"closed book, {name}", agent, shared, search_enabled=False)
    return table
