"""What this distribution adds to SearchGym, under the entry point ``searchgym.plugins``."""

from __future__ import annotations

from pathlib import Path

from searchgym.plugins import Plugin

HERE = Path(__file__).resolve().parent

PLUGIN = Plugin(
    packages=("searchgym_agents.methods",),
    folders={"agents": HERE, "recipes": HERE / "methods"},
)
