"""A loop in a thread: shared by callers, started anew after close and fork, ended when unheld."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from searchgym.utils.http import BackgroundLoop

NAME = "test-loop"


def threads() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


def files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def where() -> tuple[str, int]:
    return threading.current_thread().name, id(asyncio.get_running_loop())


def test_blocking_and_asynchronous_callers_share_a_loop() -> None:
    background = BackgroundLoop(NAME)
    name, loop = background.wait(where())
    assert name == NAME
    assert asyncio.run(background.arun(where())) == (NAME, loop)
    background.close()
    assert threads() == 0
    assert background.wait(where())[0] == NAME, "a later call starts anew"
    background.close()
    background.close()


def test_close_gives_up_what_is_under_way_and_tells_its_callers() -> None:
    background, got = BackgroundLoop(NAME), []
    started = threading.Event()

    async def endless() -> None:
        started.set()
        await asyncio.sleep(3600)

    def call() -> None:
        try:
            background.wait(endless())
        except concurrent.futures.CancelledError as error:
            got.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    assert started.wait(10)
    background.close()
    caller.join(10)
    assert not caller.is_alive()
    assert len(got) == 1


def test_cancelling_an_asynchronous_caller_cancels_the_work() -> None:
    background, ended = BackgroundLoop(NAME), threading.Event()

    async def endless() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async def impatient() -> None:
        await asyncio.wait_for(background.arun(endless()), 0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert ended.wait(10)
    background.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
@pytest.mark.parametrize("closed", [True, False])
def test_neither_threads_nor_files_are_left(closed: bool) -> None:
    gc.collect()
    before = files()
    for _ in range(5):
        background = BackgroundLoop(NAME)
        background.wait(where())
        if closed:
            background.close()
        del background
    gc.collect()
    end = time.monotonic() + 10
    while (threads() or files() > before) and time.monotonic() < end:
        time.sleep(0.01)
    assert (threads(), files()) == (0, before)


def _child(background: BackgroundLoop, answers: Any) -> None:
    answers.put(background.wait(where())[0])
    background.close()


def test_a_forked_child_has_a_loop_of_its_own() -> None:
    background = BackgroundLoop(NAME)
    background.wait(where())
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_child, args=(background, answers))
    child.start()
    child.join(20)
    if child.is_alive():
        child.kill()
    assert child.exitcode == 0, "the child waited for a thread it does not have"
    assert answers.get() == NAME
    assert background.wait(where())[0] == NAME, "the parent's still runs"
    background.close()
