"""Keywords of a small world to climb from."""

from __future__ import annotations

SMALL = {
    "corpus": "encyclopedia", "world": {"entities": 400}, "max_turns": 4,
    "tasks": {"simple": 12, "comparison": 6},
}  # fmt: skip
