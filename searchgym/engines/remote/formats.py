"""Formats of remote servers: what is posted in each ``/retrieve`` dialect, and replies, checked.

Nothing a server sends is trusted. Search-R1's dialect is the de-facto standard; its clients differ
in who nests, who wraps, who packs. Names and shapes follow the projects' public clients and
servers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...corpora.load import split_contents
from ...errors import EngineError, MissingExtraError, unknown
from ...types import Hit, Passage, Ranking

JSON = "application/json"
MSGPACK = "application/msgpack"


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


# --- dialects ---------------------------------------------------------------------------------
class RetrieveFormat(NamedTuple):
    """Wire format of one family of servers."""

    request: Callable[[Sequence[str], int], Any]
    """The body for some queries and k."""
    results: Callable[[Any, int], list[Any]]
    """One list of raw items per query, from the reply's body; ``Malformed`` for other shapes."""
    item: Callable[[Any], RawHit]
    many: bool
    """True if one request may hold several queries."""
    path: str = "/retrieve"
    media: str = JSON
    access: str = ""
    """Path at which pages are fetched (``POST {"urls": […]}``), if the server does that."""

    def pack(self, queries: Sequence[str], k: int) -> bytes:
        body = self.request([safe(q) for q in queries], k)
        if self.media == MSGPACK:
            packed: bytes = _msgpack().packb(body)
            return packed
        return json.dumps(body).encode("ascii")

    def unpack(self, body: bytes, n: int) -> list[list[RawHit]]:
        """Results of each of the n queries."""
        if self.media == MSGPACK:
            try:
                data = _msgpack().unpackb(body, raw=False, strict_map_key=False)
            except Exception as error:  # msgpack raises its own kinds, ValueError and others
                raise Malformed(f"not msgpack: {error}") from None
        else:
            data = parse_json(body)
        lists = self.results(data, n)
        if len(lists) != n:
            raise Malformed(f"{len(lists)} result lists for {n} queries")
        out = []
        for items in lists:
            if not isinstance(items, list):
                raise Malformed(f"expected a list of results per query, got {items!r:.60}")
            out.append([self.item(item) for item in items])
        return out


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError as error:
        raise MissingExtraError("the dialect 'gem' (msgpack)", "remote") from error
    return msgpack


# --- requests ---------------------------------------------------------------------------------
def _queries(scores: bool | None) -> Callable[[Sequence[str], int], Any]:
    more = {} if scores is None else {"return_scores": scores}
    return lambda queries, k: {"queries": list(queries), "topk": k, **more}


def _query(**fixed: Any) -> Callable[[Sequence[str], int], Any]:
    return lambda queries, k: {"query": queries[0], "topk": k, **fixed}


# --- replies ----------------------------------------------------------------------------------
def _nested(data: Any, n: int) -> list[Any]:
    return list(field(data, "result", list))


def _bare(data: Any, n: int) -> list[Any]:
    return [field(data, "result", list)]


def _only_list(data: Any, n: int) -> list[Any]:
    if not isinstance(data, list):
        raise Malformed(f"expected a list of results, got {data!r:.60}")
    return [data]


def _document(item: Any) -> RawHit:
    """``{"document": DOC, "score"}`` or DOC itself; the score may be absent."""
    if isinstance(item, dict) and "document" in item:
        inner = passage_of(item["document"], item.get("docid", item.get("id")))
        return RawHit(inner, score_of(item.get("score")))
    return RawHit(passage_of(item), score_of(item.get("score") if isinstance(item, dict) else None))


_SEARCH_R1 = RetrieveFormat(_queries(True), _nested, _document, True)

DIALECTS: Mapping[str, RetrieveFormat] = {
    # Search-R1, VerlTool, verl (until May 2026), verl-agent
    "search-r1": _SEARCH_R1,
    # torchtitan, slime: flat documents without scores
    "flat": _SEARCH_R1._replace(request=_queries(False)),
    "skyrl": RetrieveFormat(_query(return_scores=True), _nested, _document, False),
    # GEM, ROLL: packed, and not nested
    "gem": RetrieveFormat(_query(return_scores=True), _bare, _document, False, media=MSGPACK),
    "browsecomp-plus": RetrieveFormat(lambda q, k: {"query": q[0]}, _bare, _document, False),
    "agent-lightning": _SEARCH_R1,
    "asearcher": _SEARCH_R1._replace(access="/access"),
    # Search-R1's server in front of SerpAPI or Google: takes no k, gives no scores
    "search-r1-web": RetrieveFormat(lambda q, k: {"queries": list(q)}, _nested, _document, True),
    "zerosearch": RetrieveFormat(
        lambda q, k: {"query": q[0], "top_k": k}, _only_list, _document, False
    ),
    "rllm": RetrieveFormat(
        lambda q, k: {"query": q[0], "top_k": k},
        lambda data, n: [field(data, "results", list)],
        _document,
        False,
    ),
}  # fmt: skip
"""Name → dialect. ``"mcp"`` is one more, spoken in :mod:`searchgym.engines.remote.mcp`."""


def dialect(name: str) -> RetrieveFormat:
    """A row of the table; ``EngineError`` for an unknown name."""
    if name not in DIALECTS:
        raise EngineError(unknown("dialect", name, [*DIALECTS, "mcp"]))
    return DIALECTS[name]
