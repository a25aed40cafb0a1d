"""Markdown, HTML and DOCX: headings become titles; lists, tables and code keep their lines.

HTML and DOCX are turned into Markdown by markdownify and mammoth, so that there is one reader.
"""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .blocks import Outline, TextBlock
from .encoding import Unreadable

if TYPE_CHECKING:
    from markdown_it.token import Token

_FRONT_MATTER = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S | re.M
)
_FRONT_TITLE = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.M)
_TAG = re.compile(r"<!--.*?-->|<[^>]*>", re.S)
_UNSEEN = ["script", "style", "noscript", "template", "nav", "iframe", "svg", "form", "button"]
_STYLES = "\n".join(  # a document's title stands above its headings
    ["p[style-name='Title'] => h1:fresh"]
    + [f"p[style-name='Heading {level}'] => h{level + 1}:fresh" for level in range(1, 6)]
)


def markdown_blocks(text: str) -> Iterator[TextBlock]:
    """Blocks of a Markdown text. Front matter is left out, but for its title, which stands above
    all headings that differ from it."""
    from markdown_it import MarkdownIt

    title = ""
    if front := _FRONT_MATTER.match(text):
        named = _FRONT_TITLE.search(front[1])
        title, text = named[1].strip("\"'") if named else "", text[front.end() :]
    tokens = MarkdownIt("commonmark", {"maxNesting": 40}).enable("table").parse(text)
    first = next((i for i, t in enumerate(tokens) if t.type == "heading_open"), None)
    if first is not None and _plain(tokens[first + 1]) == title:
        title = ""
    outline = Outline(title)
    at = 0
    while at < len(tokens):
        end = _end(tokens, at)
        if tokens[at].type == "heading_open":
            outline.heading(int(tokens[at].tag[1]), _plain(tokens[at + 1]))
        elif shown := "\n".join(_lines(tokens[at:end])).strip("\n"):
            yield outline.block(shown)
        at = end


def html_blocks(raw: bytes | str) -> Iterator[TextBlock]:
    """Blocks of an HTML page; what a browser does not show as text is left out. The page's title
    stands above its headings where it has no first-level one."""
    from bs4 import BeautifulSoup, Comment
    from markdownify import MarkdownConverter

    page = BeautifulSoup(raw, "lxml")
    head = page.title
    title = " ".join(head.get_text().split()) if head is not None else ""
    for unseen in page.find_all(["head", "title", *_UNSEEN]):
        unseen.decompose()
    for comment in page.find_all(string=lambda node: isinstance(node, Comment)):
        comment.extract()
    made = MarkdownConverter(
        heading_style="ATX", strip=["a", "img"], bullets="-", table_infer_header=True
    ).convert_soup(page)
    body = page.find("h1")
    if title and body is None:
        made = f"# {title}\n\n" + re.sub(r"^#", "##", made, flags=re.M)
    yield from markdown_blocks("\n" + made)


def docx_blocks(raw: bytes, unpacked_bytes: int) -> Iterator[TextBlock]:
    """Blocks of a Word document.

    Raises:
        Unreadable: it is none, or unpacks to more than ``unpacked_bytes``.
    """
    import mammoth

    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as packed:
            size = sum(part.file_size for part in packed.infolist())
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise Unreadable(f"not a DOCX file: {error}") from None
    if size > unpacked_bytes:
        raise Unreadable(f"unpacks to {size:,} bytes (limit {unpacked_bytes:,})")
    images: Any = mammoth.images.img_element(lambda image: {"src": ""})
    made = mammoth.convert_to_html(io.BytesIO(raw), convert_image=images, style_map=_STYLES)
    yield from html_blocks(made.value)


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
    lines = (line.strip() for line in html.unescape(_TAG.sub(" ", text)).splitlines())
    return "\n".join(line for line in lines if line)
