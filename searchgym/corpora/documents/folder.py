"""A folder of documents, or one document, as a corpus; what cannot be read is listed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ...errors import DataError
from ...types import Passage
from ..corpus import Corpus
from ..lines import kind_of_file
from .encoding import Unreadable
from .readers import FileReader, ParsedFile, format_of

Parse = Callable[[Path], ParsedFile]
ParseFile = Callable[[Path, Parse], ParsedFile]
WORDS, MAX_FILE_BYTES, MAX_FILES = 120, 50_000_000, 50_000
_SHOWN = 8


class DocumentFile(NamedTuple):
    """A file that was read."""

    path: str
    """Relative to the folder."""
    format: str
    encoding: str
    passages: int


class SkippedFile(NamedTuple):
    """A file or folder that was not read, and why."""

    path: str
    reason: str


class SkippedFiles(UserWarning):
    """Warns that files of a folder were not read; names them with the reasons."""


class DocumentCorpus(Corpus):
    """Passages of documents of your own.

    Args:
        files: What every file that was read gave.
        skipped: What was left out.
    """

    unicode = True

    def __init__(
        self,
        name: str,
        passages: Iterable[Passage],
        *,
        files: Iterable[DocumentFile] = (),
        skipped: Iterable[SkippedFile] = (),
    ) -> None:
        super().__init__(name, passages)
        self.files, self.skipped = tuple(files), tuple(skipped)

    def skipped_lines(self, most: int = _SHOWN) -> list[str]:
        """One line per reason: how many files, and the first of their names."""
        by_reason: dict[str, list[str]] = {}
        for path, reason in self.skipped:
            by_reason.setdefault(reason, []).append(path)
        return [
            f"{len(paths)} × {reason}: {', '.join(paths[:most])}"
            + (f", … ({len(paths) - most} more)" if len(paths) > most else "")
            for reason, paths in by_reason.items()
        ]


def load_documents(
    source: str | Path,
    *,
    name: str | None = None,
    words: int = WORDS,
    max_file_bytes: int = MAX_FILE_BYTES,
    max_files: int = MAX_FILES,
    strict: bool = False,
    parse_file: ParseFile | None = None,
) -> DocumentCorpus:
    """Read a folder of documents, or one document.

    A passage holds about ``words`` words below one heading; its title is that heading with those
    above it ("Oslo › Food"), or the file's name. Its id is the file's path and a number; opening
    its URL shows the whole file. Formats: ``readers.FORMATS``. Encodings are detected.

    Files that cannot be read, are of other formats, hidden, links, devices, or larger than
    ``max_file_bytes`` are left out: ``DocumentCorpus.skipped`` lists them with the reasons, and a
    ``SkippedFiles`` warning tells. So are those that take more than 10 s of processor time (and 1 s
    more for every megabyte) or 2 GB of memory to read, which happens in a process of its own.

    Args:
        strict: Raise instead of leaving out files of these formats.
        parse_file: Gives what is in a file, by the function beside it or without (a store that
            remembers does).

    Raises:
        DataError: nothing could be read, there are more than ``max_files`` files, or ``strict``.
    """
    root = Path(source)
    if words < 1:
        raise DataError(f"words must be at least 1, got {words}")
    single = not root.is_dir()
    if single and not os.path.lexists(root):
        raise DataError(f"{source} does not exist")
    base = root.parent if single else root
    name = name or (root.stem if single else root.resolve().name)
    passages: list[Passage] = []
    files: list[DocumentFile] = []
    skipped: list[SkippedFile] = []
    faults: list[SkippedFile] = []
    entries = [(root, kind_of_file(root))] if single else walk(root)
    with FileReader(words=words, max_bytes=max_file_bytes) as reader:
        for path, unusable in entries:
            inside = os.fsencode(path.relative_to(base).as_posix())
            key = inside.decode("utf-8", "backslashreplace")
            if unusable:
                skipped.append(SkippedFile(key, unusable))
                continue
            if len(files) >= max_files:
                raise DataError(f"{root} holds more than {max_files:,} documents; set max_files")
            try:
                made = parse_file(path, reader.parse) if parse_file else reader.parse(path)
            except Unreadable as error:
                skipped.append(SkippedFile(key, str(error)))
                if format_of(path) is not None and str(error) != "empty":
                    faults.append(skipped[-1])
                continue
            files.append(DocumentFile(key, made.format, made.encoding, len(made.pieces)))
            url = f"corpus://{quote(name)}/{quote(key)}"
            for number, (title, text) in enumerate(made.pieces):
                passages.append(Passage(f"{key}#{number:05}", title or path.stem, text, url))
    documents = DocumentCorpus(name, passages, files=files, skipped=skipped)
    if (strict and faults) or not passages:
        told = "; ".join(documents.skipped_lines()) or "it is empty"
        raise DataError(f"{root}: {'not every' if passages else 'no'} file can be read: {told}")
    if skipped:
        warnings.warn(
            f"{root}: {len(skipped):,} of {len(skipped) + len(files):,} files were not read:"
            + "".join(f"\n  {line}" for line in documents.skipped_lines()),
            SkippedFiles,
            stacklevel=2,
        )
    return documents


def walk(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Every file below a folder, in order, with the reason why it is not to be read, if any. A
    hidden folder, and one that is a link, is given itself in place of its files."""
    failed: list[tuple[Path, str | None]] = []

    def note(error: OSError) -> None:
        failed.append((Path(error.filename), f"cannot be opened: {error.strerror}"))

    for folder, below, files in os.walk(root, onerror=note):
        yield from failed
        failed.clear()
        kept = []
        for each in sorted(below):
            path = Path(folder, each)
            if each.startswith("."):
                yield path, "hidden (its name begins with a dot)"
            elif path.is_symlink():
                yield path, "a link"
            else:
                kept.append(each)
        below[:] = kept
        for each in sorted(files):
            path = Path(folder, each)
            hidden = "hidden (its name begins with a dot)" if each.startswith(".") else None
            yield path, hidden or ("a link" if path.is_symlink() else kind_of_file(path))
    yield from failed
