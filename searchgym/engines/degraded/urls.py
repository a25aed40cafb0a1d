"""Addresses of documents that exist only in a degraded engine's results.

All kinds share hosts and form, so that an address gives nothing away; a check sum inside lets the
page source recognise its own and write the same document again, without any memory.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

from ...seeding import derive

Kind = Literal["junk", "attack", "mirror", "contradiction"]
KINDS: tuple[Kind, ...] = ("junk", "attack", "mirror", "contradiction")
_HOSTS = (
    "almanac", "answers-daily", "archive-online", "citizen-notes", "factbook", "field-guide",
    "folio", "gazetteer", "open-pages", "reading-room", "the-index", "whoiswho",
)  # fmt: skip
_WORDS, _LETTERS = 12, 40
_URL = re.compile(r"https://[a-z-]+\.example/([^/?#\s]+)-([0-9a-f]{8})([0-9a-f]{8})")


class Invented(NamedTuple):
    """A document that is fully determined by its address (and, for facts, the episode)."""

    kind: Kind
    words: tuple[str, ...]
    """Subject: words of the query or of a title."""
    payload: int
    """32 bits: a corpus position, or nothing but chance."""
    url: str

    @property
    def id(self) -> str:
        return f"web-{self.url[-16:]}"

    @property
    def key(self) -> int:
        """Seeds everything the document says."""
        return derive(self.payload, "invented", *self.words)

    @property
    def topic(self) -> str:
        return " ".join(self.words)


def invent(kind: Kind, about: str, payload: int) -> Invented:
    """The address of a document of some kind about a text; ``payload`` in [0, 2³²)."""
    words = tuple(w[:_LETTERS] for w in re.findall(r"[^\W_]+", about.lower())[:_WORDS]) or ("page",)
    slug = quote("-".join(words))
    host = _HOSTS[derive(payload, "host", slug) % len(_HOSTS)]
    url = f"https://{host}.example/{slug}-{payload:08x}{_check(kind, slug, payload):08x}"
    return Invented(kind, words, payload, url)


def recognise(url: str) -> Invented | None:
    """Recover what :func:`invent` made from its address; ``None`` for other addresses."""
    match = _URL.fullmatch(url.strip())
    if match is None:
        return None
    slug, payload, check = match[1], int(match[2], 16), int(match[3], 16)
    for kind in KINDS:
        if _check(kind, slug, payload) == check:
            invented = Invented(kind, tuple(unquote(slug).split("-")), payload, url.strip())
            return invented if invent(kind, invented.topic, payload) == invented else None
    return None


def _check(kind: Kind, slug: str, payload: int) -> int:
    return derive(payload, "check", kind, slug) & 0xFFFFFFFF
