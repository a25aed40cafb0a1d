"""Memory that a training holds and does not need.

Passes of unequal length leave holes between the tensors that stay, and the C library keeps them for
later. After an update of a language model they can be four fifths of what the heap holds. Each
length also needs kernels of its own, which oneDNN keeps, too.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any


class _Info(ctypes.Structure):
    """Numbers that ``mallinfo2`` of glibc returns, in bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


def give_back(least: int = 1 << 30) -> bool:
    """Give free memory back to the system; says whether it did.

    What is needed again is then zeroed by the system anew, some quarter of a second for each
    gigabyte: call it between long steps.

    Args:
        least: Bytes; if the C library holds fewer than these, nothing is done. Nor is it where the
            C library cannot tell (glibc can, from version 2.33).
    """
    library = _glibc()
    if library is None or library.mallinfo2().fordblks < least:
        return False
    library.malloc_trim(0)
    return True


def keep_few_kernels(count: int = 64) -> None:
    """Limit the kernels that PyTorch and oneDNN each keep in this process to ``count``.

    They keep 1,024 of each kind by default. In a language model's updates every length is new, and
    a kernel takes up to a megabyte, while making one takes less than a millisecond. Limits that the
    environment sets already stay (``LRU_CACHE_CAPACITY``, ``ONEDNN_PRIMITIVE_CACHE_CAPACITY``).
    Nothing changes where PyTorch has multiplied in bfloat16 before.
    """
    for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(count))


@cache
def _glibc() -> Any:
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _Info
        library.malloc_trim.argtypes = [ctypes.c_size_t]
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return None
    return library
