"""Threads of PyTorch and of NumPy's BLAS: small work has one, passes through a network run side by
side.

Threads that share one product wait for each other after each. Where another program has one of the
cores, each wait lasts until it lets go: small networks then take ten times as long. Work that is
cut into passes, with one thread each, has nothing to wait for, and its bits do not depend on how
many threads there are.
"""

from __future__ import annotations

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
