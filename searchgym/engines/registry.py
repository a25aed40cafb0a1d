"""Engines by name: what ``engine="bm25"`` of an environment means."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

from ..corpora.corpus import Corpus
from ..errors import CardError, EngineError, unknown
from ..objects import check_fits, load_known, load_object
from ..plugins import Registry
from ..types import SearchEngine
from ..utils.trust import refuse
from ..worlds.world import World

Maker = Callable[..., SearchEngine]

ENGINES = Registry(
    "engine",
    {
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
    },
    package="searchgym.engines",
)
"""Name → ``make(corpus, world, **options)``, itself or its import path (read when first used, for
some need heavy libraries). Add your own before making an environment."""

OPEN: Mapping[str, frozenset[str]] = {
    name: frozenset(options.split())
    for name, options in {
        "bm25": "k1 b stemmer stopwords method fields lowercase unicode",
        "graph": "mode passages beam",
        "hybrid": "engines fusion constant weights mean depth",
        "degraded": "engine noise stale contradict duplicate seo dead adversarial shuffle latency "
        "outage dates latency_s timeout_s rank attack",
        "simulated_rules": "noise words threshold",
    }.items()
}
"""Engines that a file of others may name, and their options that it may set: all work in memory,
and no option is opened, waited for or run. Engines within them are checked alike. One that is not
listed says so itself: ``make.open_options = frozenset({"k1", "b"})``."""


def build_engine(
    spec: str | Mapping[str, Any] | SearchEngine | type, corpus: Corpus, world: World | None = None
) -> SearchEngine:
    """An engine over ``corpus`` from its name, or from ``{"name": …, **options}``.

    A class, itself or as ``"package.module:Class"``, is called as ``Class(corpus, **options)``. A
    ready engine is passed through. ``EngineError`` for unknown names and options, for what lacks
    some of :data:`MEMBERS`, and for all but :data:`OPEN` while a file is read that others may have
    written (:mod:`searchgym.utils.trust`).
    """
    if isinstance(spec, type):
        spec = {"name": spec}
    if not isinstance(spec, str | Mapping):
        if not hasattr(spec, "run"):
            raise EngineError(
                "an engine is a name, a mapping with 'name', or a service: a class or an object "
                f"with {', '.join(MEMBERS)}; got {type(spec).__name__}"
            )
        return _checked(spec, type(spec).__name__)
    options = {} if isinstance(spec, str) else {k: v for k, v in spec.items() if k != "name"}
    name = spec if isinstance(spec, str) else spec.get("name")
    make: Any = name
    if isinstance(name, type):
        name = f"{name.__module__}:{name.__qualname__}"
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
            make = load_object(name) if isinstance(make, str) else make
            if isinstance(make, type):
                _checked(make, name)
            else:
                check_fits("engine", name, make, tuple(MEMBERS))
            return _checked(make(corpus, **options), name)
    except CardError as error:
        raise EngineError(str(error)) from error
    except TypeError as error:
        if "argument" not in str(error):
            raise
        maker = load_known(ENGINES[name]) if name in ENGINES else make
        raise EngineError(f"engine {name!r}: {_explained(name, str(error), maker)}") from error
    raise EngineError(unknown("engine", name, ENGINES) + ", or 'package.module:Class'")


MEMBERS: Mapping[str, str] = {
    "run": "run(batch), which gives a ranking (Hits, best first) for each Query",
    "cache_key": "cache_key(request), bytes that are equal where answers are, or None",
    "needs_task": "needs_task, whether it must be told the question and its answers",
    "fingerprint": "fingerprint, a text that changes whenever answers may",
}
"""Members of an engine (``searchgym.types.Service``), and what they are."""


def _checked(engine: Any, name: str) -> Any:
    """The engine, or a class of engines, whose ``__init__`` may set members, too."""
    made = engine if isinstance(engine, type) else type(engine)
    code = getattr(made.__init__, "__code__", None) if made is engine else None
    later = code.co_names if code else ()
    lacking = [said for member, said in MEMBERS.items()
               if not hasattr(engine, member) and member not in later]  # fmt: skip
    if lacking:
        raise EngineError(f"{name!r} cannot be an engine: it lacks {'; '.join(lacking)}")
    return engine


def check_open(spec: Any) -> None:
    """``CardError`` for an engine that the file which is being read may not name."""
    name, options = (spec, {}) if not isinstance(spec, Mapping) else (spec.get("name"), spec)
    if name == "self" or (isinstance(name, str) and ":" in name):
        return  # an import path is refused where it is loaded
    opened = OPEN.get(str(name))
    if opened is None and isinstance(name, str) and name in ENGINES:
        opened = getattr(load_known(ENGINES[name]), "open_options", None)
    if opened is None:
        refuse(f"the engine {name!r:.80}")
    for option in options:
        if option not in ("name", *(opened or ())):
            refuse(f"the option {option!r:.80} of the engine {name!r}")


def options_of(make: Any) -> Mapping[str, inspect.Parameter]:
    """Return the options of ``engine={…}``: those of what makes an engine, and of the class that it
    says it returns."""
    made = make if isinstance(make, type) else typing.get_type_hints(make).get("return")
    signatures = [
        inspect.signature(one)
        for one in (make, made)
        if one and not (typing.get_origin(one) or getattr(one, "_is_protocol", False))
    ]
    return {
        name: parameter
        for signature in signatures
        for name, parameter in signature.parameters.items()
        if (parameter.kind is parameter.KEYWORD_ONLY or parameter.default is not parameter.empty)
        and name not in ("corpus", "world")
        and not name.startswith("_")
    }  # fmt: skip


def _explained(name: str, error: str, make: Any) -> str:
    """Say what is wrong with arguments; of missing ones, how they are given."""
    twice = "multiple values for argument"  # it gets corpus and world from us
    if wrong := re.search(rf"(?:unexpected keyword argument|{twice}) '(\w+)'", error):
        return unknown("option", wrong[1], options_of(make))
    if "missing" not in error:
        return error
    options = ", ".join(f'"{option}": …' for option in re.findall(r"'(\w+)'", error))
    return f'needs more than its name: {{"name": "{name}", {options}}}'
