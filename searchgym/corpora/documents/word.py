"""DOCX: the text that Word shows, by headings, lists, tables and paragraphs."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from .encoding import Unreadable
from .formats import TextBlock, outlined
from .formulas import formula, local

_GREEK = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_ αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_SYMBOLS = dict(zip(range(0x41, 0x7B), _GREEK, strict=True))
"""Letters of the font Symbol."""
_UNREAD = frozenset("del moveFrom pPr rPr sdtPr sdtEndPr tblPr tblGrid trPr tcPr instrText".split())
_HEADING = re.compile(r"heading ([1-9])")


_NO_MEMORY = (0, 2)
"""Codes of errors that libxml2 gives when it gets no memory."""


class _Style(NamedTuple):
    name: str
    based_on: str
    properties: Any


def docx_blocks(raw: bytes, unpacked_bytes: int) -> Iterator[TextBlock]:
    """Blocks of a Word document.

    Raises:
        Unreadable: it is none, or unpacks to more than ``unpacked_bytes``.
    """
    try:
        packed = zipfile.ZipFile(io.BytesIO(raw))
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise Unreadable(f"not a DOCX file: {error}") from None
    size = sum(part.file_size for part in packed.infolist())
    if size > unpacked_bytes:
        raise Unreadable(f"unpacks to {size:,} bytes (limit {unpacked_bytes:,})")
    with packed:
        main = next(iter(_related(packed, "").get("officeDocument", ())), "word/document.xml")
        return outlined(list(_Document(packed, main).items()))


def _related(packed: zipfile.ZipFile, part: str) -> dict[str, list[str]]:
    """Parts that a part names, by the last word of their kind ("styles")."""
    folder, name = posixpath.split(part)
    found = defaultdict[str, list[str]](list)
    root = _xml(packed, posixpath.join(folder, "_rels", f"{name}.rels"))
    for row in root if root is not None else ():
        if row.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, row.get("Target", "")))
            found[row.get("Type", "").rpartition("/")[2]].append(target.lstrip("/"))
    return found


def _xml(packed: zipfile.ZipFile, part: str) -> Any:
    """The root of a part; None if there is none. Entities are not resolved."""
    from lxml import etree

    if part not in packed.namelist():
        return None
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip
    try:
        return etree.fromstring(packed.read(part), parser)
    except etree.XMLSyntaxError as error:
        if error.code in _NO_MEMORY:
            raise MemoryError from error
        raise


class _Document:
    def __init__(self, packed: zipfile.ZipFile, main: str) -> None:
        related = _related(packed, main)
        parts = {
            kind: next((_xml(packed, target) for target in related.get(kind, ())), None)
            for kind in ("styles", "numbering", "footnotes", "endnotes")
        }
        self._root = _xml(packed, main)
        if self._root is None:
            raise Unreadable(f"not a DOCX file: it has no part {main!r}")
        self._styles = {
            _value(style, "styleId"): _Style(
                _of(style, "name").lower(), _of(style, "basedOn"), style)
            for style in _named(parts["styles"], "style")
        }  # fmt: skip
        self._bulleted = _bullets(parts["numbering"])
        self._numbers = dict[str, list[int]]()
        self._notes = {
            (kind, _value(note, "id")): note
            for kind in ("footnote", "endnote")
            for note in _named(parts[f"{kind}s"], kind)
        }
        self._referred: list[Any] = []
        self._diagrams = [_xml(packed, target) for target in related["diagramData"]]

    def items(self) -> Iterator[tuple[int, str]]:
        """Headings and texts in order; lists and tables are texts of several lines, and notes and
        diagrams come at the end."""
        body = next((part for part in self._root if local(part) == "body"), self._root)
        lines: list[str] = []
        for kind, text in self._blocks(body):
            if kind == "item":
                lines.append(text)
                continue
            if lines:
                yield 0, "\n".join(lines)
                lines = []
            yield int(kind or 0), text
        if lines:
            yield 0, "\n".join(lines)
        if self._referred or self._diagrams:
            yield 2, ""  # they belong to no heading
        for number, note in enumerate(self._referred, 1):
            text = " ".join(text for _, text in self._blocks(note))
            if text:
                yield 0, f"[{number}] {text}"
        for diagram in self._diagrams:
            shown = (e.text for e in diagram.iter() if local(e) == "t" and e.text)
            if text := "\n".join(shown):
                yield 0, text

    def _blocks(self, parent: Any) -> Iterator[tuple[str, str]]:
        """(kind, text) of the blocks in an element; kind is "item", a heading's level, or empty."""
        for child in parent:
            name = local(child)
            if name == "p":
                yield from self._paragraph(child)
            elif name == "tbl":
                yield from self._table(child)
            elif name == "oMathPara":
                yield "", formula(child)
            elif name == "AlternateContent":
                yield from self._alternative(child)
            elif name not in _UNREAD:
                yield from self._blocks(child)

    def _alternative(self, element: Any) -> Iterator[tuple[str, str]]:
        """The first form of what is given in several that holds text."""
        for form in element:
            if found := [block for block in self._blocks(form) if block[1]]:
                yield from found
                return

    def _paragraph(self, element: Any) -> Iterator[tuple[str, str]]:
        boxes: list[tuple[str, str]] = []
        parts: list[str] = []
        style = _of(element, "pPr", "pStyle")
        if not self._hidden_style(style):
            self._inline(element, parts, boxes)
        lines = (" ".join(line.split(" ")).strip() for line in "".join(parts).split("\n"))
        text = "\n".join(line for line in lines if line)
        level = self._level(element, style)
        if text and level:
            yield str(level), text.replace("\n", " ")
        elif text:
            mark = self._mark(element, style)
            yield ("item" if mark else ""), mark + text
        yield from boxes

    def _inline(self, parent: Any, parts: list[str], boxes: list[tuple[str, str]]) -> None:
        for child in parent:
            name = local(child)
            if name == "r" and self._hidden(child):
                continue
            if name == "t":
                parts.append((child.text or "").replace("\xa0", " ").replace("\n", " "))
            elif name in ("tab", "ptab"):
                parts.append(" ")
            elif name in ("br", "cr"):
                parts.append("\n")
            elif name == "textpath":  # WordArt
                parts.append(_value(child, "string"))
            elif name == "noBreakHyphen":
                parts.append("-")
            elif name == "sym":
                parts.append(_symbol(child))
            elif name in ("footnoteReference", "endnoteReference"):
                note = self._notes.get((name.removesuffix("Reference"), _value(child, "id")))
                if note is not None:
                    self._referred.append(note)
                    parts.append(f"[{len(self._referred)}]")
            elif name in ("oMath", "oMathPara"):
                parts.append(formula(child))
            elif name == "AlternateContent":
                self._inline_alternative(child, parts, boxes)
            elif name == "txbxContent":
                boxes.extend(self._blocks(child))
            elif name == "rt":
                above: list[str] = []
                self._inline(child, above, boxes)
                parts.append(f"({''.join(above)})")
            elif name not in _UNREAD:
                self._inline(child, parts, boxes)

    def _inline_alternative(
        self, element: Any, parts: list[str], boxes: list[tuple[str, str]]
    ) -> None:
        for form in element:
            own_parts: list[str] = []
            own_boxes: list[tuple[str, str]] = []
            self._inline(form, own_parts, own_boxes)
            if any(part.strip() for part in own_parts) or own_boxes:
                parts.extend(own_parts)
                boxes.extend(own_boxes)
                return

    def _table(self, element: Any) -> Iterator[tuple[str, str]]:
        """A table's rows as lines; one that arranges the page (with headings or tables inside) as
        the blocks of its cells."""
        rows = [
            [list(self._blocks(cell)) for cell in _cells(row)]
            for row in _named(element, "tr")
            if not any(local(mark) in ("hidden", "del") for mark in _named(row, "trPr", inner=True))
        ]
        arranging = any(kind.isdigit() for row in rows for cell in row for kind, _ in cell)
        if arranging or next(element.iterdescendants(element.tag), None) is not None:
            yield from (block for row in rows for cell in row for block in cell)
            return
        lines = (
            " | ".join(" ".join(" ".join(text.split()) for _, text in cell) for cell in row)
            for row in rows
        )
        if text := "\n".join(line for line in lines if line.strip(" |")):
            yield "", text

    def _ancestry(self, style: str) -> Iterator[_Style]:
        seen = set[str]()
        while style in self._styles and style not in seen:
            seen.add(style)
            yield self._styles[style]
            style = self._styles[style].based_on

    def _level(self, paragraph: Any, style: str) -> int:
        """A heading's level, a document's title being the first; 0 for other paragraphs."""
        line = list(self._ancestry(style))
        for one in line:
            if one.name == "title":
                return 1
            if found := _HEADING.fullmatch(one.name):
                return int(found[1]) + 1
        for owner in (paragraph, *(one.properties for one in line)):
            if outline := _of(owner, "pPr", "outlineLvl"):
                return int(outline) + 2 if outline in "012345678" else 0
        return 0

    def _hidden(self, run: Any) -> bool:
        own = _switch(run, "rPr", "vanish")
        return self._hidden_style(_of(run, "rPr", "rStyle")) if own is None else own

    def _hidden_style(self, style: str) -> bool:
        states = (_switch(one.properties, "rPr", "vanish") for one in self._ancestry(style))
        return next((state for state in states if state is not None), False)

    def _mark(self, paragraph: Any, style: str) -> str:
        owners = (paragraph, *(one.properties for one in self._ancestry(style)))
        chosen = next((o for o in owners if _of(o, "pPr", "numPr", "numId")), None)
        if chosen is None or (number := _of(chosen, "pPr", "numPr", "numId")) == "0":
            return ""
        depth = _of(chosen, "pPr", "numPr", "ilvl")
        level = int(depth) if depth in tuple("12345678") else 0
        if self._bulleted.get((number, level), (True, 1))[0]:
            return "  " * level + "- "
        counts = self._numbers.setdefault(number, [])
        del counts[level + 1 :]
        while len(counts) <= level:
            counts.append(self._bulleted.get((number, len(counts)), (True, 1))[1] - 1)
        counts[level] += 1
        return "  " * level + f"{counts[level]}. "


