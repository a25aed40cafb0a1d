"""Measure what each environment's page states, and store it beside the environment's card.

Run it as ``PYTHONPATH=.site python -m docsite.scores [ENV …] [--trained WEIGHTS]``. It writes
what constant answers earn into the page, calls ``searchgym eval`` and writes
``envs/<id>/expected.json``: one run of the scripted agents and one of the trained agent in
generated worlds, which stays as it is where no weights are given. On real sets pages show the run
``full`` of ``agents/searchgym_agents/candidate/expected.json``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from searchgym import __version__
from searchgym.benchmark import reference_runs
from searchgym.cards import Card, cards
from searchgym.cards import card as card_of
from searchgym.corpora.data import data_directory
from searchgym.errors import CardError
from searchgym.evaluation.metrics import own_metric
from searchgym.scoring import SCORING_VERSION

from .constant import write_page

QUESTIONS = 150
MEASURES = ("f1", "em", "evidence_recall", "searches")
FILE = "expected.json"
BEST = "candidate"
"""The trained agent's name in the file, whatever its weights are called."""
WEIGHTS = "runs/candidate/agents/seed-0.safetensors"
"""Folder in which the repeated command looks for the weights."""


def generated(card: Card) -> bool:
    """Return whether an environment's questions come from a generated world."""
    return "tasks" in card.body["kwargs"]


def has_engine(card: Card) -> bool:
    """Return whether agents that are no language models can play an environment."""
    return card.body["kwargs"].get("engine") != "self"


def scripted(card: Card) -> list[str]:
    """Agents without training that can play it; real sets name no queries for an oracle."""
    return ["random", "rules", *(["oracle"] if generated(card) else [])]


def stored(card: Card) -> dict[str, Any]:
    """Return an environment's stored runs by name."""
    writes = f"PYTHONPATH=.site python -m docsite.scores {card.folder.name}"
    return reference_runs.load(card.folder / FILE, writes)


def measures(card: Card) -> list[str]:
    """Return the measures that are kept of an environment, the one that ranks agents first."""
    return list(dict.fromkeys([own_metric(card.body["kwargs"]), *MEASURES]))


def arguments(card: Card, agents: Sequence[str]) -> list[str]:
    """The arguments of ``searchgym eval`` that measure ``agents``."""
    split = ["-s", "split=test"] if generated(card) else []
    named = [word for agent in agents for word in ("-a", agent)]
    return [card.id, *split, *named, "-n", str(QUESTIONS), "--closed-book", "none"]


def measure(card: Card, agents: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """A run as ``expected.json`` keeps it: how to repeat it, and what it gave."""
    words = [sys.executable, "-m", "searchgym", "eval", *arguments(card, agents), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CardError(f"{' '.join(words[2:])}\n{done.stderr.strip()}")
    set_name = card.folder.name if generated(card) else card.body["kwargs"]["corpus"]
    table = [
        {"rung": set_name, "agent": name, "metric": measure,
         **{key: round(mean[key], 4) for key in ("mean", "low", "high")},
         "questions": result["questions"], "seeds": 1, "each_seed": f"{mean['mean']:.4f}"}
        for name, result in zip(names, json.loads(done.stdout), strict=True)
        for measure in measures(card)
        if (mean := result["means"].get(measure)) and mean["n"]
    ]  # fmt: skip
    repeated = [a if a == name else WEIGHTS for a, name in zip(agents, names, strict=True)]
    return {
        "command": "eval",
        "arguments": arguments(card, repeated),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"searchgym": __version__},
        "scoring": SCORING_VERSION,
        "rungs": [
            {
                "name": set_name,
                "kind": "generated" if generated(card) else "real",
                "above": "",
                "questions": table[0]["questions"],
            }
        ],
        "table": table,
    }


def main() -> None:
    """Measure the named environments, or all whose data is on this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", nargs="*", help="ids without 'searchgym/'; default: all")
    parser.add_argument("--trained", help="weights that 'searchgym train candidate' wrote")
    args = parser.parse_args()
    for name in args.env or cards("envs"):
        card = card_of("envs", name)
        if not has_engine(card):
            print(f"{name}: only a language model can play it")
        elif (
            not generated(card) and not (data_directory() / card.body["kwargs"]["corpus"]).is_dir()
        ):
            print(f"{name}: its data is not on this machine; left as it is")
        else:
            write_page(card.folder / "README.md", gym.make(card.id))
            path = Path(card.folder / FILE)
            agents = scripted(card)
            reference_runs.save(path, "scripted", measure(card, agents, agents))
            if args.trained and generated(card):  # on real sets its own card's run measures it
                reference_runs.save(path, BEST, measure(card, [args.trained], [BEST]))
            print(path, flush=True)


if __name__ == "__main__":
    main()
