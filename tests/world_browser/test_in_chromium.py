# ruff: noqa: F811 - a fixture that is imported has the name of what asks for it
"""The browser in a real one: search, click, follow a fact, open a task; keys; files; harm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from searchgym.world_browser.app import browser_app
from searchgym.world_browser.atlas import Atlas
from searchgym.world_browser.export import export
from searchgym.world_browser.schema_graph import facts_by_kinds

from ..browser import accessible, browser, page, served  # noqa: F401


@pytest.fixture(scope="module")
def address(atlas: Atlas) -> Iterator[str]:
    with served(browser_app(atlas)) as at:
        yield at


def chain(atlas: Atlas) -> Any:
    return next(task for task in atlas.tasks if task.family == "chain")


def test_from_a_search_over_an_entity_to_a_task_and_back(address: str, atlas: Atlas, page: Any):
    task = chain(atlas)
    title = task.graph.nodes[0].value
    page.goto(address)
    page.keyboard.press("/")
    page.keyboard.type(title)
    page.keyboard.press("Enter")
    page.get_by_role("rowheader", name=title).get_by_role("link").first.click()
    assert page.get_by_role("heading", level=1).inner_text().startswith(title)
    number = atlas.titled(title)
    assert page.url == f"{address}/entity/{number}"

    # a mark in the page leads to the fact's row, and the row back to the mark
    mark = page.locator(".number-mark").first
    mark.click()
    row = page.locator("tr:target")
    assert row.locator("td").first.inner_text() == mark.inner_text()
    row.get_by_role("link", name="this page").click()
    assert page.locator(".number-mark:target").inner_text() == mark.inner_text()

    page.get_by_role("link", name=task.question).first.click()
    assert page.url == f"{address}/task/{quote(task.id, safe='')}"
    assert page.locator("strong").first.inner_text() == task.answers[0]
    steps = page.locator("table tbody tr")
    assert steps.count() == len(task.graph.edges)
    page.get_by_role("link", name="step 2:").click()
    assert page.locator("tr:target td").first.inner_text() == "2"
    # the passage that states a step, at the very mark
    steps.nth(0).locator("td").last.get_by_role("link").click()
    page.locator(".number-mark:target").wait_for()  # the click has led there


def test_keys_lead_through_the_tasks(address: str, atlas: Atlas, page: Any):
    page.goto(f"{address}/task/{quote(atlas.tasks[0].id, safe='')}")
    for key, place in (("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        page.wait_for_url(f"{address}/task/{quote(atlas.tasks[place].id, safe='')}")
    page.keyboard.press("t")
    page.wait_for_url(f"{address}/tasks")
    page.get_by_label("Family").select_option("comparison")
    with page.expect_navigation():  # a click does not wait for the page's script, and keys need it
        page.get_by_role("button", name="Search").click()
    rows = page.locator("#rows tbody tr")
    wanted = [task for task in atlas.tasks if task.family == "comparison"]
    assert rows.count() == len(wanted) > 0
    page.keyboard.press("g")
    page.wait_for_url(f"{address}/")


def test_all_kinds_of_pages_are_accessible(address: str, atlas: Atlas, page: Any):
    hub = int(atlas.graph.degree.argmax())
    comparison = next(task for task in atlas.tasks if task.family == "comparison")
    for path in ("/", "/?q=zzzz", f"/entity/{hub}", "/tasks",
                 f"/task/{quote(comparison.id, safe='')}"):  # fmt: skip
        page.goto(address + path)
        accessible(page)


def test_neighbours_do_not_overlap_on_the_screen(address: str, atlas: Atlas, page: Any):
    page.goto(f"{address}/entity/{int(atlas.graph.degree.argmax())}")
    labels = page.locator(".drawing text").all()
    boxes = [box for label in labels if (box := label.bounding_box()) is not None]
    assert len(boxes) > 15
    frame = page.locator(".drawing svg").bounding_box()
    for i, a in enumerate(boxes):
        assert a["x"] >= frame["x"] - 1
        assert a["x"] + a["width"] <= frame["x"] + frame["width"] + 1
        for b in boxes[:i]:
            apart_x = a["x"] + a["width"] <= b["x"] + 1 or b["x"] + b["width"] <= a["x"] + 1
            apart_y = a["y"] + a["height"] <= b["y"] + 6 or b["y"] + b["height"] <= a["y"] + 6
            assert apart_x or apart_y


def test_files_need_no_server(atlas: Atlas, page: Any, tmp_path: Path):
    export(atlas, tmp_path, most=30)
    page.goto((tmp_path / "index.html").as_uri())
    accessible(page)
    title = page.locator("#rows tbody th a").nth(5).inner_text()
    page.get_by_label("Filter").fill(title)
    shown = page.locator("#rows tbody tr:visible")
    assert 1 <= shown.count() < 30
    assert page.get_by_role("status").inner_text() == f"{shown.count()} of 30"
    page.get_by_role("link", name=title, exact=True).click()
    page.wait_for_url("**/entity-*.html")
    assert page.get_by_role("heading", level=1).inner_text().startswith(title)
    page.keyboard.press("t")
    page.wait_for_url((tmp_path / "tasks.html").as_uri())
    page.locator("#rows tbody th a").first.click()
    assert page.get_by_role("heading", name="Reasoning path").is_visible()


def test_hostile_names_do_nothing(hostile: Atlas, page: Any, tmp_path: Path):
    export(hostile, tmp_path)
    with served(browser_app(hostile)) as at:
        task = quote(hostile.tasks[0].id, safe="")
        paths = ["/", "/tasks", *(f"/entity/{e}" for e in range(5)), f"/task/{task}"]
        for path in [at + p for p in paths] + [p.as_uri() for p in sorted(tmp_path.iterdir())]:
            page.goto(path)  # waits for pictures, and so for what a missing one would run
            assert page.title() != "owned"
            assert page.locator("main script, main img, main style").count() == 0


def test_the_first_page_shows_the_world_at_a_glance(address: str, atlas: Atlas, page: Any):
    """Kinds as circles within the picture, no name over another; ties as heavy as their facts."""
    page.goto(address)
    present = [kind for kind, n in enumerate(atlas.members()) if n]
    assert page.locator(".schema circle").count() == len(present)
    colours = page.locator(".schema circle").evaluate_all(
        "c => c.map(x => getComputedStyle(x).fill)"
    )
    assert len(set(colours)) == len(present), "every kind has a colour of its own"
    frame = page.locator(".schema").bounding_box()
    names = [label.bounding_box() for label in page.locator(".schema text").all()]
    for i, a in enumerate(names):
        assert frame["x"] <= a["x"]
        assert a["x"] + a["width"] <= frame["x"] + frame["width"]
        for b in names[:i]:
            apart_x = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            assert apart_x or a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]
    widths = page.locator(".schema .tie").evaluate_all(
        "t => t.map(x => +x.getAttribute('stroke-width'))"
    )
    assert widths == sorted(widths), "the heaviest are drawn last"
    assert page.locator(".samples li").count() == 3
    page.locator(".schema a").first.click()
    page.wait_for_url("**/?kind=*")
    assert page.locator("#rows tbody tr").count() > 0


def test_the_ties_count_every_fact_between_entities(atlas: Atlas):
    facts, relations = facts_by_kinds(atlas)
    assert sum(facts.values()) == int((atlas.graph.tail >= 0).sum())
    for ends, count in facts.items():
        assert sum(relations[ends].values()) == count


RIGHT_EDGES = """boxes => boxes.map(box => [
    [...box.querySelectorAll('rect')].at(-1).getBoundingClientRect().right,
    [...box.querySelectorAll('text')].map(text => text.getBoundingClientRect().right)])"""
"""Of each box, where its frame and its texts end."""


def test_texts_stay_within_their_boxes(address: str, atlas: Atlas, page: Any):
    """The longest names that a box may hold, and counted things as one arrow."""
    counted = next(t for t in atlas.tasks if t.family == "count" and len(t.graph.edges) > 1)
    for task in (counted, chain(atlas), *atlas.tasks[::9]):
        page.goto(f"{address}/task/{quote(task.id, safe='')}")
        boxes = page.locator(".drawing .box").evaluate_all(RIGHT_EDGES)
        assert boxes
        for frame, texts in boxes:
            assert texts
            assert max(texts) <= frame, task.question
        if task is counted:
            link = page.locator(".drawing a[href='#step-1']")
            assert link.text_content() == f"1–{len(task.graph.edges)}"
            assert page.locator(".drawing path.line").count() == 2
            accessible(page)


def test_a_phone_shows_every_page_without_panning(address: str, atlas: Atlas, browser: Any):
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True)
    phone = context.new_page()
    hub, task = int(atlas.graph.degree.argmax()), quote(atlas.tasks[0].id, safe="")
    for path in ("/", "/?page=1", f"/entity/{hub}", "/tasks", f"/task/{task}"):
        phone.goto(address + path)
        assert phone.evaluate("document.documentElement.scrollWidth") == 390, path
    phone.goto(f"{address}/entity/{hub}")
    accessible(phone)
    context.close()
