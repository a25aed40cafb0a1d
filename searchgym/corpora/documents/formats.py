"""Blocks of text, PDF, Markdown, tables and JSON under their headings, packed into passages."""

from __future__ import annotations

import csv
import html
import io
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...text import UNSPACED
from ..lines import distinct, read_table, table_of
from .encoding import Unreadable

if TYPE_CHECKING:
    from markdown_it.token import Token

BETWEEN = " › "
"""Stands between a heading and the one below it in a passage's title."""
_UNIT = re.compile(rf"(?<!\s)\s*+(?:[{UNSPACED}]|[^\s{UNSPACED}]+)")
_PACKED = re.compile(f"[{UNSPACED}]")


class TextBlock(NamedTuple):
    """A paragraph, list, table or row."""

    section: int
    """Number of the section; a passage never holds blocks of two."""
    title: str
    """Headings above it, outermost first; may be empty."""
    text: str


def outlined(items: Iterable[tuple[int, str]], top: str = "") -> Iterator[TextBlock]:
    """Blocks of a document given as its headings (their level from 1, and the text) and its other
    texts (0, and the text). A heading with nothing below it is a block itself.

    Args:
        top: Title above all headings.
    """
    above: list[tuple[int, str]] = [(0, top)] if top else []
    section, title, lone = 0, top, (0, "")
    for level, text in items:
        if not level:
            lone = (0, "")
            yield TextBlock(section, title, text)
            continue
        if lone[1] and level <= lone[0]:
            yield TextBlock(section, title, lone[1])
        above = [(at, name) for at, name in above if at < level]
        section += 1
        if text:
            above.append((level, text))
        title, lone = BETWEEN.join(name for _, name in above), (level, text)
    if lone[1]:
        yield TextBlock(section, title, lone[1])


def pieces(blocks: Iterable[TextBlock], words: int) -> Iterator[tuple[str, str]]:
    """(title, text) of passages: whole blocks packed up to ``words`` words, longer ones cut at line
    ends, and longer lines between words. Two characters of a script without blanks are a word."""
    section, title, held, size = -1, "", list[str](), 0
    for block in blocks:
        if block.section != section and held:
            yield title, "\n".join(held)
            held, size = [], 0
        section, title = block.section, block.title
        for part, part_size in _parts(block.text, 2 * words):
            if held and size + part_size > 2 * words:
                yield title, "\n".join(held)
                held, size = [], 0
            held.append(part)
            size += part_size
    if held:
        yield title, "\n".join(held)


def _parts(text: str, most: int) -> Iterator[tuple[str, int]]:
    units = _UNIT.findall(text)
    sizes = [1 if _PACKED.search(unit) else 2 for unit in units]
    if sum(sizes) <= most:
        if units:
            yield text.strip("\n").rstrip(), sum(sizes)
        return
    if "\n" in text.strip():
        for line in text.splitlines():
            yield from _parts(line, most)
        return
    held, size = list[str](), 0
    for unit, one in zip(units, sizes, strict=True):
        if held and size + one > most:
            yield "".join(held).strip(), size
            held, size = [], 0
        held.append(unit)
        size += one
    yield "".join(held).strip(), size


_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}")


def plain_blocks(text: str) -> Iterator[TextBlock]:
    """Paragraphs with their lines as they are. A line above a line of marks of its length is a
    heading; the mark that came first is the outermost, as in reStructuredText."""
    return outlined(_paragraphs(text.replace("\f", "\n\n").splitlines()))


def _paragraphs(lines: list[str]) -> Iterator[tuple[int, str]]:
    levels, held = dict[str, int](), list[str]()
    for i, raw in enumerate(lines):
        line = raw.rstrip()
        below = lines[i + 1].strip() if i + 1 < len(lines) else ""
        mark = _UNDERLINE.fullmatch(below)
        bare = line.strip()
        rule = _UNDERLINE.fullmatch(bare)
        heading = mark and not held and not rule and 0 < len(bare) <= len(below) + 2
        if not bare or rule or heading:
            if held:
                yield 0, "\n".join(held)
                held = []
            if heading and mark:
                yield levels.setdefault(mark[1], len(levels) + 1), bare
        else:
            held.append(line)
    if held:
        yield 0, "\n".join(held)


