"""What a model reads while it is taught: ``python -m tests.benchmarks.learning_curve RUN``

Trains by an agent's card in folder RUN (a finished stage is kept), keeps a copy of the model after
each of ``--keep`` tokens, and asks each copy the same development questions: of a generated world
that it never saw, and of HotpotQA. Writes ``scores.json`` and the picture ``learning.png``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import searchgym as sg
from searchgym.charts import Figure, multiples
from searchgym.evaluation import spread
from searchgym_agents.language_model.recipe import FinetuneRecipe
from searchgym_agents.language_model.run import COPIES, teach

RULES = {"k": 3, "snippet_chars": 420, "max_turns": 6}
PLACES = {
    "generated world": {
        **RULES, "corpus": "encyclopedia", "split": "dev",
        "world": {"entities": 2000, "seed": 5000},
        "tasks": {"simple": 40, "chain-2": 40, "chain-3": 40},
    },
    "HotpotQA": {**RULES, "corpus": "hotpotqa", "split": "dev_extra"},
}  # fmt: skip
MEASURES = ("em", "evidence_recall", "searches")


def asked(agent: Any, questions: int, batch: int) -> dict[str, dict[str, list[float]]]:
    """Mean, low and high of each measure in each place."""
    found: dict[str, dict[str, list[float]]] = {}
    for place, keywords in PLACES.items():
        env = sg.SearchEnv(**keywords)
        tasks = spread(env.tasks, questions)
        means = sg.evaluate(agent, env, tasks=tasks, batch=batch).means
        found[place] = {m: [means[m].mean, means[m].low, means[m].high] for m in MEASURES}
    return found


def figure(report: dict[str, Any]) -> Figure:
    """The learning curves, a panel for each place."""
    tokens = [int(step) for step in report["checkpoints"]]
    first, last = (report["checkpoints"][str(step)] for step in (tokens[0], tokens[-1]))
    rows = []
    for place in PLACES:
        for series, points in (
            ("the model", [(u, report["checkpoints"][str(u)]) for u in tokens]),
            ("rules", [(u, report["rules"]) for u in (tokens[0], tokens[-1])]),
        ):
            for x, found in points:
                mean, low, high = found[place]["em"]
                rows.append(
                    {"measure": f"EM, {place}", "series": series, "x": x, "mean": mean, "low": low,
                     "high": high}
                )  # fmt: skip
    rises = " and ".join(
        f"from {first[place]['em'][0]:.2f} to {last[place]['em'][0]:.2f} {where}"
        for place, where in zip(PLACES, ("in the generated world", "on HotpotQA"), strict=True)
    )
    measures = [f"EM, {place}" for place in PLACES]
    return Figure(
        "learning",
        f"EM rises {rises}",
        f"Exact match on {report['questions']} development questions of each.",
        "Two panels: exact match by tokens read, in a generated world and on HotpotQA.",
        lambda narrow=False: multiples(
            rows, "tokens read", ["the model", "rules"], measures, rates=measures, columns=2,
            narrow=narrow,
        ),
        tuple(rows),
    )  # fmt: skip


def main(given: Sequence[str] | None = None) -> dict[str, Any]:
    """Train, measure and draw as the command line says; measured checkpoints are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--card", default="qwen05", help="an agent's card with a model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=int, nargs="*", help="tokens; default: the card's")
    parser.add_argument("--questions", type=int, default=30, help="of each place")
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args(given)
    recipe = FinetuneRecipe.of(sg.cards.card("agents", options.card).body["train"])
    if options.keep:
        recipe = replace(recipe, keep=tuple(options.keep))
    teach(options.run, recipe, seed=options.seed)
    path = options.run / "scores.json"
    report: dict[str, Any] = {"questions": options.questions, "checkpoints": {}}
    if path.exists():
        report = json.loads(path.read_text(encoding="utf-8"))
    report.setdefault("rules", asked(sg.RulesAgent(), options.questions, options.batch))
    for step in sorted(int(folder.name) for folder in (options.run / COPIES).iterdir()):
        if str(step) in report["checkpoints"]:
            continue
        folder = options.run / COPIES / str(step)
        agent = sg.load_policy(folder, max_tokens=recipe.turn_tokens, reuse_tokens=65_536)
        report["checkpoints"][str(step)] = asked(agent, options.questions, options.batch)
        print(step, json.dumps(report["checkpoints"][str(step)]), flush=True)
        path.write_text(json.dumps(report), encoding="utf-8")
    figure(report).save(options.run)
    return report


if __name__ == "__main__":
    main()
