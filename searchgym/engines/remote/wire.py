"""Requests and replies on the wire, checked: nothing a server sends is trusted."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...corpora.load import split_contents
from ...errors import EngineError
from ...types import Failure, Hit, Passage, Ranking


class Ask(NamedTuple):
    """One HTTP request."""

    method: str
    url: str
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    params: Mapping[str, str] = {}
    """Query string; kept apart from ``url`` because it may hold a key, which no message shows."""


class Response(NamedTuple):
    """A successful response (status 2xx)."""

    body: bytes
    headers: Mapping[str, str]


class Trouble(NamedTuple):
    """Reason for a missing reply; ``status`` is the server's, or ``None`` if it never answered."""

    failure: Failure
    status: int | None = None


class Malformed(ValueError):
    """A response that is not what its dialect documents."""


class RawHit(NamedTuple):
    """One result as a server gives it."""

    passage: Passage
    score: float | None
    """Score of the passage; ``None``: only the order is known."""


def parse_json(body: bytes | str) -> Any:
    """``Malformed`` unless the body is JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None


def field(data: Any, name: str, kind: type) -> Any:
    """``data[name]`` if it is of this kind; ``Malformed`` says what was got instead."""
    if not isinstance(data, dict) or not isinstance(data.get(name), kind):
        raise Malformed(f"expected an object with the {kind.__name__} {name!r}, got {data!r:.80}")
    return data[name]


def text_of(value: Any, what: str) -> str:
    """A string, or "" for an absent one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"{what} must be a string, got {value!r:.60}")
    return value


def score_of(value: Any) -> float | None:
    """A finite number, or ``None`` for an absent one."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Malformed(f"a score must be a finite number, got {value!r:.40}")
    return float(value)


def passage_of(document: Any, id: Any = None, url: str = "") -> Passage:
    """A passage from a document in any of the conventions in use.

    ``contents`` is read as ``corpora.load.split_contents`` does; ``title`` and ``text`` beside it
    win. Documents without an id get one made of their address or text.
    """
    if isinstance(document, str):
        document = {"contents": document}
    if not isinstance(document, dict):
        raise Malformed(f"a document must be an object, got {document!r:.60}")
    title = text_of(document.get("title"), "title")
    text = text_of(document.get("text"), "text")
    whole = text_of(document.get("contents") or document.get("content"), "contents")
    if whole and not (text and "title" in document):
        title, text = split_contents(whole, title)
    elif text and "title" not in document:
        title, text = split_contents(text, "", quoted=True)
    url = text_of(document.get("url"), "url") or url
    number = next((x for x in (id, document.get("id"), document.get("docid")) if x is not None), "")
    if isinstance(number, bool) or not isinstance(number, (str, int)):
        raise Malformed(f"an id must be a string or an integer, got {number!r:.40}")
    name = str(number) or made_id(url or f"{title}\0{text}")
    return Passage(name, title, text, url)


def made_id(text: str) -> str:
    """An id for a document that came without one; equal documents, equal ids."""
    return "r-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def ranking(raw_hits: Iterable[RawHit], k: int) -> Ranking:
    """Rank at most k hits: scores never increasing, ties by id, each passage once.

    Where a result has no score, rank r (from 0) scores 1 / (r + 1) for all: order is all we know.
    """
    items: dict[str, RawHit] = {}
    for item in raw_hits:
        items.setdefault(item.passage.id, item)
    ordered = list(items.values())
    if any(item.score is None for item in ordered):
        return tuple(Hit(item.passage, 1 / (r + 1)) for r, item in enumerate(ordered[:k]))
    hits = [Hit(item.passage, float(item.score or 0.0)) for item in ordered]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))[:k])


def is_web_url(url: str) -> bool:
    """Check whether a URL is plain http(s): a host, no user name or password, no odd characters."""
    if any(c.isspace() or not c.isprintable() for c in url) or len(url) > 4_096:
        return False
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (raises for a port that is no number)
    except ValueError:
        return False
    plain = parts.username is None and parts.password is None
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain


def server_url(url: str, path: str) -> str:
    """The address to post to: ``path`` is added where only a server is given."""
    if not is_web_url(url):
        raise EngineError(
            f"a remote engine needs an http(s) address without user name, got {url!r}; for example "
            "'http://127.0.0.1:8000'"
        )
    return url.rstrip("/") + path if urlsplit(url).path in ("", "/") else url


def safe(text: str) -> str:
    """A query as UTF-8 can carry it (lone surrogates become ``?``)."""
    return text.encode("utf-8", "replace").decode()