def pdf_blocks(raw: bytes) -> Iterator[TextBlock]:
    """The text of every page of a PDF file, a section each.

    Raises:
        Unreadable: it is encrypted, damaged, or holds no text (scanned pages).
    """
    import pypdf
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of every small repair
    try:
        pages, title = _pages(pypdf.PdfReader(io.BytesIO(raw)))
    except PyPdfError as error:
        raise Unreadable(f"not a PDF file that can be read: {error}") from None
    if not any(page.strip() for page in pages):
        raise Unreadable(f"its {len(pages)} pages hold no text (scanned pages need OCR first)")
    for number, page in enumerate(pages, 1):
        name = f"{title} › page {number}" if title else f"page {number}"
        for paragraph in re.split(r"\n\s*\n", page):
            if paragraph.strip():
                yield TextBlock(number, name if len(pages) > 1 else title, paragraph.strip("\n"))


def _pages(reader: Any) -> tuple[list[str], str]:
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("encrypted: save it without a password")
    title = str((reader.metadata.title if reader.metadata else "") or "").strip()
    return [page.extract_text() for page in reader.pages], title


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


_TEXT, _TITLE = ("text", "contents", "content", "body"), ("title", "name", "heading", "subject")
_DEPTH = 20


def csv_blocks(text: str, delimiter: str | None = None) -> Iterator[TextBlock]:
    """One block per row, ``column: value`` lines; the first row names the columns."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        rows = [row for _, row in read_table(text, delimiter)]
    except csv.Error as error:
        raise Unreadable(f"not a table of values: {error}") from None
    if len(rows) < 2:
        raise Unreadable("a table without rows below its header")
    width = max(map(len, rows))
    named = [*rows[0], *[""] * (width - len(rows[0]))]
    header = distinct([name.strip() or f"column {i}" for i, name in enumerate(named, 1)])
    return record_blocks(dict(zip(header, row, strict=False)) for row in rows[1:])


def json_blocks(text: str) -> Iterator[TextBlock]:
    """One block per object of an array or of JSON lines; a lone object is one."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise Unreadable("JSON nested too deeply") from None
    except ValueError as error:
        return record_blocks(_lines_of(text, error))
    records = table_of(value)  # also {"documents": [{…}, …]}
    if isinstance(value, Mapping) and records != [value]:
        around = {key: inner for key, inner in value.items() if inner is not records}
        if any(isinstance(inner, str) and " " in inner.strip() for inner in around.values()):
            records = [around, *records]
    return record_blocks(records)


def record_blocks(records: Iterable[Any]) -> Iterator[TextBlock]:
    """A block per record. A text of its own is kept as it is, below its title; of other records,
    every value is a line, and the first text is the title."""
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            record = {"value": record}
        flat = {key: value for key, value in _flat(record) if value}
        by_name = {key.casefold(): key for key in flat}
        body = next((by_name[key] for key in _TEXT if key in by_name), None)
        head = next((by_name[key] for key in _TITLE if key in by_name), None)
        title = flat[head] if head else ""
        rest = {k: v for k, v in flat.items() if k != body and (k != head or body is None)}
        if body is not None:
            rest = {k: v for k, v in rest.items() if k not in ("id", "_id", "url")}
        elif not title:
            title = next((v for v in flat.values() if not _is_number(v)), "")
        lines = ([flat[body]] if body else []) + [f"{key}: {value}" for key, value in rest.items()]
        if lines:
            yield TextBlock(number, " ".join(title.split())[:200], "\n".join(lines))


def _lines_of(text: str, error: ValueError) -> Iterator[Any]:
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            shown = error if number == 1 or len(lines) == 1 else f"row {number} is broken"
            raise Unreadable(f"not valid JSON: {shown}") from None


def _flat(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > _DEPTH:
        raise Unreadable("JSON nested too deeply")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list) and any(isinstance(v, (Mapping, list)) for v in value):
        for number, inner in enumerate(value, 1):
            yield from _flat(inner, f"{path}.{number}" if path else str(number), depth + 1)
    elif isinstance(value, list):
        yield path, ", ".join(_shown(v) for v in value)
    elif value is not None:
        yield path, _shown(value)


def _shown(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").lstrip("+-").isdigit()
