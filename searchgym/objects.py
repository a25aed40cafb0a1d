"""Turns what a person writes into an object: a name, an import path, a table, or the object itself.

Two promises are kept here. A class is checked against what its place takes *before* it is called,
so that ``schedule = "subprocess:Popen"`` starts nothing. And while a file is read that others
may have written (``searchgym.utils.trust``), an import path is refused: it would be code.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import math
import numbers
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from .errors import CardError, SearchGymError, unknown
from .utils.trust import check_allowed, remember

_FOLDERS: list[str] = []
"""Folders in which modules are looked for besides ``sys.path`` once a module in one is named."""


class Remembering:
    """Base of objects whose state, for a checkpoint, is that of some of their attributes."""

    remembers: ClassVar[tuple[str, ...]] = ()
    """Names of these attributes, beside those that the bases name: JSON values, or objects with a
    state of their own. The state has them without a ``_`` in front."""

    def state_dict(self) -> dict[str, Any]:
        """JSON values."""
        state = {}
        for name in self._remembered():
            value = getattr(self, name)
            own = getattr(value, "state_dict", None)
            state[name.lstrip("_")] = copy.deepcopy(value) if own is None else own()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state_dict`` gave."""
        for name in self._remembered():
            load = getattr(getattr(self, name), "load_state_dict", None)
            value = state[name.lstrip("_")]
            if load is None:
                setattr(self, name, copy.deepcopy(value))
            else:
                load(value)

    def _remembered(self) -> list[str]:
        bases = reversed(type(self).__mro__)
        return [name for base in bases for name in vars(base).get("remembers", ())]


def is_path(name: str) -> bool:
    """Return whether a name is a path: it contains a separator (``./random``, ``runs/x``) or is
    ``.`` or ``..``. A bare name always means what is shipped, whatever lies in the working
    directory."""
    return name in (".", "..") or "/" in name or os.sep in name


def own_folder(name: str, file: str = "card.toml") -> Path | None:
    """The folder that ``name`` means if it is a path and holds ``file``, else None."""
    return Path(name) if is_path(name) and (Path(name) / file).is_file() else None


def bare_hint(name: str) -> str:
    """Return a hint for an error about an unknown bare name: how to write the folder or file of
    that name in the working directory. Empty if there is none."""
    if not name or is_path(name) or not Path(name).exists():
        return ""
    return f". What lies here under that name is written ./{name}"


def also_look_in(folder: str) -> None:
    """Look for modules in ``folder``, too, after everything else, once an import path is named."""
    if folder not in _FOLDERS:
        _FOLDERS.append(folder)


def load_module(name: str, path: str | None = None) -> Any:
    """The module that a person names; ``path`` is its spelling, for errors and records.

    Raises:
        CardError: it cannot be imported, or the file being read may not name code.
    """
    path = path or name
    check_allowed(path)
    module = _imported(name, path)
    remember(path, module)
    return module


def load_object(path: str) -> Any:
    """The object that a ``"package.module:Name"`` string names.

    Raises:
        CardError: another form, nothing there, or the file being read may not name code.
    """
    module, _, name = path.partition(":")
    if not name or not module:
        raise CardError(f"{path!r} is not of the form 'package.module:Name'")
    check_allowed(path)
    imported = _imported(module, path)
    try:
        loaded = functools.reduce(getattr, name.split("."), imported)
    except AttributeError as error:
        raise CardError(f"cannot load {path!r}: {error}") from error
    remember(path, loaded)
    return loaded


def _imported(module: str, path: str) -> Any:
    sys.path += [folder for folder in _FOLDERS if folder not in sys.path]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise CardError(f"cannot load {path!r}: {error}") from error


def load_known(entry: Any) -> Any:
    """Return what an entry of a registry stands for: the object at an import path of ours, or
    itself."""
    if not isinstance(entry, str):
        return entry
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


