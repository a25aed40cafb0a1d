"""Hands weights to other processes through a folder of safetensors files; the newest counts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import EngineError
from ...llms.handover import place_for, size_of

if TYPE_CHECKING:
    from torch import Tensor


KEPT = 3
"""Number of files at once while one is written: it and the two before."""


def new_folder(needed: int = 0) -> Path:
    """Make a folder with room for ``needed`` bytes, in memory where the system allows; the caller
    removes it. ``EngineError`` if there is no such place."""
    return Path(tempfile.mkdtemp(prefix="searchgym-weights-", dir=place_for(needed)))


def pick_staging_dir(folder: Path, weights: Mapping[str, Tensor]) -> Path:
    """Return ``folder``, an empty one, or another in its stead if the weights do not fit."""
    needed = KEPT * size_of(weights)
    if shutil.disk_usage(folder).free >= needed:
        return folder
    larger = new_folder(needed)
    shutil.rmtree(folder)
    return larger


def publish(folder: Path, weights: Mapping[str, Tensor], version: int) -> None:
    """Write a whole state dict as ``version``; the one before stays for those that are reading
    it."""
    from safetensors.torch import save_file

    partial = folder / "new.part"
    save_file({n: w.detach().cpu().contiguous() for n, w in weights.items()}, str(partial))
    os.replace(partial, folder / f"{version}.safetensors")
    for old in _versions(folder)[:-2]:
        (folder / f"{old}.safetensors").unlink(missing_ok=True)


def newest(folder: Path, than: int | None) -> tuple[int, dict[str, Tensor]] | None:
    """Read the latest version and its weights; None if that is ``than``.

    Raises:
        EngineError: there is none at all.
    """
    from safetensors.torch import load_file

    for _ in range(100):  # while it is opened, two newer ones may push it out
        versions = _versions(folder)
        if not versions:
            raise EngineError(f"{folder} holds no weights: the trainer is gone")
        if versions[-1] == than:
            return None
        try:
            return versions[-1], load_file(str(folder / f"{versions[-1]}.safetensors"))
        except FileNotFoundError:
            continue
    raise EngineError(f"weights in {folder} are replaced faster than they can be read")


def _versions(folder: Path) -> list[int]:
    try:
        return sorted(int(p.stem) for p in folder.glob("*.safetensors"))
    except FileNotFoundError:
        return []
