"""Truncation of tool results to the limits that an episode's rules set."""

from __future__ import annotations

from ..dialects.base import Dialect
from ..types import Hit, Page
from .rules import Rules


def cut_hits(hits: tuple[Hit, ...], limit: int | None) -> tuple[Hit, ...]:
    """Hits with texts of at most ``limit`` characters; the same tuple if none is longer."""
    if limit is None:
        return hits
    for hit in hits:
        if len(hit.passage.text) > limit:
            return tuple(
                Hit(h.passage._replace(text=h.passage.text[:limit]), h.score) for h in hits
            )
    return hits


def page_parts(page: Page, rules: Rules) -> int:
    """Number of parts in which a page is read; at least one."""
    return max(1, -(-len(page.text) // rules.page_chars))


def show_part(page: Page, part: int, rules: Rules, dialect: Dialect) -> tuple[str, str | None]:
    """A part of a page (from 0), and the shorter text that replaces it once it has been read."""
    size, parts = rules.page_chars, page_parts(page, rules)
    shown = page.text[part * size : (part + 1) * size]
    text = dialect.render_page(page, shown, part=part + 1, parts=parts)
    if rules.page_stub_chars is None or len(shown) <= rules.page_stub_chars:
        return text, None
    short = shown[: rules.page_stub_chars]
    return text, dialect.render_stub(page.title, page.url, short, part=part + 1)
