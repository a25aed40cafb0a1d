"""How to build every engine of the registry for the contract suite: one entry each.

An engine that is built by its name alone needs nothing here: it is held to what holds for all, and
to the capabilities that its class or function states in ``capabilities``. For one with options,
write ``_myengine(place)`` that returns its spec (what ``engine=`` of an environment takes) and a
line in ``ENTRIES``: the registry's name, or that name with ":" and a word for a second way to build
it. The capabilities say which promises hold:

- ``any corpus``: needs no generated world.
- ``own``: every hit is a passage of the corpus, unchanged.
- ``ordered``: equal scores are ordered by passage id.
- ``repeatable``: equal batches have equal answers, whatever the context's parameters, key or
  episode, or what was asked before; a second engine built alike answers alike.
- ``pure``: repeatable, and answers depend on (text, k) alone, not on the batch.
- ``exact``: ties at the cut-off are decided by passage id too.
- ``total``: ranks every passage when k is the corpus's size or more.
- ``finds``: a passage's own text as the query finds that passage first.
- ``task``: must see the task of a query (``needs_task``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from searchgym.corpora import Corpus
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.graph.engine import MODES
from searchgym.engines.registry import ENGINES
from searchgym.engines.simulated.prompts import Role, sft_prompt
from searchgym.objects import load_known
from searchgym.types import CallContext, Failure, Query, Ranking, Task
from searchgym.worlds import World

from ..llms import tiny
from ..llms.letters import Letters
from .loopback import Got, Say, serving
from .tiny import tiny_encoder

CAPABILITIES = frozenset(
    {"any corpus", "own", "ordered", "pure", "repeatable", "exact", "total", "finds", "task"}
)
Spec = str | Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Where an engine is built."""

    corpus: Corpus
    world: World | None
    tasks: tuple[Task, ...]
    folder: Path
    """Empty, for files of the engine."""
    closing: ExitStack
    """Servers and the like: ``place.closing.callback(server.stop)``."""


@dataclass(frozen=True)
class Entry:
    spec: Callable[[Place], Spec]
    capabilities: frozenset[str]
    failing: Callable[[Place], tuple[Spec, str]] | None = None
    """A spec whose outside fails on one query text, and that text."""


BAD = "a query whose outside fails"


class FailsOn:
    """BM25 whose outside fails on ``BAD``; a real engine otherwise."""

    needs_task = False

    def __init__(self, corpus: Corpus) -> None:
        self.inner = BM25Engine(corpus)
        self.fingerprint = f"fails-on:{self.inner.fingerprint}"

    def cache_key(self, request: Query, /) -> bytes | None:
        return self.inner.cache_key(request)

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        answers = self.inner.run(batch)
        failed = Failure("unavailable", "on purpose")
        return [failed if q.text == BAD else a for q, a in zip(batch, answers, strict=True)]


def _dense(kind: str) -> Callable[[Place], Spec]:
    """All kinds over one tiny encoder, whose vectors lie close together: many near ties."""

    def spec(place: Place) -> Spec:
        return {
            "name": "dense", "encoder": str(tiny_encoder()), "pooling": "mean", "kind": kind,
            "cache": str(place.folder), "device": "cpu",
        }  # fmt: skip

    return spec


def _on_disk(shard: int) -> Callable[[Place], Spec]:
    def spec(place: Place) -> Spec:
        return {
            "name": "bm25_disk", "index": str(place.folder / "index"), "threads": 2, "shard": shard
        }  # fmt: skip

    return spec


def _graph(mode: str) -> Callable[[Place], Spec]:
    """Hits have the ids of passages, and texts of their own: the facts."""
    return lambda place: {"name": "graph", "mode": mode}


def _hybrid(place: Place) -> Spec:
    return {"name": "hybrid", "engines": ["bm25", _dense("flat")(place)], "fusion": "rank-score"}


def _hybrid_failing(place: Place) -> tuple[Spec, str]:
    return {"name": "hybrid", "engines": ["bm25", FailsOn(place.corpus)]}, BAD


