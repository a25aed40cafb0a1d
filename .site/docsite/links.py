"""Check a built site: every link and anchor leads somewhere, and nothing is loaded from outside."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lxml import html

_LOADED = "|".join(
    (
        "//link[@rel='stylesheet' or @rel='icon' or @rel='preload']/@href",
        "//img/@src", "//script/@src", "//iframe/@src", "//source/@srcset", "//object/@data",
    )
)  # fmt: skip


class _Page:
    """Ids and addresses of one page."""

    def __init__(self, text: str) -> None:
        # lxml takes a tenth of the time of Python's own parser
        tree = html.document_fromstring(text.encode(), parser=html.HTMLParser(encoding="utf-8"))
        self.ids: set[str] = {*tree.xpath("//@id"), *tree.xpath("//@name")}
        self.links: list[str] = tree.xpath("//a/@href")
        self.loaded: list[str] = tree.xpath(_LOADED)
        """Addresses that a browser fetches by itself."""


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
