"""Result files of the laboratory: written piece by piece, so that a stopped run can be resumed."""

from __future__ import annotations

import datetime
import json
import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from searchgym import __version__
from searchgym.errors import DataError, check_known
from searchgym.storage.files import read_json, write_whole


def stored(name: str) -> Path:
    """The shipped result of ``"gradients"``, ``"learning"`` or ``"orderings"``."""
    return Path(__file__).with_name(f"{name}.json")


def load(path: Path, kind: str = "methods") -> dict[str, Any]:
    """Read a result, whose measurements stand under ``kind``.

    Raises:
        DataError: no such file, or not a result of the laboratory.
    """
    try:
        loaded = read_json(path, nan=True)
    except FileNotFoundError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; searchgym lab --out writes it") \
            from error  # fmt: skip
    if not isinstance(loaded, dict) or not {"settings", kind} <= set(loaded):
        raise DataError(f"{path}: not a result of this kind: it has no settings or no {kind}")
    return loaded


def chosen(result: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The result of some methods alone, and of those whose gradients are the same.

    Raises:
        CardError: nothing is stored of one.
    """
    measured = result["methods"]
    check_known("stored method", measured, *names)
    twins = [measured[name]["same_as"] for name in names if "same_as" in measured[name]]
    return {**result, "methods": {name: measured[name] for name in (*names, *twins)}}


def resumed(
    path: Path | None,
    settings: Mapping[str, Any],
    names: Iterable[str],
    measure: Callable[[str, dict[str, Any]], Any],
    kind: str = "methods",
) -> dict[str, Any]:
    """Measure each method that ``path`` does not hold yet; write the file after each.

    Args:
        path: Where the result is kept; None: nowhere.
        settings: What was measured how. A file with others is refused.
        measure: Given a method's name and the result so far; returns JSON values, which may hold
            numbers that are not finite.
        kind: Under which they stand in the file, where they are no methods.

    Raises:
        DataError: the file holds a result under other settings, or cannot be written.
    """
    wanted = json.loads(json.dumps(settings))
    result: dict[str, Any] = {**about(), "settings": wanted, kind: {}}
    if path is not None and path.exists():
        kept = load(path, kind)
        if kept["settings"] != wanted:
            raise DataError(
                f"{path} was measured with {kept['settings']}, not {wanted}: name another file, "
                "or delete it"
            )
        result[kind] = kept[kind]
    for name in names:
        if name in result[kind]:
            continue
        result[kind][name] = finite(measure(name, result))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(result, indent=1) + "\n")
    return result


def about() -> dict[str, Any]:
    """Date and versions."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "searchgym": __version__,
        "python": platform.python_version(),
        "torch": version("torch").partition("+")[0],
        "numpy": version("numpy"),
    }


def finite(value: Any) -> Any:
    """JSON values: a number that is not finite becomes null, others keep five digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