def _bullets(numbering: Any) -> dict[tuple[str, int], tuple[bool, int]]:
    """List and level → whether it has bullets, and its first number."""
    abstract = {_value(one, "abstractNumId"): one for one in _named(numbering, "abstractNum")}
    found = {}
    for number in _named(numbering, "num"):
        for level in _named(abstract.get(_of(number, "abstractNumId")), "lvl"):
            start, depth = _of(level, "start"), _value(level, "ilvl")
            first = int(start) if start.isdecimal() and len(start) < 9 else 1
            if depth.isdecimal() and len(depth) < 9:
                found[_value(number, "numId"), int(depth)] = (
                    _of(level, "numFmt") in ("bullet", "none"), first)  # fmt: skip
    return found


def _cells(row: Any) -> Iterator[Any]:
    for child in row:
        if local(child) == "tc":
            yield child
        elif local(child) not in _UNREAD:
            yield from _cells(child)


def _named(parent: Any, name: str, inner: bool = False) -> Iterator[Any]:
    """Children of a name, also inside content controls and tracked insertions; with ``inner``,
    their children."""
    for child in parent if parent is not None else ():
        if local(child) == name:
            yield from child if inner else (child,)
        elif local(child) in ("sdt", "sdtContent", "ins", "customXml"):
            yield from _named(child, name, inner)


def _value(element: Any, name: str = "val") -> str:
    """An attribute without regard to its namespace; empty if there is none."""
    if element is None:
        return ""
    return next((v for k, v in element.items() if k.rpartition("}")[2] == name), "")


def _at(element: Any, *path: str) -> Any:
    for name in path:
        element = (
            next((c for c in element if local(c) == name), None) if element is not None else None
        )
    return element


def _of(element: Any, *path: str) -> str:
    """The value of the element at the end of a path of names; empty if there is none."""
    return _value(_at(element, *path))


def _switch(element: Any, *path: str) -> bool | None:
    """Return True if a switch is on; None where it is not set."""
    found = _at(element, *path)
    return None if found is None else _value(found) not in ("0", "false", "off", "none")


def _symbol(element: Any) -> str:
    code = int(_value(element, "char") or "0", 16) & 0x10FFFF
    if _value(element, "font").lower() == "symbol":
        return _SYMBOLS.get(code & 0xFF, "")
    return "" if 0xE000 <= code < 0xF900 or not code else chr(code)
