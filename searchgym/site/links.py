"""Check a built site: every link and anchor leads somewhere, and nothing is loaded from outside."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADS = {"img": "src", "script": "src", "iframe": "src", "source": "srcset", "object": "data"}


class _Page(HTMLParser):
    """Ids and addresses of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        """Addresses that a browser fetches by itself."""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(values["href"])
        if tag in _LOADS and _LOADS[tag] in values:
            self.loaded.append(values[_LOADS[tag]])


def broken(site: Path) -> list[str]:
    """One line a link that leads nowhere, or an address outside that a page would load by itself.

    Links to other sites are not followed.
    """
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    lines = []
    for path, page in sorted(pages.items()):
        where = path.relative_to(site)
        for address in page.loaded:
            if urlsplit(address).netloc:
                lines.append(f"{where}: loads {address}")
        for address in (*page.links, *page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or where.name == "404.html":
                continue
            base = path.parent / unquote(parts.path) if parts.path else path
            target = Path(os.path.normpath(base))
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                lines.append(f"{where}: {address}: no such file")
            elif parts.fragment and target in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].ids and not anchor.startswith("__"):
                    lines.append(f"{where}: {address}: no such anchor")
    return lines
