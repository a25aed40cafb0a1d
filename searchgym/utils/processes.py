"""Maps over items in several processes, and crews of processes that talk to their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pickle import PicklingError
from typing import Any, NamedTuple, TypeVar

from ..errors import EvaluationError, SearchGymError

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


class CrewMessage(NamedTuple):
    """Message that a worker of a crew has sent."""

    worker: int
    kind: str
    """``"ended"`` where its work has returned ``value``; else as it chose."""
    value: Any
    reply: Callable[[Any], None]
    """Function that answers it, where the worker waits for that."""


class Crew:
    """Spawned processes that each do a share of the work and send messages about it.

    Args:
        work: Called in each process as ``work(channel, share)``: a function of a module.
        shares: What each is given; as many processes as shares.
        instead: What to do where a share does not pickle, for the error.

    Used as a context, whose end ends every process. Interrupts are left to this process.

    Raises:
        EvaluationError: A share does not pickle.
    """

    def __init__(
        self, work: Callable[[Channel, Any], Any], shares: Sequence[Any], instead: str
    ) -> None:
        self._work, self._shares, self._instead = work, shares, instead
        self._crew: dict[Connection, tuple[int, Any]] = {}

    def __enter__(self) -> Crew:
        spawn = multiprocessing.get_context("spawn")
        for number, share in enumerate(self._shares):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_share, args=(theirs, self._work, share), daemon=True)
            try:
                process.start()
            except (AttributeError, TypeError, PicklingError) as error:
                self._end()
                raise EvaluationError(
                    f"this agent or environment cannot be sent to other processes ({error}); "
                    f"{self._instead}"
                ) from error
            theirs.close()
            self._crew[ours] = number, process
        return self

    def messages(self) -> Iterator[CrewMessage]:
        """Yield what the processes send until all have ended.

        Raises:
            EvaluationError: One failed (with its error) or was killed.
        """
        while self._crew:
            for connection in wait(list(self._crew)):
                assert isinstance(connection, Connection)
                number, process = self._crew[connection]
                try:
                    kind, value = connection.recv()
                    if kind not in ("ended", "failed"):
                        yield CrewMessage(number, kind, value, partial(_reply, connection))
                except (EOFError, ConnectionError):
                    process.join()
                    raise EvaluationError(
                        f"a worker died (exit code {process.exitcode}): out of memory, or "
                        "the script that asks for workers does so without 'if __name__ == "
                        '"__main__":\'; what was finished is kept, start again to go on'
                    ) from None
                if kind == "failed":
                    raise EvaluationError(f"a worker failed: {value}")
                if kind == "ended":
                    del self._crew[connection]
                    process.join()
                    connection.close()
                    yield CrewMessage(number, kind, value, partial(_reply, connection))

    def __exit__(self, *error: object) -> None:
        self._end()

    def _end(self) -> None:
        for connection, (_, process) in self._crew.items():
            process.terminate()
            process.join()
            connection.close()
        self._crew.clear()


def _reply(connection: Connection, answer: Any) -> None:
    with suppress(ConnectionError):  # that it has died, its next message tells
        connection.send(answer)


def _share(connection: Connection, work: Callable[[Channel, Any], Any], share: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends us
    parent = Channel(connection)
    with suppress(ParentGoneError):
        try:
            parent.send(("ended", work(parent, share)))
        except SearchGymError as error:
            parent.send(("failed", str(error)))
        except ParentGoneError:
            raise
        except Exception:  # whatever it is, the parent raises it, with its traceback
            parent.send(("failed", traceback.format_exc()))


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


PATIENCE = "finishing this step, then saving; Ctrl-C again stops at once"


@contextmanager
def patient(told: Callable[[], object] | None = None) -> Iterator[Callable[[], bool]]:
    """Let the step of a training finish on Ctrl-C and SIGTERM; a second one does not wait. Yields
    whether one came.

    A step that is broken off has half an update behind it, which no checkpoint should hold. Only
    the main thread gets signals: in others nothing changes.

    Args:
        told: Called when one came; by default :data:`PATIENCE` goes to standard error. It may not
            print, since a signal may interrupt another print.
    """
    came = False

    def handler(number: int, frame: object) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True
        told() if told is not None else os.write(2, f"{PATIENCE}\n".encode())

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    old = [signal.signal(number, handler) for number in numbers]
    try:
        yield lambda: came
    finally:
        for number, before in zip(numbers, old, strict=True):
            signal.signal(number, before)
