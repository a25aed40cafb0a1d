"""An event loop in a thread of its own, for clients whose callers block or have another loop.

What needs one place in time (a pool of connections, a rate limit) lives on this loop; callers hand
it coroutines. After ``fork`` the child starts a loop of its own, for threads are not inherited.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


async def all_of(work: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """Run them side by side; the first that raises ends the others, too."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:  # cancelling, too: nobody waits for the rest any more
        for task in tasks:
            task.cancel()
        raise


class BackgroundLoop:
    """Starts when first used; ends with ``close``, or when this object is no longer referenced.

    What lives on the loop must be made there, anew after each start: ``LoopClient`` does that.
    ``name`` is the thread's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread
        self._ended: weakref.finalize[Any, Any] | None = None

    def wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run to the end, blocking the calling thread; an interrupt cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except BaseException:  # what nobody waits for must not go on
            future.cancel()
            raise

    async def hand_over(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run to the end without blocking the caller's event loop; cancelling cancels the work."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Cancel what is under way (its callers get ``CancelledError``), run ``last`` and end the
        thread; a later call starts anew. In a forked child there is nothing to end."""
        with self._guard:
            loop, self._loop = self._loop, None
            if loop is None or self._pid != os.getpid():
                return
            asyncio.run_coroutine_threadsafe(_wind_up(last), loop).result()
            if self._ended is not None:
                self._ended()
            self._thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._loop is None or self._pid != os.getpid():
                loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(
                    target=_serve, args=(loop,), daemon=True, name=self._name
                )
                self._thread.start()
                self._loop = loop
                self._ended = weakref.finalize(self, _stop, loop, os.getpid())
                self._ended.atexit = False  # a daemon: it ends with the process
            return self._loop


class LoopClient(ABC):
    """A client on a ``BackgroundLoop`` of its own, with what must be made on that loop.

    Every coroutine of its own calls ``_settle`` before it uses what ``_connect`` makes.
    """

    def __init__(self, thread: str) -> None:
        self._background = BackgroundLoop(thread)
        self._home: asyncio.AbstractEventLoop | None = None

    def wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run to the end, blocking the calling thread."""
        return self._background.wait(work)

    async def arun(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run to the end without blocking the caller's event loop; cancelling cancels the work."""
        return await self._background.hand_over(work)

    def close(self) -> None:
        """Give up what is under way, close connections and end the thread; a later call starts
        anew."""
        self._background.close(self._end)

    @abstractmethod
    def _connect(self) -> None:
        """Make what lives on the running loop."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Close it, on the same loop."""

    def _settle(self) -> None:
        """Make what lives on the running loop, unless it is there."""
        loop = asyncio.get_running_loop()
        if self._home is not loop:
            self._home = loop
            self._connect()

    async def _end(self) -> None:
        self._settle()
        await self._disconnect()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    if pid == os.getpid() and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


async def _wind_up(last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if last is not None:
        await last()
