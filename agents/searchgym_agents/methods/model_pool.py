"""A pool of models behind one engine: a query names the one that is asked (Router-R1)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from searchgym import Failure
from searchgym.corpora import Corpus
from searchgym.engines import build_engine
from searchgym.errors import EngineError
from searchgym.types import Query, Ranking, SearchEngine
from searchgym.worlds import World

MODELS: Mapping[str, Any] = {
    "small": {"name": "degraded", "engine": "bm25", "noise": 0.6},
    "medium": {"name": "degraded", "engine": "bm25", "noise": 0.3},
    "large": "bm25",
}
"""Stand-ins of ours for models that know more the more they cost."""


def routed_query(text: str) -> tuple[str, str]:
    """Split ``"name: query"``; an empty name where there is no colon."""
    name, colon, rest = text.partition(":")
    return (name.strip(), rest.strip()) if colon else ("", text)


class Pool:
    """An engine that asks another, by the name before the query: ``"large: who wrote …"``. A name
    that it does not know finds nothing, and a query without a colon is the first one's (Router-R1,
    arXiv 2506.09033, where they are language models: ``{name = "simulated", generator = …}``).

    Args:
        models: Name → engine, as ``engine=`` of an environment takes it.

    Raises:
        EngineError: no models, or a name that a query cannot begin with.
    """

    registered = "engine:pool"

    def __init__(
        self, corpus: Corpus, world: World | None = None, *, models: Mapping[str, Any] | None = None
    ) -> None:
        models = MODELS if models is None else models
        if not models or any(":" in name or name != name.strip() for name in models):
            raise EngineError(
                f"engine 'pool' needs models = {{NAME = ENGINE, …}}, names without colons; got "
                f"{sorted(models)}"
            )
        self.engines: dict[str, SearchEngine] = {
            name: build_engine(spec, corpus, world) for name, spec in models.items()
        }
        self.needs_task = any(engine.needs_task for engine in self.engines.values())
        inner = [f"{name}={engine.fingerprint}" for name, engine in self.engines.items()]
        self.fingerprint = f"pool:{hashlib.sha256(' '.join(inner).encode()).hexdigest()[:16]}"

    def _routed(self, text: str) -> tuple[str, str]:
        name, rest = routed_query(text)
        return (name if ":" in text else next(iter(self.engines)), rest)

    def cache_key(self, request: Query, /) -> bytes | None:
        name, text = self._routed(request.text)
        if name not in self.engines:
            return b"nobody"
        key = self.engines[name].cache_key(request._replace(text=text))
        return None if key is None else name.encode() + b":" + key

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        answers: list[Ranking | Failure] = [()] * len(batch)
        asked = [self._routed(query.text) for query in batch]
        for name, engine in self.engines.items():
            where = [i for i, (model, _) in enumerate(asked) if model == name]
            part = [batch[i]._replace(text=asked[i][1]) for i in where]
            for i, answer in zip(where, engine.run(part) if part else (), strict=True):
                answers[i] = answer
        return answers
