"""How a model in a folder was asked when it was trained, so that it is asked so again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..llms.base import Sampling

NOTE = "searchgym.json"


def save_note(folder: Path, renderer: str, sampling: Sampling, freeze: Sequence[str] = ()) -> None:
    """Write it beside the model. ``freeze``: parameters that stand still when it is trained on, as
    ``TrainableLM`` takes them."""
    note: dict[str, Any] = {"renderer": renderer, "sampling": sampling._asdict()}
    if freeze:
        note["freeze"] = list(freeze)
    (folder / NOTE).write_text(json.dumps(note, indent=1), encoding="utf-8")


def read_note(folder: Path) -> dict[str, Any]:
    """``{"renderer": …, "sampling": {…}, "freeze": […]}``, or nothing for a model from elsewhere.
    ``DataError`` if it cannot be read."""
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise DataError(f"{folder / NOTE} cannot be read: {error}") from error
    if not isinstance(note, dict):
        raise DataError(f"{folder / NOTE} holds a {type(note).__name__}, expected a table")
    return note
