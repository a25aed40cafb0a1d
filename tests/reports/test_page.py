"""The page in a real browser, from a file, with the network blocked."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from searchgym.errors import DataError
from searchgym.reports.page import report_of, save_report
from tests.reports.conftest import EVIL

from ..browser import Watched, accessible, browser

pytestmark = pytest.mark.contract

__all__ = ["browser"]  # a fixture

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LIVE = "n => document.querySelectorAll('figure.chart[data-live]').length === n"


@pytest.fixture(scope="module")
def made(
    trained: list[Path], evaluated: Path, climbed: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    runs = {"training": trained, "evaluation": [evaluated], "ladder": [climbed]}
    return {
        name: save_report(paths, folder / f"{name}.html")["report.html"]
        for name, paths in runs.items()
    }


@contextmanager
def opened(browser: Any, path: Path, size: dict[str, int]) -> Iterator[tuple[Any, list[str]]]:
    """A page without a network, in the dark, and the addresses that it asks for."""
    context = browser.new_context(viewport=size, color_scheme="dark")
    page = context.new_page()
    page.set_default_timeout(60_000)  # a megabyte of charting library, on a machine that is busy
    watched, asked = Watched(page), []
    page.on("request", lambda r: asked.append(r.url))
    context.set_offline(True)
    page.goto(path.as_uri())
    page.wait_for_function(LIVE, arg=page.locator("figure.chart").count())
    yield page, asked
    context.close()
    watched.check()


@pytest.fixture(scope="module")
def at_desk(
    browser: Any, made: dict[str, Path]
) -> Iterator[Callable[[str], tuple[Any, list[str]]]]:
    """The open page of a kind. It takes seconds to open, so tests share it and leave it as wide
    and as scrolled as it was; what is sorted or pointed at does not matter to others."""
    with ExitStack() as stack:
        pages: dict[str, tuple[Any, list[str]]] = {}

        def of(name: str) -> tuple[Any, list[str]]:
            if name not in pages:
                pages[name] = stack.enter_context(opened(browser, made[name], DESK))
            return pages[name]

        yield of


@pytest.fixture(scope="module")
def ladder(at_desk: Callable[[str], tuple[Any, list[str]]]) -> Any:
    """The open page of a ladder."""
    return at_desk("ladder")[0]


def test_colours_follow_the_system_and_the_button(ladder: Any) -> None:
    """First of the tests of this page: it was opened in the dark."""

    def seen() -> list[str]:
        script = """() => [getComputedStyle(document.body).backgroundColor,
            getComputedStyle(document.querySelector('figure.chart svg text')).fill]"""
        found: list[str] = ladder.evaluate(script)
        return found

    dark = seen()
    ladder.locator("#colours").click()  # the system's → light
    light = seen()
    assert all(a != b for a, b in zip(dark, light, strict=True))
    ladder.locator("#colours").click()  # → dark
    assert seen() == dark
    ladder.locator("#colours").click()  # → the system's
    ladder.emulate_media(color_scheme="light")
    assert seen() == light


@pytest.mark.parametrize("name", ["training", "evaluation", "ladder"])
def test_a_page_opens_offline_and_is_accessible(
    at_desk: Callable[[str], tuple[Any, list[str]]], name: str
) -> None:
    page, asked = at_desk(name)
    assert asked[0].startswith("file://")
    assert all(url.startswith("data:") for url in asked[1:])
    figures = page.locator("figure.chart").count()
    assert figures >= 1
    for i in range(figures):
        chart = page.locator("figure.chart").nth(i)
        assert chart.locator(".wide svg").bounding_box()["height"] > 60
        assert not chart.locator(".narrow").is_visible()
        assert len(chart.locator(".wide[role=img]").get_attribute("aria-label")) > 30
        assert len(chart.locator("h3").inner_text().split()) >= 3, "a title is a finding"
        assert chart.locator("figcaption").inner_text()
    assert page.locator("table.sortable caption").count() == page.locator("table.sortable").count()
    accessible(page)


def test_tables_sort_by_number_and_say_so(ladder: Any) -> None:
    table = ladder.locator("table[data-name=transfer]")
    head = table.locator("th", has_text="F1")
    head.locator("button").click()

    def values() -> list[float]:
        column = head.evaluate("cell => cell.cellIndex")
        return [
            float(text) for text in table.locator("tbody tr").evaluate_all(
                "(rows, n) => rows.map(r => r.cells[n].dataset.sort)", column
            )
        ]  # fmt: skip

    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())
    assert len(set(values())) > 2


def test_charts_answer_to_the_pointer(ladder: Any) -> None:
    ladder.locator("figure.chart").first.locator("g.mark-symbol path").first.hover()
    told = ladder.locator("#told")
    told.wait_for(state="visible")
    assert "mean: " in told.inner_text()


def test_pictures_and_data_can_be_saved(
    at_desk: Callable[[str], tuple[Any, list[str]]],
) -> None:
    page, _ = at_desk("evaluation")
    figure = page.locator("figure.chart").first
    with page.expect_download() as png:
        figure.locator("[data-save=png]").click()
    assert Path(png.value.path()).read_bytes()[:4] == b"\x89PNG"
    assert png.value.suggested_filename == "scores.png"
    with page.expect_download() as svg:
        figure.locator("[data-save=svg]").click()
    drawn = Path(svg.value.path()).read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert "var(--" not in drawn
    link = figure.locator("a[download='scores.csv']").get_attribute("href")
    text = base64.b64decode(link.partition("base64,")[2]).decode()
    assert text.splitlines()[0].startswith("y,by,facet,mean")


def test_strangers_words_stay_words(ladder: Any) -> None:
    assert ladder.title().startswith("Transfer of trained ")
    assert ladder.locator("img").count() == 0
    assert ladder.locator("td", has_text=EVIL).count() >= 2


def test_without_scripts_the_page_is_whole(browser: Any, made: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(made["training"].as_uri())
    assert page.locator("figure.chart .wide svg").count() == page.locator("figure.chart").count()
    assert page.locator("figure.chart .narrow svg").count() == page.locator("figure.chart").count()
    assert page.locator("figure.chart .wide svg").first.bounding_box()["height"] > 100
    assert not page.locator("[data-save]").first.is_visible()
    context.close()


def test_it_prints(at_desk: Callable[[str], tuple[Any, list[str]]]) -> None:
    page, _ = at_desk("training")
    page.emulate_media(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)", "on white, whatever the scheme"
    assert not page.locator(".bar").is_visible()
    assert not page.locator("[data-save]").first.is_visible()
    page.set_viewport_size({"width": 700, "height": 900})  # about A4's width
    widest = page.evaluate("() => document.documentElement.scrollWidth")
    assert widest <= 700
    assert page.pdf(format="A4")[:5] == b"%PDF-"


@pytest.mark.parametrize("name", ["training", "evaluation", "ladder"])
def test_on_a_phone_nothing_is_cut(browser: Any, made: dict[str, Path], name: str) -> None:
    with opened(browser, made[name], PHONE) as (page, _):
        assert page.evaluate("() => document.documentElement.scrollWidth") == 390
        for figure in page.locator("figure.chart").all():
            assert not figure.locator(".wide").is_visible()
            box, around = figure.locator(".narrow svg").bounding_box(), figure.bounding_box()
            assert box["width"] <= around["width"] + 0.5
        assert page.locator(".bar").bounding_box()["height"] < 60, "one line"
        table = page.locator(".scroll").first
        table.evaluate("e => { e.scrollLeft = 200; }")
        first = table.locator("tbody td").first.bounding_box()
        assert first["x"] == pytest.approx(table.bounding_box()["x"], abs=1), "it stays in sight"
        accessible(page)
        if name == "ladder":
            _widened(page)


def _widened(page: Any) -> None:
    """A wider window brings the wide charts to life."""
    wide = page.locator("figure.chart .wide").first
    assert wide.get_attribute("data-live") != "yes"
    page.set_viewport_size(DESK)
    page.wait_for_function("() => document.querySelector('.wide').dataset.live === 'yes'")
    assert wide.locator("svg").bounding_box()["width"] > 600


@pytest.mark.parametrize("name", ["training", "evaluation", "ladder"])
def test_charts_hold_to_vega_lites_schema(
    name: str, trained: list[Path], evaluated: Path, climbed: Path
) -> None:
    """Which is not checked each time that one is drawn."""
    runs = {"training": trained[2:], "evaluation": [evaluated], "ladder": [climbed]}
    figures = report_of(runs[name]).figures
    assert figures
    for figure in figures:
        figure.chart.to_dict(validate=True)


def test_where_it_cannot_be_written(trained: list[Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder: name the HTML file"):
        save_report(trained[:1], tmp_path)
