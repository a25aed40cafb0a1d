"""The documentation is built without a warning, every link of it leads somewhere, it loads nothing
from outside, and its pages can be used by everybody."""

from __future__ import annotations

import functools
import http.server
import importlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from docsite.links import broken
from searchgym.cards import cards
from searchgym.rl import shipped

from ..browser import accessible, browser, page  # noqa: F401  (fixtures)

pytestmark = pytest.mark.contract

ROOT = Path(__file__).resolve().parent.parent.parent
MAIN = ["", "leaderboard/", "envs/SearchQA-v0/", "recipes/", "environments/", "api/"]
"""Pages that are looked at in a browser."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` builds it, without running notebooks: other tests run those."""
    out = tmp_path_factory.mktemp("docs") / "site"
    path = os.pathsep.join([str(ROOT / ".site"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "docsite.build", "--no-run", "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=900, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arn" not in done.stderr, done.stderr  # neither Warning nor WARN
    return out


def test_a_page_that_is_not_there_leads_on(site: Path) -> None:
    said = (site / "404.html").read_text(encoding="utf-8").partition("There is no such page")[2]
    places = re.findall(r'<li><a href="/([^"]*)"', said.partition("</ul>")[0])
    assert len(places) == 5
    for place in places:
        assert (site / place / "index.html").is_file() or (site / place).is_file()


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Address of the site on a server of loopback: its search does not work from files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join(10)


def read(site: Path, name: str) -> str:
    return (site / name / "index.html").read_text(encoding="utf-8")


def test_everything_of_the_catalogue_has_a_place(site: Path) -> None:
    gallery, results = read(site, "environments"), read(site, "leaderboard")
    for name, card in cards("envs").items():
        own = read(site, f"envs/{name}")
        assert f"envs/{name}/" in gallery
        assert 'id="expected-scores"' in own
        assert f"envs/{name}/#expected-scores" in results or name == "SelfSearchQA-v0"
        families = {f for f in card.body["kwargs"].get("tasks", ()) if f != "at_most"}
        if families - {"service", "travel"}:  # worked out by asking and looking up: no graph
            assert "<svg" in own, f"{name}: no picture of the reasoning"
    for name in shipped():
        assert f"searchgym train {name} --model" in unescape(re.sub("<[^>]+>", "", read(
            site, f"recipes/{name}")))  # fmt: skip
    for kind in ("corpora", "agents"):
        for card in cards(kind).values():
            assert (site / card.folder.relative_to(ROOT) / "index.html").is_file()


def test_programs_of_examples_play_them(site: Path) -> None:
    """What a page says makes its example does."""
    found = re.findall(r"<pre.*?</pre>", read(site, "envs/CountQA-v0"), re.DOTALL)
    program = next(p for p in found if "reset" in p)
    code = unescape(re.sub(r"<[^>]+>", "", program))
    scope: dict[str, Any] = {}
    exec("import gymnasium as gym\nimport searchgym\n" + code, scope)
    asked = scope["env"].unwrapped.episode.config.task.question
    assert asked in unescape(read(site, "envs/CountQA-v0"))


def test_bad_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here">x</a><a href="#gone">x</a><a href="b.html">x</a>'
        '<a href="c.html#there">x</a><a href="https://example.org/">x</a>'
        '<script src="https://cdn.example.org/x.js"></script><img src="c.png">'
    )
    (tmp_path / "c.html").write_text('<h1 id="other">x</h1>')
    assert broken(tmp_path) == [
        "a.html: loads https://cdn.example.org/x.js",
        "a.html: #gone: no such anchor",
        "a.html: b.html: no such file",
        "a.html: c.html#there: no such anchor",
        "a.html: c.png: no such file",
    ]


STILL = """() => document.getAnimations().every(
    a => a.playState !== 'running' || a.effect.getComputedTiming().endTime === Infinity)"""
"""What has begun to move has arrived: menus fold where a window is narrow."""


def test_pages_in_a_browser(page: Any, address: str) -> None:  # noqa: F811
    """No page pans sideways, in a wide window and as narrow as a phone; the main ones break none of
    axe's rules in either scheme. What is seen on a phone only, menu and search, is on every page
    and looked at on the first in both schemes; on the others the layout is, which has no scheme.
    Each page is loaded once, on a phone or not by turns: to make its search ready takes longer than
    to look at it."""
    for number, name in enumerate(MAIN):
        looks = [(390, ["light"]), (1280, ["light", "dark"])]
        for width, schemes in looks if number % 2 == 0 else reversed(looks):
            page.set_viewport_size({"width": width, "height": 900})
            if page.url != address + name:
                page.goto(address + name)
            page.wait_for_function(STILL)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} px wide on a screen of {width}"
            if name in MAIN[:3]:
                accessible(page, schemes if name else ["light", "dark"])


FIRST = "wanted => document.querySelector('.md-search-result__link')?.href.startsWith(wanted)"


def test_search_finds(page: Any, address: str) -> None:  # noqa: F811
    """The browser makes the index as soon as the first word is typed: seconds, or a minute where
    other programs are busy."""
    page.goto(address)
    page.keyboard.press("/")
    for words, wanted in (
        ("my own documents", "data/"),
        ("leaderboard", "leaderboard/"),
        ("wandb", "recipes/"),
        ("qwen", "recipes/"),
    ):
        page.locator(".md-search__input").fill(words)
        page.keyboard.press("End")  # it looks when a key is let go
        page.wait_for_function(FIRST, arg=address + wanted, timeout=300_000)


def test_tables_sort_and_filter(page: Any, address: str) -> None:  # noqa: F811
    page.goto(address + "recipes/")
    page.locator(".sg-filter").fill("tree_grpo")
    assert page.locator("#methods tbody tr:visible").count() == 1
    page.goto(address + "leaderboard/")
    head = page.locator(".sg-sortable th", has_text="rules")
    head.click(position={"x": 5, "y": 5})  # beside the link
    assert head.get_attribute("aria-sort") == "descending"
    column = "[...document.querySelectorAll('.sg-sortable th')].findIndex(h => h.ariaSort)"
    shown = page.evaluate(
        f"[...document.querySelectorAll('.sg-sortable tbody tr')].map(r => r.cells[{column}])"
        ".map(c => parseFloat(c.textContent)).filter(v => !isNaN(v))"
    )
    assert shown == sorted(shown, reverse=True)


# --- the reference of the public names --------------------------------------------------------
def test_every_public_name_has_a_place(site: Path) -> None:
    pages = {path.parent.name: path.read_text("utf-8") for path in site.glob("api/*/index.html")}
    assert {"searchgym.evaluation", "searchgym.llms", "searchgym_agents.reader"} <= set(pages)
    for package, html in pages.items():
        text = unescape(
            re.sub(r"<[^>]+>", "", re.sub(r"<(style|script).*?</\1>", "", html, flags=re.S))
        )
        left = re.findall(r".*(?:``|:(?:class|func|meth|mod|data|attr|exc):`|::$).*", text, re.M)
        assert left == [], package
        assert "Alias for field number" not in text
    shown = "".join(pages.values())
    names = importlib.import_module("searchgym").__all__
    assert [n for n in names if f'id="{n}"' not in shown and n != "__version__"] == []
    assert re.search(r"class.*?SearchEnv", unescape(pages["searchgym.envs"]))
