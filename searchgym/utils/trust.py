"""Decides which files may name code: none that somebody else may have written, unless trusted.

Cards, recipes and ``--set`` values that a person names on the command line may name classes and
functions by import path. Files that are found in folders (a run's ``run.json``, a model's
``searchgym.json``, results, snapshots, trajectories) may only name registered items, and of their
options none that opens, connects or starts something: whoever builds such a thing asks
:func:`refuse` first.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import CardError
from ..plugins import is_shipped


class Reading(NamedTuple):
    """The file whose names are being resolved."""

    origin: str
    trusted: bool
    sources: Mapping[str, str]


_READING: ContextVar[Reading | None] = ContextVar("searchgym_reading", default=None)
_NAMED: dict[str, Any] = {}
"""Import path → object, of everything that the caller of this process has named. A file may
name the same again: its code is known."""


@contextmanager
def registered_only(
    origin: str | os.PathLike[str] = "this file",
    *,
    trust: bool = False,
    sources: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Refuse import paths while a file is read: registered names only.

    A path that the caller has named in this process is accepted, too. Where one reading
    contains another, the outermost decides.

    Args:
        origin: The file, for the error.
        trust: Accept import paths. Those in ``sources`` must still have the same source code.
        sources: Import path → :func:`source_digest` when the file was written.

    Raises:
        CardError: inside, for every import path that is refused.
    """
    if _READING.get() is not None:
        yield
        return
    token = _READING.set(Reading(os.fspath(origin), trust, sources or {}))
    try:
        yield
    finally:
        _READING.reset(token)


def note(name: str) -> None:
    """Note that the caller of this process has named something; a file may name it, too."""
    if _READING.get() is None:
        _NAMED.setdefault(name, None)


def allowed(name: str) -> bool:
    """Return whether a file may name what is not registered: the caller has named it, or
    reads the file with trust."""
    reading = _READING.get()
    return name in _NAMED or (reading is not None and reading.trusted)


def untrusted() -> bool:
    """Return whether a file is being read that others may have written, and nobody trusts it."""
    reading = _READING.get()
    return reading is not None and not reading.trusted


def refuse(what: str) -> None:
    """``CardError`` if a file is being read that others may have written: it may not name ``what``,
    which would be opened, connected to, downloaded or started."""
    reading = _READING.get()
    if reading is not None and not reading.trusted:
        raise CardError(
            f"{reading.origin} names {what}: files may name shipped corpora, engines in memory and "
            "plain options only. If you trust its author, add --trust (in Python: trust=True)"
        )


def check_allowed(path: str) -> None:
    """``CardError`` if the file that is being read may not name the import path ``path``."""
    reading = _READING.get()
    if reading is not None and not allowed(path):
        raise CardError(
            f"{reading.origin} names code, {path!r}, which would be run: files may name registered "
            "items only. If you trust its author, add --trust (in Python: trust=True)"
        )


def source_digest(thing: Any) -> str | None:
    """SHA-256 of the source code of a class, function, module or (its class's) object; of the
    module's file where Python finds no source of the part. None if there is no file, as for
    built-in functions and what was typed at a prompt."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    if not (inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing)):
        thing = type(thing)
    try:
        return hashlib.sha256(inspect.getsource(thing).encode()).hexdigest()
    except (OSError, TypeError):
        module = sys.modules.get(getattr(thing, "__module__", ""))
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).is_file():
            return None
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def named_sources(values: Any) -> dict[str, str]:
    """Import path → source digest of every import path among the strings of plain containers, keys
    included, that has been loaded in this process: what a run's record keeps of its own parts."""
    named: dict[str, str] = {}
    if isinstance(values, str):
        path = values.partition("+")[0]  # a dialect's options are appended to its name
        if path in _NAMED and (digest := source_digest(_NAMED[path])) is not None:
            named[path] = digest
    elif isinstance(values, Mapping):
        for name, value in values.items():  # {"mine:brevity": 0.1} weighs a part by its path
            named |= named_sources(name) | named_sources(value)
    elif isinstance(values, Sequence):
        for value in values:
            named |= named_sources(value)
    return named


def own_sources(values: Any) -> dict[str, str]:
    """Name → source digest of all in plain containers that is not SearchGym's: import paths that
    have been loaded (:func:`named_sources`), functions, classes and objects."""
    if isinstance(values, str):
        return named_sources(values)
    if isinstance(values, Mapping):
        return own_sources([*values.keys(), *values.values()])
    if isinstance(values, (list, tuple, set, frozenset)):
        return {name: one for value in values for name, one in own_sources(value).items()}
    while isinstance(values, functools.partial):
        values = values.func
    kind = values if inspect.isclass(values) or inspect.isroutine(values) else type(values)
    module = getattr(kind, "__module__", None) or ""
    if is_shipped(module) or module in ("builtins", ""):
        return {}
    digest = source_digest(kind)
    return {} if digest is None else {f"{module}:{kind.__qualname__}": digest}


CODE = ("tools", "dialect", "instructions", "families", "tasks")
"""Keywords of an environment, besides its reward, that may name code. (An engine has a
fingerprint.)"""


def own_code(env: Any) -> dict[str, str]:
    """Name → source digest of an environment's class, parts and wrappers that are not ours."""
    parts = [env.setup.keywords.get(name) for name in CODE]
    measures = [part.measure for part in env.rules.reward.own]
    layers = getattr(env, "layers", ())  # of one that is played through them
    acting = [part for layer in layers for part in (layer, getattr(layer, "func", None))]
    return own_sources([type(env), *parts, *measures, *env.reward_transforms, *acting])


def check_sources(sources: Mapping[str, str], origin: str | os.PathLike[str]) -> None:
    """``CardError`` if a part that was loaded in this process has other source code than recorded
    in ``origin``."""
    for path in sources.keys() & _NAMED.keys():
        _check_source(path, _NAMED[path], sources, os.fspath(origin))


def remember(path: str, loaded: Any) -> None:
    """Note that an import path has been loaded; ``CardError`` if its source code is not what the
    file being read recorded."""
    reading = _READING.get()
    if reading is not None:
        _check_source(path, loaded, reading.sources, reading.origin)
    _NAMED[path] = loaded


def _check_source(path: str, loaded: Any, sources: Mapping[str, str], origin: str) -> None:
    if path in sources and source_digest(loaded) != sources[path]:
        raise CardError(
            f"the source code of {path!r} is not what it was when {origin} was written: put the "
            "old code back, or begin anew with another --out"
        )
