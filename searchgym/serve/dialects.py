"""The ``/retrieve`` dialects of the server: requests that are read, answers that are written.

Requests are JSON or msgpack, with the names in use for each field. The shape of an answer is chosen
by looking at the request (``auto``), or fixed by route or ``--dialect`` for clients whose request
does not tell them apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import isfinite
from typing import Any, Literal, NamedTuple

from ..errors import DialectError, EngineError, check_known
from ..text import QUERY_CHARACTERS
from ..types import Passage, Ranking
from ..web.middleware import HttpError

_MAP_BYTES = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})
"""First bytes of a msgpack map. JSON objects begin with ``{`` or white space, never with these, so
the first byte decides; clients are careless about ``Content-Type`` (one sends none at all)."""
_NAMES_OF_K = ("topk", "top_k", "k")
_PROBE = Passage("", "", "¤" * 8, "")
_ITEM_BYTES = 64
"""Approximate bytes of an item besides its texts: names of fields, quotes, a score."""
Envelope = Literal["nested", "single", "list", "rllm"]


class Shape(NamedTuple):
    """The shape in which results are written."""

    item: Callable[[Passage], dict[str, Any]]
    scored: bool
    """True if ``score`` follows in each item."""
    envelope: Envelope
    """Envelope: nested ``{"result": [[…], …]}``, single ``{"result": […]}``, list ``[…]``, rllm's
    object."""


def contents(passage: Passage) -> str:
    """Title in quotes on the first line, text below, as in wiki-18; the text alone if untitled."""
    return f'"{passage.title}"\n{passage.text}' if passage.title else passage.text


def document(passage: Passage) -> dict[str, Any]:
    """Both conventions at once: ``contents`` with the title in it, and the title by itself."""
    return {"id": passage.id, "contents": contents(passage), "title": passage.title,
            "text": passage.text, "url": passage.url}  # fmt: skip


def _wrapped(passage: Passage) -> dict[str, Any]:
    return {"document": document(passage)}


def _both(passage: Passage) -> dict[str, Any]:
    """An item for requests that do not say what they want: servers in use differ."""
    flat = document(passage)
    return {**flat, "document": flat}


def _with_docid(passage: Passage) -> dict[str, Any]:
    return {"docid": passage.id, "document": document(passage)}


SCORED = Shape(_wrapped, True, "nested")
FLAT = Shape(document, False, "nested")
EITHER = Shape(_both, False, "nested")
UNSCORED = Shape(_wrapped, False, "nested")
GEM_SCORED = Shape(_wrapped, True, "single")
GEM_FLAT = Shape(document, False, "single")
BROWSECOMP = Shape(_with_docid, False, "single")
ZEROSEARCH = Shape(lambda passage: {"text": contents(passage)}, False, "list")
RLLM = Shape(lambda passage: {"id": passage.id, "content": contents(passage)}, True, "rllm")


def _auto(asked: Mapping[str, Any], packed: bool) -> Shape:
    scores = asked.get("return_scores")
    if packed:
        if "queries" in asked:
            return SCORED if scores else FLAT
        return GEM_SCORED if scores else GEM_FLAT
    if scores or scores is False:
        return SCORED if scores else FLAT
    return EITHER if "queries" in asked else BROWSECOMP


def _search_r1(asked: Mapping[str, Any], packed: bool) -> Shape:
    return SCORED if asked.get("return_scores") else FLAT


DIALECTS: Mapping[str, Callable[[Mapping[str, Any], bool], Shape]] = {
    "auto": _auto,
    "search-r1": _search_r1,
    "agent-lightning": lambda asked, packed: (
        UNSCORED if asked.get("return_scores") is False else SCORED
    ),
    "asearcher": _search_r1,
    "browsecomp-plus": lambda asked, packed: BROWSECOMP,
    "zerosearch": lambda asked, packed: ZEROSEARCH,
    "rllm": lambda asked, packed: RLLM,
}
"""Name → the shape for a request (its fields, whether it came as msgpack)."""

ONE_QUERY = frozenset({"zerosearch", "rllm", "browsecomp-plus"})
"""Dialects whose reply has room for one query only."""


def dialect(name: str) -> Callable[[Mapping[str, Any], bool], Shape]:
    """The shape chooser of a dialect; ``DialectError`` for an unknown name."""
    check_known("server dialect", DIALECTS, name, error=DialectError)
    return DIALECTS[name]


# --- reading requests ---------------------------------------------------------------------------
class Limits(NamedTuple):
    """Limits of one request."""

    body_bytes: int = 1 << 20
    """Largest request in bytes."""
    queries: int = 512
    """Most queries per request."""
    k: int = 1000
    """Most passages per query."""
    results: int = 1 << 14
    """Maximum passages in one answer: queries times k."""
    response_bytes: int = 64 << 20
    """Largest answer in bytes."""
    query_characters: int = QUERY_CHARACTERS
    """Longest query, URL or title in characters."""


class SearchRequest(NamedTuple):
    """One request: what to look for and how to write the answer down."""

    queries: list[str]
    k: int
    shape: Shape
    packed: bool


def reader(name: str, limits: Limits, default_k: int) -> Callable[[bytes], SearchRequest]:
    """``read(body)`` for a dialect; raises ``HttpError`` 400, 413 or 422."""
    shape_of = dialect(name)
    only_one = name in ONE_QUERY

    def read(body: bytes) -> SearchRequest:
        packed = bool(body) and body[0] in _MAP_BYTES
        asked = decode(body, packed)
        queries = _queries(asked, limits)
        if only_one and len(queries) != 1:
            raise HttpError(
                422, "one_query", f"dialect {name!r} answers one query, got {len(queries)}"
            )
        flag = asked.get("return_scores")
        if flag is not None and not isinstance(flag, bool):
            raise _bad_field(f"'return_scores' is true or false, got {flag!r:.80}")
        k = _k(asked, limits, default_k)
        if len(queries) * k > limits.results:
            raise HttpError(
                413, "too_many_results",
                f"{len(queries)} queries with k = {k} ask for {len(queries) * k:,} passages; this "
                f"server gives {limits.results:,} at a time: send fewer queries, or a smaller k",
            )  # fmt: skip
        return SearchRequest(queries, k, shape_of(asked, packed), packed)

    return read


def decode(body: bytes, packed: bool) -> Mapping[str, Any]:
    """The fields of a request body."""
    try:
        if packed:
            import msgpack

            asked = msgpack.unpackb(body)
        else:
            asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        form = "msgpack" if packed else "JSON"
        raise HttpError(400, "unreadable", f"the body is not {form}: {error}") from error
    if not isinstance(asked, dict):
        raise HttpError(
            422, "bad_body", f'the body must be an object like {{"queries": ["…"], "topk": 3}}, '
            f"got {type(asked).__name__}"
        )  # fmt: skip
    return asked


def texts(value: Any, name: str, limits: Limits) -> list[str]:
    """A checked list of texts."""
    if not isinstance(value, list):
        raise _bad_field(f"{name!r} must be a list of texts, got {type(value).__name__}")
    if len(value) > limits.queries:
        raise HttpError(
            413, "too_many_queries",
            f"{len(value)} {name} in one request; this server takes {limits.queries} at a time",
        )  # fmt: skip
    for i, text in enumerate(value):
        if not isinstance(text, str):
            raise _bad_field(f"{name}[{i}] must be a text, got {type(text).__name__}")
        if len(text) > limits.query_characters:
            raise HttpError(
                413, "query_too_long",
                f"{name}[{i}] has {len(text):,} characters; this server takes "
                f"{limits.query_characters:,} (--max-query)",
            )  # fmt: skip
        try:
            text.encode()
        except UnicodeEncodeError as error:
            told = f"{name}[{i}] is not valid Unicode: {error.reason}"
            raise HttpError(422, "bad_text", told) from error
    return value


def _queries(asked: Mapping[str, Any], limits: Limits) -> list[str]:
    if "queries" in asked:
        return texts(asked["queries"], "queries", limits)
    if "query" not in asked:
        got = ", ".join(f"{name:.40}" for name in sorted(asked)[:8]) or "nothing"
        raise HttpError(422, "no_query", f"the request needs 'queries' or 'query'; it has {got}")
    query = asked["query"]
    if not isinstance(query, str):
        kind = type(query).__name__
        raise _bad_field(f"'query' must be a text, got {kind}; for several, send 'queries'")
    return texts([query], "query", limits)


def _k(asked: Mapping[str, Any], limits: Limits, default_k: int) -> int:
    for name in _NAMES_OF_K:
        k = asked.get(name)
        if k is None:
            continue
        if isinstance(k, bool) or not isinstance(k, int) or k < 0:
            raise _bad_field(f"{name!r} must be a whole number from 1, got {k!r:.80}")
        if k > limits.k:  # Python refuses to print very long numbers
            told = k if k.bit_length() < 100 else f"a number of {k.bit_length()} bits"
            raise HttpError(
                422, "k_too_large", f"{name}={told} is more than this server gives ({limits.k})"
            )
        return k or default_k
    return default_k


def _bad_field(told: str) -> HttpError:
    return HttpError(422, "bad_field", told)


# --- writing answers --------------------------------------------------------------------------
def encode_json(value: Any) -> bytes:
    """Compact UTF-8 JSON; text that UTF-8 cannot hold (lone surrogates) is escaped."""
    import orjson

    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


class ResponseWriter:
    """Rankings → response bytes, in JSON or msgpack. May be used by several threads.

    Args:
        method: What rLLM's dialect calls the engine.
        most_bytes: Largest answer.
    """

    def __init__(self, method: str, most_bytes: int) -> None:
        self.method, self.most_bytes = method, most_bytes

    def estimate(self, shape: Shape, rankings: Sequence[Ranking]) -> int:
        """Estimate an answer's bytes without encoding it; ``HttpError`` 413 if that is
        more than allowed."""
        texts = [hit.passage.text for ranking in rankings for hit in ranking]
        total = (text_bytes(texts) + len(texts) * _ITEM_BYTES) * _copies(shape)
        if total > self.most_bytes:
            raise answer_too_large(self.most_bytes)
        return total

    def write(
        self, shape: Shape, packed: bool, queries: Sequence[str], rankings: Sequence[Ranking]
    ) -> bytes:
        """The response body; ``HttpError`` 413 if it is larger than allowed."""
        value = self._value(shape, queries, rankings)
        if packed:
            import msgpack

            made: bytes = msgpack.packb(value)
        else:
            made = encode_json(value)
        if len(made) > self.most_bytes:
            raise answer_too_large(self.most_bytes)
        return made

    def _value(self, shape: Shape, queries: Sequence[str], rankings: Sequence[Ranking]) -> Any:
        lists: list[Any] = []
        for ranking in rankings:
            items = []
            for passage, score in ranking:
                item = shape.item(passage)
                if shape.scored:
                    if not isfinite(score):
                        raise EngineError(f"passage {passage.id!r} has the score {score}")
                    item["score"] = float(score)
                items.append(item)
            lists.append(items)
        if shape.envelope == "nested":
            return {"result": lists}
        (first, *_) = lists or [[]]
        if shape.envelope == "single":
            return {"result": first}
        if shape.envelope == "list":
            return first
        return {
            "query": queries[0], "method": self.method, "num_results": len(first), "results": first,
        }  # fmt: skip


def text_bytes(texts: Iterable[str]) -> int:
    """Bytes of texts in UTF-8."""
    return sum(len(t) if t.isascii() else len(t.encode("utf-8", "replace")) for t in texts)


def answer_too_large(most: int) -> HttpError:
    """Return the response to a request whose answer would be larger than ``most`` bytes."""
    return HttpError(
        413, "answer_too_large",
        f"the answer would be larger than {most:,} bytes; ask for fewer queries, a smaller k or "
        "fewer pages at a time",
    )  # fmt: skip


@cache
def _copies(shape: Shape) -> int:
    """Count how often a shape writes each text."""
    return encode_json(shape.item(_PROBE)).count(_PROBE.text.encode())
