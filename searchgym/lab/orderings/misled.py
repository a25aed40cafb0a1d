"""Shipped agents in a generated world, one page of whose results has wrong facts."""

from __future__ import annotations

from typing import Any

from ...agents.scripted import BestSentenceAgent, RulesAgent
from ...envs.search import SearchEnv
from ...evaluation.run import evaluate

AGENTS = {"best_sentence": BestSentenceAgent, "rules": RulesAgent}


def misled(seed: int, *, agent: str, rank: int, entities: int = 200) -> dict[str, Any]:
    """Mean exact match of an agent on the questions of MisinformationQA in a world of its own.

    Args:
        seed: Of the world.
        agent: ``"best_sentence"`` or ``"rules"``: neither learns nor doubts.
        rank: Place of the wrong page among four results of every search; 0: there is none.
    """
    wrong = {"contradict": 1.0, "rank": rank} if rank else {}
    env = SearchEnv(
        corpus="encyclopedia", world={"entities": entities, "seed": seed}, k=4, max_turns=8,
        engine={"name": "degraded", "engine": "bm25", **wrong},
        tasks={"simple": 100, "chain": 50, "at_most": True},
    )  # fmt: skip
    result = evaluate(AGENTS[agent](), env, seed=seed)
    return {"em": result.means["em"].mean, "questions": len(result.rows)}
