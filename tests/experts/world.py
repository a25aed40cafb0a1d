"""The small world that the tests of fine-tuning play in."""

from __future__ import annotations

from typing import Any

KEYWORDS: dict[str, Any] = {
    "corpus": "encyclopedia",
    "world": {"entities": 400, "seed": 5},
    "tasks": {"simple": 6, "chain-2": 4, "at_most": True},
    "k": 3,
    "snippet_chars": 420,
    "max_turns": 6,
}
