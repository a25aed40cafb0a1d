"""HTML: the text that a browser shows, by headings, lists, tables and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from .encoding import Unreadable, decode, encoding_named
from .formats import TextBlock, outlined
from .formulas import formula

_UNSEEN = (
    "head", "title", "script", "style", "noscript", "template", "iframe", "object", "video",
    "audio", "canvas", "noframes", "datalist", "rp", "nav",
)  # fmt: skip
"""Elements that a browser does not show as text, and menus."""
_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form frameset header hgroup hr html legend li listing main menu ol "
    "optgroup option p plaintext pre search section select summary table tbody td textarea tfoot "
    "th thead tr ul xmp".split()
)
_VERBATIM = ("pre", "textarea", "listing", "xmp", "plaintext")
_LISTS = ("ul", "ol", "menu", "dir")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)", re.I)
_DECLARED = re.compile(
    rb"<meta\b[^<>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]+)|\A\s*<\?xml\b[^<>]{0,200}?encoding\s*="
    rb"\s*[\"']([\w.:-]+)",
    re.I,
)
_PAGE_END = re.compile(r"</(?:body|html)\s*>", re.I)
_HOLDS = {
    "table": ("caption", "colgroup", "col", "thead", "tbody", "tfoot", "tr", "form"),
    "thead": ("tr", "form"), "tbody": ("tr", "form"), "tfoot": ("tr", "form"), "tr": ("td", "th"),
}  # fmt: skip
"""Elements that stand in the parts of a table; browsers show all else, too."""
_BLANKS = re.compile(r"[ \t\r\n\f\xa0]+")
_BREAK = "\v"
_LONGEST_HEADING, _CELL_BLOCKS = 300, 5


def html_blocks(raw: bytes) -> tuple[Iterator[TextBlock], str]:
    """Blocks of an HTML page, and its encoding: what a browser shows but for menus (``nav``); style
    sheets are not applied. The page's title stands above its headings where it has no first-level
    one."""
    from lxml import etree

    first, *others = raw[:8192].split(b"<!--")
    told = b" ".join([first, *(part.partition(b"-->")[2] for part in others)])
    found = _DECLARED.search(told)
    label = (found[1] or found[2]).decode("ascii", "replace") if found else ""
    text, encoding = decode(raw, encoding_named(label) if label else None)
    parser = etree.HTMLParser(
        encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True
    )
    text = _PAGE_END.sub(" ", text.replace("\0", "").replace(_BREAK, " "))  # text may follow it
    source = text.encode("utf-8", "replace")
    try:
        page = etree.fromstring(source, parser)
    except etree.XMLSyntaxError as error:
        if error.code != etree.ErrorTypes.ERR_DOCUMENT_EMPTY:
            raise MemoryError from error
        page = None
    if any(fault.type_name == "ERR_NO_MEMORY" for fault in parser.error_log):
        raise MemoryError
    if any(fault.type_name == "ERR_RESOURCE_LIMIT" for fault in parser.error_log):
        raise Unreadable("nested too deeply")
    if page is None:  # nothing but comments
        return iter(()), encoding
    head = next((t for t in page.iter("title") if next(t.iterancestors("svg"), None) is None), None)
    title = " ".join("".join(head.itertext()).split()) if head is not None else ""
    etree.strip_elements(page, *_UNSEEN, with_tail=False)
    for element in page.xpath("//*[@hidden or @style or self::dialog or self::input]"):
        if _is_hidden(element):
            _drop(element)
    items = _Walk(page, _arranging(page)).items
    return outlined(items, "" if any(level == 1 for level, _ in items) else title), encoding


def _is_hidden(element: Any) -> bool:
    tag, style = element.tag, element.get("style")
    return (
        element.get("hidden") is not None
        or bool(style and _HIDING.search(style))
        or (tag == "dialog" and element.get("open") is None)
        or (tag == "input" and element.get("type", "").lower() == "hidden")
    )


def _drop(element: Any) -> None:
    parent, before, tail = element.getparent(), element.getprevious(), element.tail or ""
    if parent is None:
        element.clear()
        return
    if before is None:
        parent.text = (parent.text or "") + tail
    else:
        before.tail = (before.tail or "") + tail
    parent.remove(element)


class _Walk:
    """The headings and texts of an element, in order (``items``)."""

    def __init__(self, element: Any, arranging: Collection[Any] = ()) -> None:
        from lxml import etree

        self.items: list[tuple[int, str]] = []
        self._parts: list[str] = []  # text since the last block began or ended
        self._lines: list[str] = []  # of the list that is being read
        self._lists: list[list[int | None]] = []  # the numbers of the lists around
        self._marker = ""
        self._verbatim = self._heading = 0
        walk = etree.iterwalk(element, events=("start", "end"))
        for event, node in walk:
            if event == "start":
                if self._taken_whole(node, arranging):
                    walk.skip_subtree()
                    continue
                self._start(node)
                self._add(node.text)
            else:
                self._end(node)
                if node is not element:
                    self._add(node.tail)
        self._flush()
        self._close_list()

    def _taken_whole(self, node: Any, arranging: Collection[Any]) -> bool:
        """Read an element whose parts are not texts below one another."""
        tag = node.tag
        if tag == "math":
            self._parts.append(f" {formula(node)} ")
        elif tag == "svg":
            shown = (" ".join("".join(text.itertext()).split()) for text in node.iter("text"))
            self._parts.append(f" {' '.join(shown)} ")
        elif tag == "table" and node not in arranging and not self._heading:
            rows = [line for row in _rows_of(node) if (line := " | ".join(row)).strip(" |")]
            self._flush()
            for line in rows:
                self._line(line)
            if not self._lists:
                self._close_list()
        else:
            return False
        return True

    def _start(self, node: Any) -> None:
        tag = node.tag
        if tag in _HEADINGS:
            self._flush()
            self._close_list()
            self._heading += 1
        elif tag in _BLOCKS:
            self._flush()
        if tag in _LISTS:
            self._lists.append([_number(node, "start", 1) if tag == "ol" else None])
        elif tag == "li":
            numbers: list[int | None] = self._lists[-1] if self._lists else [None]
            number = numbers[0]
            if number is not None:
                number = _number(node, "value", number)
                numbers[0] = number + 1
            self._marker = "- " if number is None else f"{number}. "
        elif tag in _VERBATIM:
            self._verbatim += 1
        elif tag == "br":
            self._parts.append("\n" if self._verbatim else _BREAK)
        elif tag == "q":
            self._parts.append("“")
        elif tag == "rt":
            self._parts.append("(")
        elif tag == "button":
            self._parts.append(" ")
        elif tag == "img":
            self._parts.append(node.get("alt") or "")
        elif tag in ("option", "optgroup") and node.get("label"):
            self._parts.append(node.get("label"))
            if tag == "option":
                node.text = None
            else:
                self._flush()
        elif tag == "input":
            self._parts.append(f" {_shown_in(node)} ")
        elif tag == "textarea" and not (node.text or "").strip():
            self._parts.append(node.get("placeholder") or "")

    def _end(self, node: Any) -> None:
        tag = node.tag
        if tag in _HEADINGS:
            self._heading -= 1
            text = self._taken().replace("\n", " ")
            if len(text) > _LONGEST_HEADING:
                self.items.append((0, text))
            else:
                self.items.append((_HEADINGS[tag], text))
        elif tag in _BLOCKS:
            self._flush()
        if tag in _LISTS and self._lists:
            self._lists.pop()
            if not self._lists:
                self._close_list()
        elif tag == "li":
            self._marker = ""
        elif tag in _VERBATIM:
            self._verbatim -= 1
        elif tag in ("q", "rt", "button"):
            self._parts.append({"q": "”", "rt": ")", "button": " "}[tag])

    def _add(self, text: str | None) -> None:
        if text:
            self._parts.append(text if self._verbatim else _BLANKS.sub(" ", text))

    def _taken(self) -> str:
        text = "".join(self._parts)
        self._parts.clear()
        if self._verbatim:
            return text.replace("\xa0", " ").strip("\r\n").rstrip()
        lines = (_BLANKS.sub(" ", line).strip() for line in text.split(_BREAK))
        return "\n".join(line for line in lines if line)

    def _flush(self) -> None:
        if self._heading:  # a heading is one line
            self._parts.append(" ")
        elif text := self._taken():
            for line in text.split("\n") if self._lists else [text]:
                self._line(line)
            if not self._lists:
                self._close_list()

    def _line(self, text: str) -> None:
        depth = len(self._lists)
        indent = "  " * (depth - 1) + (self._marker or "  ") if depth else self._marker
        self._marker = ""
        self._lines.append(indent + text)

    def _close_list(self) -> None:
        if self._lines:
            self.items.append((0, "\n".join(self._lines)))
            self._lines.clear()


def _arranging(element: Any) -> set[Any]:
    """Tables that arrange a page rather than hold values: with headings, code or tables inside,
    many paragraphs in a cell, or anything outside of cells. They are read from top to bottom."""
    from lxml import etree

    found: set[Any] = set()
    if next(element.iter("table"), None) is None:
        return found
    around: list[Any] = []
    blocks: list[int] = []
    for event, node in etree.iterwalk(element, events=("start", "end")):
        tag = node.tag
        if tag in ("td", "th"):
            if event == "start":
                blocks.append(0)
            elif blocks:
                blocks.pop()
        if event == "end":
            if around and _has_strays(node):
                found.add(around[-1])
            if tag == "table":
                around.pop()
            continue
        many = False
        if blocks and tag in ("p", "div", "li", "br"):
            blocks[-1] += 1
            many = blocks[-1] > _CELL_BLOCKS
        if many or tag in _HEADINGS or tag in _VERBATIM or tag == "table":
            for table in reversed(around):
                if table in found:
                    break
                found.add(table)
        if tag == "table":
            around.append(node)
    return found


def _has_strays(part: Any) -> bool:
    """Test if a part of a table, or a form between them, holds what belongs into a cell."""
    holds = _HOLDS.get(part.tag)
    if part.tag == "form" and part.getparent().tag in _HOLDS:
        holds = _HOLDS["table"]
    return holds is not None and bool(
        (part.text or "").strip()
        or any(child.tag not in holds or (child.tail or "").strip() for child in part)
    )


def _rows_of(table: Any) -> Iterator[list[str]]:
    for row in table.iter("caption", "tr"):
        if row.tag == "caption":
            yield [_text_of(row)]
        else:
            yield [_text_of(cell) for cell in row if cell.tag in ("td", "th")]


def _text_of(element: Any) -> str:
    texts = [text for _, text in _Walk(element).items] if len(element) else [element.text or ""]
    return " ".join(" ".join(text.split()) for text in texts)


def _number(element: Any, name: str, default: int) -> int:
    value = element.get(name, "").strip()
    return int(value) if re.fullmatch(r"[+-]?\d{1,9}", value, re.ASCII) else default


def _shown_in(field: Any) -> str:
    kind = field.get("type", "text").lower()
    if kind in ("checkbox", "radio", "password", "file", "range", "color"):
        return ""
    if kind == "image":
        return field.get("alt") or ""
    return field.get("value") or field.get("placeholder") or ""
