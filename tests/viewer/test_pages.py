"""The pages in headless Chromium: by mouse and by keys, in both colour schemes, and inert whatever
the passages hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.core import write_jsonl
from searchgym.viewer.app import build_app
from searchgym.viewer.export import export
from searchgym.viewer.highlight import SearchTerms, marked
from searchgym.viewer.index import Index
from searchgym.viewer.query import Filter, listing

from ..browser import accessible, browser, page, served
from .runs import branched, hostile, trained, write_run

pytestmark = pytest.mark.contract

__all__ = ["browser", "page"]  # fixtures


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_run(tmp_path_factory.mktemp("run"), 60)
    write_jsonl(folder / "branches.trajectories.jsonl", branched())
    write_jsonl(folder / "grpo-step-7.rollouts.jsonl", [trained()])
    return folder


@pytest.fixture(scope="module")
def index(run: Path) -> Index:
    return Index(run)


@pytest.fixture(scope="module")
def address(index: Index) -> Iterator[str]:
    with served(build_app(index)) as at:
        yield at


def key_of(index: Index, **chosen: str) -> str:
    return str(listing(index, Filter.of(chosen)).rows[0]["key"])


def test_filter_open_go_back(page: Any, address: str, index: Index) -> None:
    page.goto(address)
    assert page.locator(".totals strong").inner_text() == "125"
    page.select_option("[name=agent]", "oracle")
    page.wait_for_url("**/?agent=oracle")
    page.wait_for_function("document.querySelector('.totals strong').textContent === '60'")
    page.fill("[name=q]", "who")
    page.wait_for_url("**/?q=who&agent=oracle")
    page.wait_for_function("document.querySelector('.totals strong').textContent !== '60'")
    expected = listing(index, Filter.of({"q": "who", "agent": "oracle"}))
    assert page.locator(".totals strong").inner_text() == str(expected.total)
    assert page.locator(".episodes tbody tr:not(.found-in)").count() == len(expected.rows)
    page.locator(".row-link").nth(1).click()
    page.wait_for_url(f"**/episode/{expected.rows[1]['key']}?**")
    assert page.locator("h1").inner_text() == expected.rows[1]["question"]
    page.locator("#after").click()
    assert page.locator("h1").inner_text() == expected.rows[2]["question"]
    page.locator("#back").click()
    page.wait_for_url("**/?q=who&agent=oracle&page=1")
    page.locator("#clear").click()
    assert page.locator(".totals strong").inner_text() == "125"


def test_by_keys_alone(page: Any, address: str) -> None:
    page.goto(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    page.keyboard.type("rules")  # in a field, letters are letters
    assert page.input_value("[name=q]") == "rules"
    page.wait_for_url("**/?q=rules")
    for _ in "rules":
        page.keyboard.press("Backspace")
    page.wait_for_url(address + "/")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    question = page.locator(".row-link").nth(1).inner_text()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "focus can be seen"
    page.keyboard.press("Enter")
    page.wait_for_url("**/episode/**")
    assert page.locator("h1").inner_text() == question
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "t0"
    page.keyboard.press("n")
    page.wait_for_url("**at=2**")
    page.keyboard.press("p")
    page.wait_for_url("**at=1**")
    page.keyboard.press("2")
    page.wait_for_url("**tab=tree**")
    page.keyboard.press("u")
    page.wait_for_url(re.compile(r"/\?page=1$"))
    page.keyboard.press("n")
    page.wait_for_url("**/?page=2")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_deep_links_without_a_script(browser: Any, address: str, index: Index) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/?agent=rules&outcome=wrong")
    page.locator("[name=q]").fill("who")
    page.locator("#apply").click()
    expected = listing(index, Filter.of({"agent": "rules", "outcome": "wrong", "q": "who"}))
    assert page.locator(".totals strong").inner_text() == str(expected.total)
    page.goto(f"{address}/episode/{key_of(index, agent='oracle')}#t1")
    assert page.locator("#t1").is_visible()
    context.close()


def test_an_episode_shows_its_evidence(page: Any, address: str, index: Index) -> None:
    key = key_of(index, agent="oracle", outcome="right")
    record = index.record(key)
    assert record is not None
    page.goto(f"{address}/episode/{key}")
    shown = {h.id for t in record.turns for h in t.hits}
    gold = [h for t in record.turns for h in t.hits if h.id in record.evidence]
    assert gold
    assert page.locator(".hit").count() == sum(len(t.hits) for t in record.turns) >= len(shown)
    assert page.locator(".hit.gold").count() == len(gold)
    assert page.locator(".turn").count() == len(record.turns)


def test_tree_tokens_and_comparison(page: Any, address: str, index: Index) -> None:
    page.goto(f"{address}/episode/{key_of(index, agent='branches')}?tab=tree")
    assert page.locator(".tree tbody tr").count() == 4
    assert page.locator(".tree tr[aria-current] .row-link").inner_text() == "root"
    key = key_of(index, agent="grpo")
    record = index.record(key)
    assert record is not None
    page.goto(f"{address}/episode/{key}?tab=tokens&by=advantage")
    cells = page.locator(".tokens .token")
    assert cells.count() == len(record.tokens[0])
    assert page.locator(".tokens .up5").count() == 2
    assert page.locator(".tokens .masked").count() == 1
    page.keyboard.press("ArrowRight")
    assert "read, not sampled" in page.locator("#token-told").inner_text()
    page.goto(f"{address}/episode/{key}?tab=tokens&by=logp")
    assert page.locator(".tokens .p0").count() == 1
    one = listing(index, Filter.of({"agent": "rules", "outcome": "wrong"})).rows[0]
    page.goto(f"{address}/episode/{one['key']}")
    page.keyboard.press("c")
    page.wait_for_url("**/compare**")
    assert page.locator(".two > .panel").count() == 2
    page.goto(f"{address}/changes?a=rules&b=oracle")
    assert page.locator(".totals strong").inner_text() == "60"


def test_what_is_not_there(page: Any, address: str) -> None:
    for path in ("/episode/000000000000", "/nothing", "/compare?a=1"):
        answer = page.request.get(address + path)
        assert answer.status == 404
        assert "Not here" in answer.text()
    page.goto(address + "/?q=nosuchword")
    assert page.locator(".empty").is_visible()
    accessible(page)


def test_all_pages_are_accessible(page: Any, address: str, index: Index) -> None:
    """Of the list the last page, which is shorter: axe's time grows faster than the rows."""
    tokens, branch = key_of(index, agent="grpo"), key_of(index, agent="branches")
    one = listing(index, Filter.of({"agent": "rules"})).rows[0]["key"]
    paths = [
        "/?page=3", f"/episode/{one}?at=0", f"/episode/{branch}?tab=tree",
        f"/episode/{one}?tab=raw", f"/episode/{tokens}?tab=tokens&by=advantage",
        f"/episode/{tokens}?tab=tokens&by=logp",
        f"/compare?a={one}&b={key_of(index, agent='oracle')}", "/changes?a=rules&b=oracle",
    ]  # fmt: skip
    for path in paths:
        page.goto(address + path)
        accessible(page)
    page.keyboard.press("?")
    accessible(page)


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack")
    records = [hostile(t) for t in branched()]
    with (folder / "evil<b>.jsonl").open("w") as file:
        file.writelines(json.dumps(r) + "\n" for r in records)
    return folder


