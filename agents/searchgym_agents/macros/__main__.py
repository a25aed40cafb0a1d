"""Trains agents over macro-actions: ``python -m searchgym_agents.macros ServiceQA-v0 --seeds 0 1``.

Before it learns it draws macro-actions uniformly; every ``--every`` updates it plays the test
split, greedily. Each line of output is JSON. Weights go to ``OUT/ENV-SEED.json``; ``searchgym eval
ENV -a searchgym_agents.macros.policy:MacroAgent -s agent.weights=FILE`` plays with them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gymnasium as gym

from searchgym.envs.registration import env_id
from searchgym.evaluation import evaluate

from .policy import MacroAgent, train


def main() -> None:
    """Train and print, as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m searchgym_agents.macros", description=__doc__)
    parser.add_argument("env", help="ServiceQA-v0 or TravelQA-v0")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path("runs/macros"))
    args = parser.parse_args()
    env, test = (gym.make(env_id(args.env), split=s).unwrapped for s in ("train", "test"))
    inner: Any = env

    def tested(agent: MacroAgent) -> float:
        result = evaluate(agent, test, tasks=test.tasks[: args.questions])  # type: ignore[attr-defined]
        return result.means["reward"].mean

    start = MacroAgent(inner.tasks[0].family, seed=0)  # without weights, draws uniformly
    print(json.dumps({"env": args.env, "episodes": 0, "test": tested(start)}), flush=True)
    for seed in args.seeds:
        for agent, figures in train(inner, seed, updates=args.updates):
            if figures["update"] % args.every == 0 or figures["update"] == args.updates:
                greedy = MacroAgent(agent.family, agent.weights)
                shown = {"env": args.env, "seed": seed, **figures, "test": tested(greedy)}
                print(json.dumps(shown), flush=True)
        agent.save(args.out / f"{args.env}-{seed}.json")


if __name__ == "__main__":
    main()
