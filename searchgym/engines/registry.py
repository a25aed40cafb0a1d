"""Engines by name: what ``engine="bm25"`` of an environment means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..corpora.corpus import Corpus
from ..errors import CardError, EngineError, unknown
from ..objects import check_fits, load_known, load_object
from ..types import SearchEngine
from ..utils.trust import refuse
from ..worlds.world import World

Maker = Callable[..., SearchEngine]

ENGINES: dict[str, str | Maker] = {
    "bm25": "searchgym.engines.bm25:make",
    "bm25_disk": "searchgym.engines.on_disk:make",
    "graph": "searchgym.engines.graph:make",
    "dense": "searchgym.engines.dense:make",
    "hybrid": "searchgym.engines.hybrid:make",
    "recorded": "searchgym.engines.recorded:make",
    "degraded": "searchgym.engines.degraded:make",
    "simulated": "searchgym.engines.simulated:make",
    "simulated_rules": "searchgym.engines.simulated.rules:make",
    "remote": "searchgym.engines.remote:make",
}
"""Name → ``make(corpus, world, **options)``, itself or its import path (read when first used, for
some need heavy libraries). Add your own before making an environment."""

OPEN: Mapping[str, frozenset[str]] = {
    name: frozenset(options.split())
    for name, options in {
        "bm25": "k1 b stemmer stopwords method fields lowercase unicode",
        "graph": "mode passages beam",
        "hybrid": "engines fusion constant weights mean depth",
        "degraded": "engine noise stale contradict duplicate seo dead adversarial shuffle latency "
        "outage dates dead_as latency_s timeout_s cost_per_second rank attack",
        "simulated_rules": "noise words threshold",
    }.items()
}
"""Engines that a file of others may name, and their options that it may set: all work in memory,
and no option is opened, waited for or run. Engines within them are checked alike."""


def build_engine(
    spec: str | Mapping[str, Any] | SearchEngine, corpus: Corpus, world: World | None = None
) -> SearchEngine:
    """An engine over ``corpus`` from its name, or from ``{"name": …, **options}``.

    A name of the form ``"package.module:Class"`` is called as ``Class(corpus, **options)``. A ready
    engine is passed through. ``EngineError`` for unknown names and options, and for all but
    :data:`OPEN` while a file is read that others may have written (:mod:`searchgym.utils.trust`).
    """
    if not isinstance(spec, str | Mapping):
        if callable(getattr(spec, "run", None)) and callable(getattr(spec, "cache_key", None)):
            return spec
        raise EngineError(
            f"an engine is a name, a mapping with 'name', or a service, got {type(spec).__name__}"
        )
    options = {} if isinstance(spec, str) else {k: v for k, v in spec.items() if k != "name"}
    name = spec if isinstance(spec, str) else spec.get("name")
    if not isinstance(name, str):
        raise EngineError(f"an engine mapping needs the key 'name', got {dict(spec)!r}")  # type: ignore[arg-type]
    if name == "self":
        raise EngineError(
            "'self' is not an engine but an episode mode of environments: "
            'gym.make("SearchQA-v0", engine="self")'
        )
    try:
        if name in ENGINES:
            check_open(spec)
            maker: Maker = load_known(ENGINES[name])
            return maker(corpus, world, **options)
        if ":" in name:
            make = load_object(name)
            check_fits("engine", name, make, ("run", "cache_key"))
            made: SearchEngine = make(corpus, **options)
            return made
    except CardError as error:
        raise EngineError(str(error)) from error
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise EngineError(f"engine {name!r}: {_explained(name, str(error))}") from error
    raise EngineError(unknown("engine", name, ENGINES) + ", or 'package.module:Class'")


def check_open(spec: Any) -> None:
    """``CardError`` for an engine that the file which is being read may not name."""
    name, options = (spec, {}) if not isinstance(spec, Mapping) else (spec.get("name"), spec)
    if name not in (*OPEN, "self") and not (isinstance(name, str) and ":" in name):
        refuse(f"the engine {name!r:.80}")  # an import path is refused where it is loaded
    for option in options:
        if name in OPEN and option not in ("name", *OPEN[name]):
            refuse(f"the option {option!r:.80} of the engine {name!r}")


def _explained(name: str, error: str) -> str:
    """Say what is wrong with arguments; of missing ones, how they are given."""
    twice = "multiple values for argument"  # it gets corpus and world from us
    if wrong := re.search(rf"(?:unexpected keyword argument|{twice}) '(\w+)'", error):
        return f"it has no option {wrong[1]!r}"
    if "missing" not in error:
        return error
    options = ", ".join(f'"{option}": …' for option in re.findall(r"'(\w+)'", error))
    return f'needs more than its name: {{"name": "{name}", {options}}}'
