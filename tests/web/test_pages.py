"""The shell of pages: what it sends, what it refuses, and that it works in a browser."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest

from searchgym.errors import SearchGymError
from searchgym.web.pages import Templates
from searchgym.web.server import HEADERS, MOST_QUERY_BYTES, build_app, serve

from ..browser import accessible, browser, page, served

__all__ = ["browser", "page"]  # fixtures


SAID = {"heading": "Not here", "message": "There is no episode <b>7</b>."}


def small_app() -> Any:
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    pages = Templates()
    return build_app([Route("/", lambda _: HTMLResponse(pages.served("message.html", **SAID)))])


@pytest.fixture(scope="module")
def client() -> Any:
    from starlette.testclient import TestClient

    return TestClient(small_app(), base_url="http://127.0.0.1")


def test_every_answer_carries_the_headers(client: Any) -> None:
    for path in ("/", "/static/style.css", "/not-there"):
        answer = client.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_other_methods_hosts_and_long_queries_are_refused(client: Any) -> None:
    assert client.post("/").status_code == 405
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/", headers={"host": "127.0.0.1.evil.example"}).status_code == 421
    assert client.get("/", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/?q=" + "x" * MOST_QUERY_BYTES).status_code == 414
    assert client.get("/static/..%2f..%2fpages.py").status_code == 404


def test_a_page_in_a_file_allows_only_what_is_inside() -> None:
    made = Templates().standalone("message.html", **SAID, scripts=["'mine'"])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', made)
    assert policy.count("sha256-") == 3
    assert "unsafe" not in policy
    assert not re.search(r'(src|href)="(?!#|data:)', made)


def test_a_script_that_would_end_its_element_is_refused() -> None:
    with pytest.raises(ValueError, match="ends its own element"):
        Templates().standalone("message.html", **SAID, scripts=["'</script>'"])


def test_keys_and_colours(page: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(Templates().standalone("message.html", **SAID))
    with served(small_app()) as address:
        for start in (address, (tmp_path / "page.html").as_uri()):
            page.goto(start)
            page.keyboard.press("?")
            assert page.locator("#help").is_visible()
            page.keyboard.press("Escape")
            assert not page.locator("#help").is_visible()
            for choice in ("light", "dark"):
                page.locator("#colours").click()
                assert page.locator("html").get_attribute("data-colours") == choice
            page.locator("#colours").click()
            page.keyboard.press("Tab")
            accessible(page)


def test_a_taken_port_is_told() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(SearchGymError, match="choose another --port"):
            serve(small_app(), port=other.getsockname()[1])
