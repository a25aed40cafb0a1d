"""Threads and memory of a process that computes: PyTorch's, BLAS's and the C library's."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread() -> Iterator[int]:
    """PyTorch computes in one thread meanwhile; gives how many it has otherwise."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:  # a thread's own setting, and what threads that are yet to come begin with
        torch.set_num_threads(threads)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """NumPy multiplies matrices in one thread meanwhile, in the whole process. Where several Python
    threads ask for it, the first has its way."""
    with _blas().limit(limits=1):
        yield


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    # looks through all loaded libraries, NumPy's among them, which takes a while
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def in_turn() -> Iterator[Callable[..., Any]]:
    """The plain ``map``, where :func:`side_by_side` would do no good."""
    yield map


@contextmanager
def side_by_side(passes: int) -> Iterator[Callable[..., Any]]:
    """A ``map`` whose calls have one thread each, as many at once as PyTorch has threads. Those
    that have not begun when the context ends, by Ctrl-C for instance, are left out."""
    import torch

    with one_thread() as threads:
        workers = min(threads, passes)
        if workers <= 1:
            yield map
            return
        pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
        try:
            yield pool.map
        finally:
            pool.shutdown(cancel_futures=True)


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
