"""Markdown: headings become titles; lists, tables and code keep their lines."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .blocks import TextBlock, outlined

if TYPE_CHECKING:
    from markdown_it.token import Token

_FRONT_MATTER = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S | re.M
)
_FRONT_TITLE = re.compile(r"^title:(.*)$", re.M)
_UNSEEN = re.compile(r"<!--.*?(?:-->|\Z)|<(script|style|template)\b.*?(?:</\1\s*>|\Z)", re.S | re.I)
_TAG = re.compile(r"""</?[a-z!?](?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+>""", re.I)


def markdown_blocks(text: str) -> Iterator[TextBlock]:
    """Blocks of a Markdown text. Front matter is left out, but for its title, which stands above
    all headings that differ from it."""
    from markdown_it import MarkdownIt

    title = ""
    if front := _FRONT_MATTER.match(text):
        named = _FRONT_TITLE.search(front[1])
        title, text = named[1].strip().strip("\"'") if named else "", text[front.end() :]
    tokens = MarkdownIt("commonmark", {"maxNesting": 40}).enable("table").parse(text)
    first = next((i for i, t in enumerate(tokens) if t.type == "heading_open"), None)
    if first is not None and _plain(tokens[first + 1]) == title:
        title = ""
    return outlined(_items(tokens), title)


def _items(tokens: list[Token]) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(tokens):
        end = _end(tokens, at)
        if tokens[at].type == "heading_open":
            yield int(tokens[at].tag[1]), _plain(tokens[at + 1])
        elif shown := "\n".join(_lines(tokens[at:end])).strip("\n"):
            yield 0, shown
        at = end


def _end(tokens: list[Token], at: int) -> int:
    """The place after a block that begins at ``at``."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += tokens[i].nesting
        if not depth:
            return i + 1
    return len(tokens)


def _lines(tokens: list[Token]) -> Iterator[str]:
    """A block's text: an item of a list and a row of a table are a line each."""
    depth, marker, numbers = 0, "", list[int | None]()
    cells: list[str] | None = None
    for token in tokens:
        kind = token.type
        if kind in ("bullet_list_open", "ordered_list_open"):
            start = int(token.attrGet("start") or 1) if kind[0] == "o" else None
            numbers.append(start)
            depth += 1
        elif kind in ("bullet_list_close", "ordered_list_close"):
            numbers.pop()
            depth -= 1
        elif kind == "list_item_open":
            number = numbers[-1]
            marker = "- " if number is None else f"{number}. "
            if number is not None:
                numbers[-1] = number + 1
        elif kind == "tr_open":
            cells = []
        elif kind == "tr_close":
            yield " | ".join(cells or ())
            cells = None
        elif kind == "inline" and cells is not None:
            cells.append(_plain(token))
        elif kind == "inline":
            indent = "  " * (depth - 1) if depth else ""
            yield indent + (marker or ("  " if depth else "")) + _plain(token)
            marker = ""
        elif kind in ("fence", "code_block"):
            yield token.content.rstrip("\n")
        elif kind == "html_block" and (shown := _untagged(token.content)):
            yield shown


def _plain(token: Token) -> str:
    """The text of a paragraph, heading or cell without its markup."""
    parts = []
    for child in token.children or ():
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type == "image":
            parts.append(child.content)  # the text in its place
        elif child.type in ("softbreak", "hardbreak"):
            parts.append(" " if child.type == "softbreak" else "\n")
        elif child.type == "html_inline" and child.content.startswith("<br"):
            parts.append("\n")
    return "".join(parts).strip()


def _untagged(text: str) -> str:
    lines = (
        line.strip() for line in html.unescape(_TAG.sub(" ", _UNSEEN.sub(" ", text))).splitlines()
    )
    return "\n".join(line for line in lines if line)
