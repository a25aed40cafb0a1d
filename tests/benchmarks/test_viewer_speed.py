"""The viewer over 100,000 trajectories: how long the index takes once, and how soon a page stands
and a filter answers in Chromium. ``make bench ARGS="-k viewer"``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from searchgym.viewer import Index, build_app

from ..browser import browser, page, served, version
from .many_trajectories import write
from .table import show

__all__ = ["browser", "page"]  # fixtures
pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

COUNT = 100_000
FIRST_PAINT_MS, FILTER_MS = 1500, 300
PAINT = """() => new Promise(done => {
  const told = () => performance.getEntriesByName('first-contentful-paint')[0];
  const look = () => told() ? done(told().startTime) : setTimeout(look, 5);
  look();
})"""
# From the change of a control to the frame after the new results stand.
FILTERED = """([name, value]) => new Promise(done => {
  const start = performance.now();
  const old = document.querySelector('#results');
  new MutationObserver((_, watch) => {
    if (document.querySelector('#results') === old) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
  }).observe(document.querySelector('#content'), { childList: true, subtree: true });
  const field = document.querySelector(`[name=${name}]`);
  field.value = value;
  field.dispatchEvent(new Event('input', { bubbles: true }));
})"""


def five(run: Callable[[int], float]) -> float:
    """The median of five."""
    return statistics.median(run(i) for i in range(5))


def test_a_hundred_thousand_trajectories(page: Any, tmp_path: Path) -> None:
    size = write(tmp_path / "run", COUNT)
    start = time.perf_counter()
    index = Index(tmp_path / "run")
    built = time.perf_counter() - start
    start = time.perf_counter()
    Index(tmp_path / "run")
    opened = time.perf_counter() - start
    found: list[tuple[str, float, float | None]] = []
    with served(build_app(index)) as address:
        page.goto(address + "/changes")  # the browser itself has started

        def paint(path: str) -> Callable[[int], float]:
            def once(_: int) -> float:
                page.goto(address + path)
                return float(page.evaluate(PAINT))

            return once

        def filtered(name: str, values: list[str]) -> Callable[[int], float]:
            def once(i: int) -> float:
                page.goto(address)
                took = float(page.evaluate(FILTERED, [name, values[i % len(values)]]))
                assert page.locator(".episodes tbody tr").count() > 0
                return took

            return once

        found.append(("first paint of the list", five(paint("/")), FIRST_PAINT_MS))
        found.append(("first paint of page 1,000", five(paint("/?page=1000")), FIRST_PAINT_MS))
        key = page.locator(".row-link").first.get_attribute("href")
        found.append(("first paint of an episode", five(paint(key)), FIRST_PAINT_MS))
        found.append(("first paint of the changes", five(paint("/changes")), None))
        for name, values in (
            ("outcome", ["wrong", "right", "partly", "wrong", "right"]),
            ("agent", ["oracle", "random", "rules"]),
            ("step", ["0", "150", "450"]),
            ("hops", ["2", "1", "3"]),
            ("problem", ["evidence"]),
            ("least", ["0.5", "0.9", "0.1"]),
            ("sort", ["-reward", "turns", "question", "recall", "searches"]),
            ("q", ["word17", "word4000", "river", "born", "the"]),
        ):
            found.append((f"filter: {name}", five(filtered(name, values)), FILTER_MS))
    show(
        f"{COUNT:,} trajectories, {size / 1e6:,.0f} MB; index built in {built:.0f} s "
        f"({index.path.stat().st_size / 1e6:,.0f} MB), opened again in {opened:.2f} s; {version()}",
        ["what", "median of five, ms", "at most"],
        [[what, f"{took:,.0f}", "" if most is None else f"{most:,}"] for what, took, most in found],
    )
    slow = [(what, took) for what, took, most in found if most is not None and took > most]
    assert not slow
