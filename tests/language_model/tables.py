"""Tables of small trainings."""

from __future__ import annotations

from typing import Any

from tests.experts.world import KEYWORDS

RENDERER = {"use": "chat", "instructions": False}


def table(model: str, **changes: Any) -> dict[str, Any]:
    env = {key: value for key, value in KEYWORDS.items() if key != "world"}
    return {
        "model": model,
        "renderer": RENDERER,
        "freeze": "*embed_tokens*",
        "turn_tokens": 12,
        "demonstrations": {
            "expert": "quoting",
            "seeds": [5, 7],
            "env": {**env, "world": {"entities": 200}},
            "variants": [{"k": 2}, {"wording": {"distractors": 1}}],
        },
        "sft": {"steps": 4, "batch": 3, "tokens": 4000, "max_tokens": 4000, "lr": 1e-3},
        **changes,
    }
