"""Maps over items in several processes, and the worker's end of a pipe to its parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class ParentGoneError(Exception):
    """Raised when the process at the other end of a worker's pipe has ended."""


class Channel:
    """Worker's end of a pipe. Only its own failures mean that the parent has gone: a connection
    that an agent or an engine loses is an error like any other, to be told to the parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: Any) -> None:
        """Send a message; ``ParentGoneError`` if nothing reads it."""
        try:
            self._connection.send(message)
        except (EOFError, ConnectionError) as error:
            raise ParentGoneError from error

    def recv(self) -> Any:
        """Wait for the next message; ``ParentGoneError`` if none will come."""
        try:
            return self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise ParentGoneError from error


def mapped(work: Callable[[T], R], things: Sequence[T], processes: int = 1) -> Iterator[R]:
    """``work(thing)`` for each, in order.

    Args:
        work: With more than one process it and what it is given must pickle: a function of a
            module, or a ``functools.partial`` of one.
        things: Few and slow, or as lists of quick ones: each is handed over by itself.
        processes: 1 works here. Others are spawned, so a script that asks for them does so under
            ``if __name__ == "__main__":``. They end with this one, killed or interrupted.
    """
    processes = min(processes, len(things))
    if processes <= 1:
        yield from map(work, things)
        return
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=spawn, initializer=_follow_the_parent)
    try:
        yield from pool.map(work, things)
    finally:
        pool.shutdown(cancel_futures=True)


def _follow_the_parent() -> None:
    """Leave interrupts to the parent, and end if it is killed: the pool's queue, both of whose
    ends each worker holds, would never tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
