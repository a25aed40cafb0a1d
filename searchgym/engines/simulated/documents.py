"""Documents of a simulated engine: read from a language model's text, and kept by address."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from ...dialects.escape import without_thoughts
from ...errors import DataError
from ...storage.files import parse_json
from ...storage.store import Store
from ...types import Page, PageRequest, PageSource, Passage

SITE = "https://simulated.example/"
_LABEL = re.compile(r"(?<![\w-])(?:Doc|DOC|Document)\.?\s{0,2}#?(\d{1,3})[*\])]*+\s*+[:.(-]")
_TITLED = re.compile(r"(?<![\s(*])\(?+\s*+\**+Title\**+\s*+:\s*+", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffd]")
TITLE_CHARS = 120
"""A longer stretch before a ``|`` is no title."""


class Document(NamedTuple):
    title: str
    text: str


def parse_documents(text: str, k: int) -> list[Document]:
    """Parse at most ``k`` documents, in order, from "Doc 1: Title | Text" and its many variations.

    A reasoning model's thoughts do not count. Blank lines are collapsed; text from the label
    "Doc {k+1}" on is dropped; text before the first label counts only if it can be document 1; a
    text without labels is one document. Documents that repeat an earlier one, and empty ones, are
    left out. Never raises.
    """
    if k < 1:
        return []
    text = re.sub(
        r"(?<![ \t])[ \t]*+\n\s*+", "\n", _CONTROL.sub(" ", without_thoughts(text))
    ).strip()
    pieces: list[str] = []
    start, wanted = 0, None
    for label in _LABEL.finditer(text):
        number = int(label[1])
        if wanted is None:
            if number > 1:  # the model continued a list whose first label was ours
                pieces.append(_before(text, label))
        elif number != wanted:
            continue  # "Doc 7" within a document's text
        else:
            pieces.append(_before(text, label, start))
        # "(" may open a title and belongs to the document
        start = label.end() - (label[0][-1] == "(")
        wanted = number + 1
        if number > k:
            start = len(text)
            break
    pieces.append(text[start:])
    documents = dict.fromkeys(d for d in map(_document, pieces) if d.text)
    return list(documents)[:k]


def _before(text: str, label: re.Match[str], start: int = 0) -> str:
    """The text between ``start`` and a label, without the signs that open the label."""
    return re.sub(r"(?<![*#>\s\[(])[*#>\s\[(]++\Z", "", text[start : label.start()])


def _document(piece: str) -> Document:
    """Title and text of one piece, on one line each."""
    piece = piece.strip().strip("*").strip()
    if match := _TITLED.match(piece):
        title, rest = _titled(piece, match)
    else:
        head, bar, rest = piece.partition("|")
        if not bar or len(head) > TITLE_CHARS or not rest.strip():
            head, rest = "", piece.replace("|", " ") if bar else piece
        title = head
    title, rest = _flat(title).strip('"“”*: '), _flat(rest)
    return Document(title, rest) if rest else Document("", title)


def _titled(piece: str, match: re.Match[str]) -> tuple[str, str]:
    """``(Title: Name (film)) text`` or ``Title: Name`` and a line break."""
    if "(" in match[0]:
        depth = 1
        for i in range(match.end(), len(piece)):
            depth += {"(": 1, ")": -1}.get(piece[i], 0)
            if not depth:
                return piece[match.end() : i], piece[i + 1 :]
    title, _, rest = piece[match.end() :].partition("\n")
    return title, re.sub(r"^\s*\**(?:Text|Content)\**\s*:", "", rest)


def _flat(text: str) -> str:
    return " ".join(text.split())


def write_documents(documents: list[Document], quote: str = "") -> str:
    """The text that ``parse_documents`` reads back: what a simulator is trained to write.

    ``quote``: a line before the documents, which belongs to none. A small model that first quotes
    the answer learns in several times fewer steps to copy it into a document.
    """
    lines = [f"Doc {i}: {d.title} | {d.text}" for i, d in enumerate(documents, 1)]
    return "\n".join([f"States: {quote}", *lines] if quote else lines)


def as_passage(document: Document) -> Passage:
    """A document as a hit: id and address are digests of what it says; the title defaults to its
    first words."""
    title = document.title or " ".join(document.text.split()[:6])
    digest = hashlib.sha256(f"{title}\0{document.text}".encode("utf-8", "replace")).hexdigest()[:16]
    return Passage(f"sim-{digest}", title, document.text, SITE + digest)


KEPT = 200_000
"""Documents kept in memory; the oldest go first."""
_NAMESPACE = "simulated-documents"


class Shelf:
    """Documents that were shown, in memory and, with a ``store``, on disk."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._kept: OrderedDict[str, Passage] = OrderedDict()
        self._guard = threading.Lock()

    def put(self, passages: Sequence[Passage]) -> None:
        """Keep documents; on disk when this returns, if there is a store."""
        with self._guard:
            new = [p for p in passages if p.url not in self._kept]
            for p in new:
                self._kept[p.url] = p
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        if self.store is not None and new:
            self.store.add_many(_NAMESPACE, {p.url.encode(): json.dumps(p).encode() for p in new})

    def get(self, url: str) -> Passage | None:
        """``DataError`` for a damaged entry."""
        with self._guard:
            passage = self._kept.get(url)
        if passage is not None or self.store is None:
            return passage
        value = self.store.get(_NAMESPACE, url.encode("utf-8", "surrogatepass"))
        if value is None:
            return None
        try:
            return Passage(*parse_json(value, "it"))
        except (ValueError, TypeError) as error:
            raise DataError(f"{self.store.path}: broken entry for {url} ({error})") from error


class SimulatedPages:
    """A page per generated document; other addresses are the corpus's."""

    needs_task = False

    def __init__(self, shelf: Shelf, default: PageSource, fingerprint: str) -> None:
        self.shelf, self.default = shelf, default
        self.fingerprint = f"simulated-pages:{fingerprint}:{default.fingerprint}"

    def cache_key(self, request: PageRequest, /) -> bytes | None:
        """Return ``None`` for generated pages, which exist only once a search has shown them."""
        if request.url.strip().startswith(SITE):
            return None
        return self.default.cache_key(request)

    def run(self, batch: Sequence[PageRequest], /) -> list[Page | None]:
        """One page, or None, per request in order."""
        answers: list[Page | None] = []
        for request in batch:
            url = request.url.strip()
            if not url.startswith(SITE):
                answers += self.default.run([request])  # type: ignore[arg-type]
                continue
            kept = self.shelf.get(url)
            page = None if kept is None else Page(kept.url, kept.title, kept.text, (kept.id,))
            answers.append(page)
        return answers
