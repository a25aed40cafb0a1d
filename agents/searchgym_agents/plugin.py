"""Additions of this distribution to SearchGym, under the entry point ``searchgym.plugins``."""

from __future__ import annotations

from pathlib import Path

from searchgym.plugins import Plugin

HERE = Path(__file__).resolve().parent
_LEADERBOARD = "searchgym_agents.leaderboard.command"
_NAMES = {
    "audit.report": ("measure_answerability",),
    "candidate.encoder": ("WordEncoder",),
    "candidate.rules": ("BestSentenceAgent", "RandomAgent", "RulesAgent"),
    "candidate.training": ("CandidateRecipe", "SeedTrainer"),
    "candidate.wrappers": ("CandidateActions", "VectorCandidateActions"),
}
"""Module → what it adds to the package ``searchgym``."""

PLUGIN = Plugin(
    items={
        "section": {"scores": f"{_LEADERBOARD}:print_scores"},
        "command": {
            "lab": "searchgym_agents.lab.command:app",
            "law": "searchgym_agents.law.command:app",
            "leaderboard": f"{_LEADERBOARD}:leaderboard_app",
            "speedrun": "searchgym_agents.speedrun.command:app",
            "verify": f"{_LEADERBOARD}:verify_app",
        },
    },
    names={
        name: f"searchgym_agents.{module}:{name}"
        for module, names in _NAMES.items()
        for name in names
    },
    packages=tuple(
        f"searchgym_agents.{name}"
        for name in (
            "asking audit candidate experts knower language_model methods reader service "
            "synthesis travel".split()
        )
    ),
    folders={"agents": HERE, "recipes": HERE / "methods"},
)
