"""Memory that is free but not given back.

Passes of unequal length leave holes between the tensors that stay, and the C library keeps them for
later. After an update of a language model they can be four fifths of what the heap holds.
"""

from __future__ import annotations

import ctypes
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


@cache
def _glibc() -> Any:
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _Info
        library.malloc_trim.argtypes = [ctypes.c_size_t]
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return None
    return library
