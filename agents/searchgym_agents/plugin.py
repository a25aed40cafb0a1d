"""What this distribution adds to SearchGym, under the entry point ``searchgym.plugins``."""

from __future__ import annotations

from pathlib import Path

from searchgym.plugins import Plugin

HERE = Path(__file__).resolve().parent

CANDIDATE = "searchgym_agents.candidate"

PLUGIN = Plugin(
    items={
        "trainer": {"candidate": f"{CANDIDATE}.command:TRAINER"},
        "command": {
            "quickstart": f"{CANDIDATE}.command:quickstart",
            "lab": "searchgym_agents.lab.command:app",
            "audit": "searchgym_agents.audit.command:audit",
        },
    },
    names={
        name: f"{CANDIDATE}.{module}:{name}"
        for module, names in {
            "encoder": ("WordEncoder",),
            "scripted": ("BestSentenceAgent", "RandomAgent", "RulesAgent"),
            "training": ("CandidateRecipe", "SeedTrainer"),
            "wrappers": ("CandidateActions", "VectorCandidateActions"),
        }.items()
        for name in names
    }
    | {"measure_answerability": "searchgym_agents.audit.report:measure_answerability"},
    packages=tuple(
        f"searchgym_agents.{name}" for name in ("experts", "knower", "methods", "reader", "smollm")
    ),
    folders={"agents": HERE, "recipes": HERE / "methods"},
)
