"""One small scene that every adapter plays: eight one-hop tasks, four turns, a policy that searches
the question and then gives the answer it was told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from searchgym.engines import BM25Engine
from searchgym.envs import SearchEnv
from searchgym.types import Failure
from tests.llms import tiny

SCENE: dict[str, Any] = {"world": {"entities": 60}, "tasks": {"simple": 8}, "max_turns": 4}


def scene(**options: Any) -> SearchEnv:
    """The environment of the scene."""
    return SearchEnv(**{**SCENE, **options})


class BrokenEngine:
    """An engine that is down."""

    fingerprint = "broken"
    needs_task = False

    def __init__(self, corpus: Any = None) -> None:
        pass

    def cache_key(self, query: Any) -> None:
        return None

    def run(self, batch: Any) -> list[Failure]:
        return [Failure("unavailable", "the engine is down") for _ in batch]


OUTAGE = "outage"
"""The query that a :class:`PartlyBrokenEngine` cannot answer."""


class PartlyBrokenEngine(BM25Engine):
    """An engine that is down for one query."""

    def run(self, batch: Any) -> list[Any]:
        found = super().run(batch)
        down = Failure("unavailable", "the engine is down")
        return [
            down if query.text == OUTAGE else hits for query, hits in zip(batch, found, strict=True)
        ]


def chat_tokenizer() -> Any:
    """The tiny tokenizer with a published chat template that knows tools."""
    import trl

    words = tiny.tokenizer()
    words.eos_token = tiny.MARK
    words.pad_token = tiny.END
    folder = Path(trl.__file__).parent / "chat_templates"
    words.chat_template = (folder / "qwen3.jinja").read_text()
    return words