def from_spec(
    kind: str,
    spec: Any,
    known: Mapping[str, Any],
    *,
    accepts: type | Sequence[str] | None = None,
    functions: bool = False,
) -> Any:
    """An object from a name of ``known`` (name → import path or object), another import path, a
    table ``{"use": either or a class, **options}``, or an object, which is returned.

    Classes are called with the options; a function is the object itself, its options bound by
    ``functools.partial``; any other object is taken as it is.

    Args:
        kind: What it is to be, for errors: "reward", "schedule", …
        spec: What the person wrote.
        known: The registered items.
        accepts: What the place takes: a class, a protocol, or the names of the methods it calls.
            Checked before a class is called.
        functions: Whether a plain function is accepted besides.

    Raises:
        CardError: an unknown name or option, or what does not fit the place.
    """
    if isinstance(spec, str):
        spec = {"use": spec}
    if not isinstance(spec, Mapping):
        return spec
    options = dict(spec)
    use = options.pop("use", None)
    if inspect.isclass(use) or inspect.isroutine(use):
        use, loaded = use.__qualname__, use
    elif not isinstance(use, str):
        raise CardError(
            f"{article(kind)} table names its object: {{use = 'name or package.module:Class', …}}, "
            f"got {sorted(map(str, spec))}"
        )
    elif use not in known and ":" not in use:
        raise CardError(unknown(kind, use, known) + ", or 'package.module:Class'")
    else:
        loaded = load_known(known[use]) if use in known else load_object(use)
    if accepts is not None:
        check_fits(kind, use, loaded, accepts, functions=functions)
    if inspect.isroutine(loaded):
        if options:
            check_options(f"{kind} {use!r}", loaded, options, complete=False)
        return functools.partial(loaded, **options) if options else loaded
    if not inspect.isclass(loaded):
        if options:
            raise CardError(f"{kind} {use!r} is an object already and takes no options")
        return loaded
    return build(f"{kind} {use!r}", loaded, options)


def build(what: str, make: Any, options: Mapping[str, Any], *arguments: Any) -> Any:
    """``make(*arguments, **options)``; ``CardError`` for options it does not take, naming those it
    does, and for values that it refuses."""
    check_options(what, make, options, given=len(arguments))
    try:
        return make(*arguments, **options)
    except (TypeError, ValueError, OverflowError) as error:
        name = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if name is not None and name[1] in options and inspect.isclass(make):
            known = [option for base in make.__mro__ for option in _options_of(base)]
            raise CardError(unknown(f"option of {what}", name[1], set(known))) from error
        raise CardError(f"{what}: {error}") from error


def _options_of(base: type) -> list[str]:
    own = vars(base).get("__init__")
    if not inspect.isfunction(own):
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = list(inspect.signature(own).parameters.values())[1:]
    return [p.name for p in parameters if p.kind in named]


def check_options(
    what: str, make: Any, options: Mapping[str, Any], *, given: int = 0, complete: bool = True
) -> None:
    """Raise ``CardError`` for an option that ``make`` does not take, one that it needs, or a value
    of another kind than a plain annotation of it says; objects are left to ``make``.

    ``given``: positional arguments that it gets besides. ``complete=False``: the rest of its
    arguments comes when it is called; a function's that have no default are then no options.
    """
    try:
        parameters = list(inspect.signature(make).parameters.values())[given:]
    except (TypeError, ValueError):  # some built-in ones have no signature
        return
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for name in options:
            if name not in named:
                later = inspect.isroutine(make) and not complete
                known = [n for n, p in named.items() if not later or _has_default(p)]
                raise CardError(unknown(f"option of {what}", str(name), known))
    for name, value in options.items():
        if name in named and isinstance(value, _JSON):
            _check_kind(f"the option {name!r} of {what}", named[name], value)
    lacking = [n for n, p in named.items() if p.default is p.empty and n not in options]
    if lacking and complete:
        raise CardError(f"{what} needs {', '.join(map(repr, lacking))}; options: {sorted(named)}")


