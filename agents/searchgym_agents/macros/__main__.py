"""Trains agents over macro-actions: ``python -m searchgym_agents.macros ServiceQA-v1 --seeds 0 1``.

Before it learns it draws macro-actions, and what fills them, uniformly; every ``--every`` updates
it plays the test split, greedily. Each line of output is JSON; ``--write`` keeps them for the page
of learning curves. Weights go to ``OUT/ENV-SEED.json``; ``searchgym eval ENV -a
searchgym_agents.macros.policy:MacroAgent -s agent.weights=FILE`` plays with them.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym

from searchgym.envs.registration import env_id
from searchgym.evaluation import evaluate

from .curves import began, keep
from .policy import SHAPED, MacroAgent, train


def main() -> None:
    """Train and print, as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m searchgym_agents.macros", description=__doc__)
    parser.add_argument("env", help="ServiceQA-v1, TravelQA-v1, AmbiguousQA-v1, SqlQA-v1, …")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=16, help="tasks of an update, of 8 episodes")
    parser.add_argument("--rate", type=float, default=0.5, help="rate of learning")
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path("runs/macros"))
    parser.add_argument("--write", action="store_true", help="keep the curves in the package")
    args = parser.parse_args()
    test: Any = gym.make(env_id(args.env), split="test").unwrapped
    family = test.tasks[0].family
    paid = {"reward": SHAPED[family]} if family in SHAPED else {}
    env: Any = gym.make(env_id(args.env), split="train", **paid).unwrapped

    for each in (env, test):  # the same code gives the same result
        if tool := each.toolbox.tools.get("python"):
            tool.run_code = cache(tool.run_code)

    def tested(agent: MacroAgent) -> list[float]:
        result = evaluate(agent, test, tasks=test.tasks[: args.questions])
        metric = "reward" if result.metric == "reward" else "em"
        return [round(float(x), 4) for x in result.means[metric][:3]]

    start = MacroAgent(family, seed=0)  # without weights, draws uniformly
    questions = min(args.questions, len(test.tasks))
    made = began(questions, args.tasks * 8, tested(start)[0])
    print(json.dumps({"env": args.env, **made}), flush=True)
    for seed in args.seeds:
        one: dict[str, list[Any]] = {"train": [], "test": []}
        made["seeds"][str(seed)] = one
        for agent, figures in train(
            env, seed, updates=args.updates, tasks=args.tasks, rate=args.rate
        ):
            one["train"].append(round(figures["em" if paid else "reward"], 4))
            shown = {"env": args.env, "seed": seed, **figures}
            if figures["update"] % args.every == 0 or figures["update"] == args.updates:
                one["test"].append([figures["update"], *tested(MacroAgent(family, agent.weights))])
                shown["test"] = one["test"][-1][1:]
            print(json.dumps(shown), flush=True)
        agent.save(args.out / f"{args.env}-{seed}.json")
        if args.write:
            keep(args.env, made)


if __name__ == "__main__":
    main()