def inert(page: Any) -> None:
    """Nothing of the attack is an element, nothing of it ran, and its hidden characters show."""
    assert page.evaluate("window.ran") is None
    found = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.matches("
        "'script, iframe, img, style, base, meta, [onerror], [onload], [action^=http], "
        "a[href^=javascript], a[href^=http]')).length"
    )
    assert found == 0
    assert page.locator("main .hidden-char", has_text="U+202E").count() > 0
    assert "\u202e" not in page.content()
    assert "<script>window.ran" in page.locator("main").inner_text()
    assert page.evaluate("getComputedStyle(document.body).display") != "none"
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0, "long words do not widen the page"


def test_hostile_text_is_inert(page: Any, attack: Path, tmp_path: Path) -> None:
    index = Index(attack)
    keys = [row["key"] for row in listing(index, Filter()).rows]
    with served(build_app(index)) as address:
        for path in (
            "/",
            f"/episode/{keys[0]}",
            f"/episode/{keys[0]}?tab=raw",
            f"/episode/{keys[0]}?tab=tree",
            f"/compare?a={keys[0]}&b={keys[1]}",
        ):
            page.goto(address + path)
            page.wait_for_load_state("networkidle")
            if "raw" not in path:  # there, JSON has escaped them
                inert(page)
            for details in page.locator("details").all():
                details.evaluate("d => { d.open = true }")
            assert page.evaluate("window.ran") is None
        page.goto(address + "/?q=" + "%3Cscript%3Ewindow.ran%3D9%3C/script%3E%22onfocus=x&sort=%27")
        assert page.evaluate("window.ran") is None
        assert page.input_value("[name=q]") == '<script>window.ran=9</script>"onfocus=x'
    export(index, tmp_path / "out.html")
    page.goto((tmp_path / "out.html").as_uri())
    inert(page)
    page.locator(".row-link").first.click()
    assert page.locator(".one:visible").count() == 1
    inert(page)