_JSON = (str, int, float, list, tuple, Mapping, type(None))
_ANNOTATION = re.compile(r"(?:Annotated\[)?(int|float|bool|str)( \| None)?(?:,.*)?", re.DOTALL)
_PLAIN: Mapping[str, tuple[str, type | tuple[type, ...]]] = {
    "int": ("a whole number", int), "float": ("a number", (int, float)),
    "bool": ("true or false", bool), "str": ("a text", str),
}  # fmt: skip


def _check_kind(what: str, parameter: inspect.Parameter, value: Any) -> None:
    """``CardError`` for a JSON value of another kind than an annotation such as ``int | None``, or
    one that is no number (nan)."""
    kind: Any = parameter.annotation
    text = getattr(kind, "__forward_arg__", getattr(kind, "__name__", kind))
    match = _ANNOTATION.fullmatch(text if isinstance(text, str) else str(text))
    if match is None or (value is None and (match[2] or parameter.default is None)):
        return
    said, types = _PLAIN[match[1]]
    switch = isinstance(value, bool) and match[1] != "bool"
    if switch or not isinstance(value, types) or value != value:
        raise CardError(f"{what} is {said}{' or none' if match[2] else ''}, got {value!r:.80}")


def _has_default(parameter: inspect.Parameter) -> bool:
    return parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY


def check_fits(
    kind: str, use: str, loaded: Any, accepts: type | Sequence[str], *, functions: bool = False
) -> None:
    """``CardError`` if ``loaded`` cannot be a ``kind``; calls nothing."""
    if inspect.isroutine(loaded):
        if not functions:
            raise CardError(f"{use!r} is a function, and {article(kind)} is {_wanted(accepts)}")
        return
    made = loaded if inspect.isclass(loaded) else type(loaded)
    if isinstance(accepts, type) and not getattr(accepts, "_is_protocol", False):
        if not issubclass(made, accepts):
            raise CardError(f"{use!r} cannot be {article(kind)}: it is not {_wanted(accepts)}")
        return
    lacking = [n for n in _methods(accepts) if not any(n in vars(base) for base in made.__mro__)]
    if lacking:
        raise CardError(f"{use!r} cannot be {article(kind)}: it has no {', '.join(lacking)}")


def _methods(accepts: type | Sequence[str]) -> list[str]:
    """The methods a place calls. Attributes of a protocol are left out: ``__init__`` may set them,
    so a class need not have them."""
    if not isinstance(accepts, type):
        return list(accepts)
    bases = [base for base in accepts.__mro__ if getattr(base, "_is_protocol", False)]
    return sorted(
        {
            name
            for base in bases
            for name, value in vars(base).items()
            if inspect.isfunction(value)
            and name not in ("__init__", "__subclasshook__", "_no_init_or_replace_init")
        }
    )


def _wanted(accepts: type | Sequence[str]) -> str:
    if isinstance(accepts, type):
        return f"a class like {accepts.__module__}.{accepts.__qualname__}"
    return f"a class with {', '.join(accepts)}"


def article(noun: str) -> str:
    """The noun with "a" or "an" before it."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def is_number(value: object) -> bool:
    """Return True if a value is a finite number (and not a truth value, which Python counts as
    one)."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def check_whole(
    name: str, value: object, least: int, *, error: type[SearchGymError] = CardError
) -> None:
    """Raise ``error`` unless a value is a whole number of at least ``least`` (a truth value, which
    Python counts as one, is none)."""
    plain = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not plain or value < least:  # type: ignore[operator]
        raise error(f"{name} must be a whole number of at least {least}, got {value!r:.80}")


def check_number(
    name: str, value: Any, low: float, high: float = math.inf, *, above: bool = False
) -> None:
    """Raise ``CardError`` unless a value is a finite number from ``low`` (``above`` it) to
    ``high``."""
    if is_number(value) and low <= value <= high and not (above and value == low):
        return
    least = f"above {low:g}" if above else f"of at least {low:g}"
    most = "" if high == math.inf else f" and at most {high:g}"
    raise CardError(f"{name} must be a finite number {least}{most}, got {value!r:.80}")


def leaves(value: object, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value within tables and lists, each with the nearest key above it."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from leaves(part, str(name))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part, key)
    else:
        yield key, value
