"""Saves and restores the prompt format a model was trained with, beside its weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError, EngineError
from ..llms.base import Sampling
from ..storage.files import read_json, write_whole
from ..utils.trust import check_allowed, refuse, registered_only
from .external import RENDERERS, renderer_parts

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
        DataError: the file cannot be read, or holds something else.
        CardError: it names a renderer of somebody's own, or an option of a renderer that is no
            switch or number, and is not trusted.
    """
    path = Path(folder) / NOTE
    try:
        note = read_json(path)
    except FileNotFoundError:
        return {}
    if not isinstance(note, dict):
        raise DataError(f"{path} holds a {type(note).__name__}, expected a table")
    freeze = note.get("freeze", [])
    if not isinstance(note.get("sampling", {}), dict) or not (
        isinstance(freeze, list) and all(isinstance(pattern, str) for pattern in freeze)
    ):
        raise DataError(f"{path}: 'sampling' is a table and 'freeze' a list of patterns")
    if (renderer := note.get("renderer")) is not None:
        with registered_only(path):
            _check_renderer(path, renderer)
    return note


def _check_renderer(path: Path, renderer: Any) -> None:
    if not isinstance(renderer, str | dict):
        raise DataError(f"{path}: 'renderer' is a name or a table, got {renderer!r:.80}")
    try:
        use, options = renderer_parts(renderer)
    except EngineError as error:
        raise DataError(f"{path}: {error}") from error
    if use not in RENDERERS:
        check_allowed(use)
    for name, value in options.items():
        if not (value is None or isinstance(value, bool | int | float) or name == "unstable"):
            refuse(f"the option {name!r} of a renderer")  # such as another chat template