def _recorded(place: Place) -> Spec:
    return {"name": "recorded", "engine": "bm25", "path": str(place.folder / "record.sqlite")}


def _recorded_failing(place: Place) -> tuple[Spec, str]:
    path = str(place.folder / "failing.sqlite")
    return {"name": "recorded", "engine": FailsOn(place.corpus), "path": path}, BAD


def _degraded_failing(place: Place) -> tuple[Spec, str]:
    return {"name": "degraded", "engine": FailsOn(place.corpus)}, BAD


def _remote(place: Place) -> Spec:
    """A server that speaks Search-R1's dialect, in front of BM25 over the same corpus."""
    engine = FailsOn(place.corpus)
    context = CallContext(0, "e", {})

    def answer(got: Got) -> Say:
        asked = json.loads(got.body)
        found = engine.run([Query(text, asked["topk"], context) for text in asked["queries"]])
        if any(isinstance(ranking, Failure) for ranking in found):
            return Say(503, b"on purpose")
        result = [
            [{"document": {**h.passage._asdict(), "contents": h.passage.text}, "score": h.score}
             for h in ranking]
            for ranking in found
        ]  # fmt: skip
        return Say(body=json.dumps({"result": result}).encode())

    server = place.closing.enter_context(serving(answer))
    return {"name": "remote", "url": server.url, "retries": 0}


def _simulated(place: Place) -> Spec:
    """An untrained model: it writes nonsense, which is what a contract is for."""
    folder = tiny.save(place.folder / "model", max_position_embeddings=2048)
    return {
        "name": "simulated", "max_tokens": 16,
        "generator": {"name": "transformers", "model": str(folder), "device": "cpu"},
    }  # fmt: skip


def _simulated_failing(place: Place) -> tuple[Spec, str]:
    prompt = sft_prompt(Role(BAD, 3, 30, False, BAD, "x"))
    return {"name": "simulated", "generator": Letters(fail=[prompt])}, BAD


_LOCAL = frozenset({"any corpus", "own", "ordered", "repeatable"})
_EXACT = _LOCAL | {"exact", "finds"}
_PURE = frozenset({"ordered", "pure", "repeatable"})

ENTRIES: dict[str, Entry] = {
    "bm25": Entry(lambda place: "bm25", _EXACT | _PURE),
    "bm25_disk": Entry(_on_disk(1 << 16), _EXACT | _PURE),
    "bm25_disk:shards": Entry(_on_disk(16), _EXACT | _PURE),
    "graph": Entry(lambda place: "graph", _PURE | {"own"}),
    **{f"graph:{mode}": Entry(_graph(mode), _PURE) for mode in MODES},
    "dense": Entry(_dense("flat"), _EXACT | {"total"}),
    "dense:hnsw": Entry(_dense("hnsw"), _LOCAL | {"finds"}),
    "hybrid": Entry(_hybrid, _LOCAL | {"finds"}, _hybrid_failing),
    "recorded": Entry(_recorded, _EXACT | _PURE, _recorded_failing),
    "remote": Entry(_remote, frozenset({"any corpus", "ordered"}), lambda p: (_remote(p), BAD)),
    # All rates are 0 here; what the rates do is tested beside the engine.
    "degraded": Entry(lambda place: {"name": "degraded", "engine": "bm25"}, _EXACT - {"repeatable"},
                      _degraded_failing),
    "simulated": Entry(_simulated, frozenset({"any corpus", "ordered", "task"}),
                       _simulated_failing),
    # Nothing is gold in the suite's task, so useful documents there are none.
    "simulated_rules": Entry(lambda place: {"name": "simulated_rules", "noise": 1.0},
                             frozenset({"any corpus", "ordered", "task"})),
}  # fmt: skip
"""The ways in which engines are built."""


def _by_name(name: str) -> Entry:
    """The entry of an engine that is built by its name alone."""
    capabilities = getattr(load_known(ENGINES[name]), "capabilities", ())
    return Entry(lambda place: name, frozenset(capabilities))


_LISTED = {key.partition(":")[0] for key in ENTRIES}
ENTRIES |= {name: _by_name(name) for name in ENGINES if name not in _LISTED}
