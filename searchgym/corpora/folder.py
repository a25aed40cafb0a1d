"""A folder of one's own text files as a corpus: "search my notes"."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import DataError
from ..types import Passage
from .corpus import Corpus

SUFFIXES = (".txt", ".md", ".markdown", ".rst")
_MARKDOWN = (".md", ".markdown")
_MARKDOWN_HEADING = re.compile(r"#{1,6}\s+(.*?)(?:\s+#+)?")  # "# C#" is about C#
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}")
_FENCES = ("```", "~~~")


def load_folder(
    directory: str | Path,
    *,
    name: str | None = None,
    words: int = 120,
    max_file_bytes: int = 10_000_000,
    max_files: int = 50_000,
) -> Corpus:
    """Passages of about ``words`` words from every .txt, .md and .rst file below ``directory``.

    A passage never spans two headings; its title is the heading above it, or the file's name. Its
    id is the relative path and a number, its URL the file's ``file://`` URL, so that opening it
    shows the whole file. Hidden files, hidden folders and links are left alone. ``DataError`` for
    text that is not UTF-8, files over ``max_file_bytes``, more than ``max_files``, or none.
    """
    root = Path(directory).resolve()
    if not root.is_dir():
        raise DataError(f"{directory} is not a folder")
    if words < 1:
        raise DataError(f"words must be at least 1, got {words}")
    passages: list[Passage] = []
    for count, path in enumerate(_files(root)):
        if count >= max_files:
            raise DataError(f"{root} holds more than {max_files:,} text files; set max_files")
        size = path.stat().st_size
        if size > max_file_bytes:
            raise DataError(
                f"{path} is too large ({size:,} bytes, limit {max_file_bytes:,}); "
                "split it or set max_file_bytes"
            )
        key = path.relative_to(root).as_posix()
        for number, (title, text) in enumerate(
            _pieces(_read(path), words, path.suffix.lower() in _MARKDOWN)
        ):
            passages.append(Passage(f"{key}#{number:05}", title or path.stem, text, path.as_uri()))
    if not passages:
        raise DataError(f"{root} holds no text in files ending in {', '.join(SUFFIXES)}")
    return Corpus(name or root.name, passages)


def _files(root: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(root):
        below[:] = sorted(d for d in below if not d.startswith("."))
        for file in sorted(files):
            path = Path(folder, file)
            wanted = path.suffix.lower() in SUFFIXES and not file.startswith(".")
            if wanted and not path.is_symlink():
                yield path


def _read(path: Path) -> str:
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: not UTF-8 text (byte {raw[error.start]:#04x}); save it as UTF-8"
        ) from None


def _pieces(text: str, words: int, markdown: bool) -> Iterator[tuple[str, str]]:
    """(heading, text) pairs: whole paragraphs packed up to ``words``, longer ones cut."""
    section, heading, held, size = 0, "", list[str](), 0
    for new_section, new_heading, paragraph in _paragraphs(text, markdown):
        if new_section != section:
            if held:
                yield heading, "\n".join(held)
            section, heading, held, size = new_section, new_heading, [], 0
        tokens = paragraph.split()
        for start in range(0, len(tokens), words):
            part = tokens[start : start + words]
            if held and size + len(part) > words:
                yield heading, "\n".join(held)
                held, size = [], 0
            held.append(" ".join(part))
            size += len(part)
    if held:
        yield heading, "\n".join(held)


def _paragraphs(text: str, markdown: bool) -> Iterator[tuple[int, str, str]]:
    """(number of headings so far, the last of them, paragraph). In Markdown ``~~~`` fences code
    and a heading is underlined with = or -; other lines of marks there part paragraphs."""
    lines = text.splitlines()
    section, heading, held, fence = 0, "", list[str](), ""
    for i, raw in enumerate(lines):
        line = raw.strip()
        opened = line[:3] if line.startswith(_FENCES if markdown else _FENCES[:1]) else ""
        if opened and fence in ("", opened):
            fence = "" if fence else opened
        fenced = bool(fence)
        below = lines[i + 1].strip() if i + 1 < len(lines) else ""
        found = None if fenced else _MARKDOWN_HEADING.fullmatch(line)
        underlined = (
            not (fenced or opened or held)
            and _UNDERLINE.fullmatch(below)
            and (not markdown or below[0] in "=-")
            and 0 < len(line) <= len(below) + 2
            and not _UNDERLINE.fullmatch(line)
        )
        if found or underlined or not line or (not fenced and _UNDERLINE.fullmatch(line)):
            if held:
                yield section, heading, " ".join(held)
                held = []
            if found or underlined:
                section, heading = section + 1, found.group(1) if found else line
        else:
            held.append(line)
    if held:
        yield section, heading, " ".join(held)
