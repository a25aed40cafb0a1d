"""Saves and restores the prompt format a model was trained with, beside its weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..llms.base import Sampling
from ..utils.files import write_whole

NOTE = "searchgym.json"


def save_note(
    folder: str | os.PathLike[str],
    renderer: str | Mapping[str, Any] | None,
    sampling: Sampling,
    freeze: Sequence[str] = (),
) -> None:
    """Write ``searchgym.json`` into a model's folder.

    Args:
        renderer: Prompt format, by name or as a table; None: one that has no name.
        sampling: Sampling of the model in training. Its stop strings belong to the format, the
            rest is a record (``load_policy(as_trained=True)`` applies it).
        freeze: Patterns of parameters to freeze when the model is trained on, as ``TrainableLM``
            takes them.
    """
    note: dict[str, Any] = {"sampling": sampling._asdict()}
    if renderer is not None:
        note["renderer"] = renderer if isinstance(renderer, str) else dict(renderer)
    if freeze:
        note["freeze"] = list(freeze)
    write_whole(Path(folder) / NOTE, json.dumps(note, indent=1))


def read_note(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read ``{"renderer": …, "sampling": {…}, "freeze": […]}``; empty for other models.

    Raises:
        DataError: the file cannot be read.
    """
    path = Path(folder) / NOTE
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not isinstance(note, dict):
        raise DataError(f"{path} holds a {type(note).__name__}, expected a table")
    return note
