"""Exceptions that SearchGym raises.

A policy's bad action is *not* an error: it is an ``Invalid`` value the episode answers.
A service's outage is not one either: it is a ``Failure`` value (see ``searchgym.types``).
Errors are for people: what was got, what was expected, what to type next.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Sequence


class SearchGymError(Exception):
    """Root of all errors below; the command line prints it as one line and exits with 2."""


class CardError(SearchGymError):
    """Raised when a catalogue card has a typo, a missing key or a value of the wrong kind."""


class DataError(SearchGymError):
    """Raised when a data file is absent, broken, or not what its digest says."""


class WorldError(SearchGymError):
    """Raised when a schema cannot be generated (impossible cardinality, unknown type, …)."""


class TaskError(SearchGymError):
    """Raised when tasks cannot be built as asked, or a task id is unknown."""


class EngineError(SearchGymError):
    """Raised when an engine is misconfigured (not when a query fails: that is a Failure)."""


class DialectError(SearchGymError):
    """Raised for an unknown dialect or option, or an action a dialect has no words for."""


class EpisodeError(SearchGymError):
    """Raised when the *caller* breaks the episode's order (``act`` while results are awaited)."""


class RewardError(SearchGymError):
    """Raised when a reward of one's own fails, or gives anything but a finite number."""


class CheckError(SearchGymError):
    """Raised by ``check_env`` with the first broken promise it finds."""


class EvaluationError(SearchGymError):
    """Raised when results cannot be compared or saved results are not what they should be."""


class MissingExtraError(SearchGymError, ImportError):
    """Raised when an optional package is needed and absent."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: pip install {_installable(extra)}")


def _installable(extra: str) -> str:
    """Argument of pip that adds an extra to this installation: to the checkout, where it is one."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = json.loads(distribution("searchgym").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    folder = str(origin.get("url", "")).removeprefix("file://")
    if origin.get("dir_info", {}).get("editable"):
        return f'-e "{folder}[{extra}]"'
    return f'"searchgym[{extra}]"' if not folder else f'"searchgym[{extra}] @ file://{folder}"'


MANY = 25
"""Number of names above which an error lists suggestions only."""


def unknown(kind: str, got: str, known: Iterable[str]) -> str:
    """The message for an unknown name: what was got, the nearest names, all that exist."""
    names = sorted(set(known))
    near = difflib.get_close_matches(got, names, n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    if near and len(names) > MANY:
        return f"unknown {kind} {got!r}.{hint} ({len(names)} are known)"
    shown = ", ".join(names[:40]) + (", …" if len(names) > 40 else "")
    return f"unknown {kind} {got!r}.{hint} Known: {shown or '(none)'}"


def check_known(
    kind: str, known: Collection[str], *names: object, error: type[Exception] = CardError
) -> None:
    """Raise ``error`` for the first of ``names`` that is not among ``known``."""
    for name in names:
        if name not in known:
            raise error(unknown(kind, str(name), known))


def mistakes(where: str, found: Sequence[str]) -> str:
    """The message for all that is wrong with a file; each line of ``found`` begins with ``where``,
    which is said once."""
    lines = list(dict.fromkeys(found))
    if len(lines) == 1:
        return lines[0]
    told = (f"({n}) {line.removeprefix(f'{where}: ')}" for n, line in enumerate(lines, 1))
    return f"{where}: {len(lines)} mistakes: {'; '.join(told)}"


def unknown_id(kind: str, got: str, known: Collection[str]) -> str:
    """The message for an id that is none of very many: the nearest, how many there are, the first.

    ``known`` in its own order.
    """
    near = difflib.get_close_matches(got, known, n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    first = f"; the first is {next(iter(known))!r}" if known else ""
    return f"unknown {kind} {got!r}.{hint} There are {len(known):,}{first}"
