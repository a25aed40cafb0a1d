"""Staging folder for weights on their way to rollout workers (``/dev/shm`` if they fit)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

SHARED = "/dev/shm"
"""Linux keeps its files in memory; containers often give it 64 MB."""


def size_of(weights: Mapping[str, Tensor]) -> int:
    """Size in bytes."""
    return sum(weight.numel() * weight.element_size() for weight in weights.values())


def place_for(needed: int) -> str:
    """A folder with room for so many bytes: ``SHARED``, else the one for temporary files.

    Raises:
        EngineError: neither has room; says what each has.
    """
    full: list[str] = []
    for folder in (SHARED, tempfile.gettempdir()):
        if os.path.isdir(folder) and os.access(folder, os.W_OK):
            free = shutil.disk_usage(folder).free
            if free >= needed:
                return folder
            full.append(f"{folder} has {free / 2**30:.2f} GiB free")
    raise EngineError(
        f"weights are handed over through a file, which needs {needed / 2**30:.2f} GiB: "
        f"{', '.join(full) or 'no folder can be written to'}. Make room there, give the container "
        "a larger /dev/shm (docker run --shm-size), or set TMPDIR to a folder with room"
    )