def test_an_export_is_capped_says_so_and_stands_alone(
    page: Any, index: Index, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "out.html"
    done = export(index, path, Filter.of({"agent": "rules"}), 7)
    assert done == (7, 60)
    page.goto(path.as_uri())
    assert "7 of 60 episodes" in page.locator(".note").inner_text()
    assert page.locator(".episodes tbody tr").count() == 7
    question = page.locator(".row-link").nth(3).inner_text()
    page.keyboard.press("/")
    page.keyboard.type(question)
    assert page.locator(".episodes tbody tr:visible").count() == 1
    assert page.locator("#count").inner_text() == "1"
    accessible(page)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert page.locator(".one:visible h1").inner_text() == question
    assert not page.locator(".overview").is_visible()
    accessible(page)
    page.keyboard.press("n")
    assert page.locator(".one:visible h1").inner_text() != question
    page.keyboard.press("u")
    assert page.locator(".overview").is_visible()


def test_what_was_searched_is_marked(page: Any, address: str, index: Index) -> None:
    """In the list, with the place where it stands, and in the episode, which opens at the first."""
    page.goto(f"{address}/?q=river&agent=rules")
    expected = listing(index, Filter.of({"q": "river", "agent": "rules"})).rows
    assert expected
    for row in expected:
        assert "river" in row["question"].lower() or page.locator(".found-in mark").count() > 0
    marks = page.locator(".episodes mark")
    assert marks.count() >= len(expected)
    assert {text.lower()[:5] for text in marks.all_inner_texts()} == {"river"}
    accessible(page)
    page.locator(".row-link").first.click()
    page.wait_for_url("**#found")
    count = page.locator("main mark.found").count()
    assert f"marks {count} place" in page.locator(".found-bar").inner_text()
    assert page.locator("mark.found").first.get_attribute("id") == "found"
    page.keyboard.press("f")
    page.keyboard.press("f")
    assert page.evaluate("[...document.querySelectorAll('mark.found')].indexOf(document.activeElement)") == 1  # fmt: skip  # noqa: E501
    accessible(page)


@given(st.text("aéÉ b\u00df中😀I\u0130", max_size=30), st.text("aé bI", max_size=4))
def test_marks_lose_no_text(text: str, query: str) -> None:
    search = SearchTerms(query)
    spans = search.spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    found = re.sub("<[^>]*>", "", str(marked(text, (), search=search)))
    assert found == re.sub("<[^>]*>", "", str(marked(text, ())))


def test_diacritics_and_case_are_ignored() -> None:
    assert [("Éa ÉAB"[a:b]) for a, b in SearchTerms("éa").spans("Éa ÉAB xéa")] == ["Éa", "ÉAB"]
    assert SearchTerms("ea x").spans("eab xy") == [(4, 6)], "the last word may be a beginning"


def test_closed_book_is_shown_on_request(page: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", 5)
    text = (run / "rules.trajectories.jsonl").read_text()
    closed = text.replace('"search_enabled": true', '"search_enabled": false')
    assert closed != text
    (run / "rules.closed-book.trajectories.jsonl").write_text(closed)
    index = Index(run)
    with served(build_app(index)) as address:
        page.goto(address)
        assert page.locator(".totals strong").inner_text() == "10"
        assert page.locator(".bars li").count() == 2
        questions = page.locator(".row-link").all_inner_texts()
        assert questions[0] == questions[1] != questions[2], "question by question"
        page.select_option("[name=book]", "all")
        page.locator(".totals strong", has_text="15").wait_for()
        assert page.locator(".bars li").count() == 3
        page.goto(f"{address}/?agent=rules.closed-book")
        assert page.locator(".totals strong").inner_text() == "5", "what is named is shown"
        page.goto(f"{address}/changes")
        assert page.locator("#f-a").input_value() == "rules"
        assert page.locator("#f-b").input_value() == "oracle"


def test_bars_lead_to_their_episodes(page: Any, address: str, index: Index) -> None:
    page.goto(address)
    bar = page.locator(".bars li", has_text="rules")
    wrong = listing(index, Filter.of({"agent": "rules", "outcome": "wrong"})).total
    bar.locator(f"a[aria-label='{wrong} wrong']").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**outcome=wrong**")
    assert page.locator(".totals strong").inner_text() == str(wrong)


def test_broken_records_are_told(page: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", 3, ["rules"])
    with (run / "rules.trajectories.jsonl").open("a") as file:
        file.write('{"a": 1}\n')
    with served(build_app(Index(run))) as address:
        page.goto(address)
        assert page.locator(".totals strong").inner_text() == "3"
        assert "1 record could not be read" in page.locator("details.note").inner_text()
        accessible(page)


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_sees_cards_and_does_not_pan(
    browser: Any, address: str, index: Index, width: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 844}, is_mobile=True, has_touch=True
    )
    page = context.new_page()
    one = key_of(index, agent="rules")
    for path in ("/", "/?q=river", f"/episode/{one}", "/changes", f"/episode/{one}?tab=raw"):
        page.goto(address + path)
        assert page.evaluate("document.documentElement.scrollWidth") == width, path
        if width == 390 and "q=" in path:
            accessible(page)
    page.goto(address)
    first = page.locator(".row-link").first.bounding_box()
    assert first["y"] < 450, "filters are folded"
    assert not page.locator("#f-outcome").is_visible()
    page.locator("label.fold").tap()
    assert page.locator("#f-outcome").is_visible()
    context.close()


def test_tokens_say_what_they_add_up_to(page: Any, tmp_path: Path) -> None:
    made = trained().to_json()
    flat = json.loads(json.dumps(made))
    flat["training"]["rows"][0]["advantage"] = [None, 0.0, 0.0, None]
    path = tmp_path / "grpo.rollouts.jsonl"
    path.write_text(json.dumps(made) + "\n" + json.dumps(flat) + "\n")
    index = Index(path)
    with served(build_app(index)) as address:
        keys = [row["key"] for row in listing(index, Filter.of({"sort": "files"})).rows]
        page.goto(f"{address}/episode/{keys[0]}?tab=tokens")
        cells = page.locator(".sums tbody td").all_inner_texts()
        assert cells == ["1", "3", "2", "-2.31", "+3.000"]
        assert page.locator(".panel .note").count() == 0
        gaps = page.evaluate(
            "[...document.querySelectorAll('.tokens .token')].map(t => getComputedStyle(t).margin)"
        )
        assert set(gaps) == {"0px"}, "tokens join to the text"
        page.goto(f"{address}/episode/{keys[1]}?tab=tokens")
        assert "Every advantage is 0" in page.locator(".panel .note").inner_text()
