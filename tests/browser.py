"""Headless Chromium for tests of pages: Debian's browser, driven by Playwright.

A test module asks for the fixtures by importing them: ``from ..browser import browser, page``.
Where Chromium is missing the tests skip, except in continuous integration, where that is a failure.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The browser without the parts that are never seen takes half the time of the whole one."""
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
MUST_RUN = any(os.environ.get(name) for name in ("CI", "SEARCHGYM_NEEDS_CHROMIUM"))


def chromium() -> str:
    """The browser's path; skips without one, or fails where it has to be there."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        told = f"needs Chromium: apt-get install {NAMES[0]} (Debian), or set PATH"
        if MUST_RUN:
            pytest.fail(told)
        pytest.skip(told)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for a module's tests; each page gets a profile of its own. It ends with the
    module: while Playwright's event loop is there, other tests could start none."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        running = player.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield running
        running.close()


class Watched:
    """What a page did that no page of ours may do."""

    def __init__(self, page: Any, local: str = "http://127.0.0.1:") -> None:
        self.errors: list[str] = []
        self.outside: list[str] = []
        self.dialogs: list[str] = []
        page.on(
            "console",
            lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda d: (self.dialogs.append(d.message), d.dismiss()))
        page.on(
            "request",
            lambda r: (
                None
                if r.url.startswith((local, "data:", "file://", "about:"))
                else self.outside.append(r.url)
            ),
        )

    def check(self) -> None:
        """Nothing in the console, nothing asked of others, no dialog."""
        assert (self.errors, self.outside, self.dialogs) == ([], [], [])


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page of 1280 × 900; console errors, dialogs and requests to others fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(30_000)
    watched = Watched(opened)
    yield opened
    context.close()
    watched.check()


def accessible(page: Any, schemes: Sequence[str] = ("light", "dark")) -> None:
    """No violation of any of axe's rules, in the light scheme and in the dark one."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(Axe().axe_script)  # half a megabyte, once for both
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate("axe.run({resultTypes: ['violations']}).then(r => r.violations)")
        told = [
            f"{scheme}: {v['id']}: {v['help']}: {v['nodes'][0]['html'][:160]}: "
            f"{v['nodes'][0].get('failureSummary', '')}"
            for v in found
        ]
        assert not told, "\n".join(told)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """An ASGI application on a free port of loopback, in a thread; yields ``http://…:port``."""
    import uvicorn

    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        bound.close()


def wait_until(true: Callable[[], bool], seconds: float = 20) -> None:
    """Waits for a condition; an assertion error after ``seconds``."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def version() -> str:
    """What the browser calls itself, for benchmark tables."""
    return subprocess.run([chromium(), "--version"], capture_output=True, text=True).stdout.strip()
