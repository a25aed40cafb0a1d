"""Reading a ``/retrieve`` request: JSON or msgpack, the names in use for each field, its limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .dialects import ONE_QUERY, Shape, dialect
from .limits import HttpError, Limits

_MAP_BYTES = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})
"""First bytes of a msgpack map. JSON objects begin with ``{`` or white space, never with these, so
the first byte decides; clients are careless about ``Content-Type`` (one sends none at all)."""
_NAMES_OF_K = ("topk", "top_k", "k")


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
            raise HttpError(422, "bad_field", f"'return_scores' is true or false, got {flag!r:.80}")
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
        raise HttpError(
            422, "bad_field", f"{name!r} must be a list of texts, got {type(value).__name__}"
        )
    if len(value) > limits.queries:
        raise HttpError(
            413, "too_many_queries",
            f"{len(value)} {name} in one request; this server takes {limits.queries} at a time",
        )  # fmt: skip
    for i, text in enumerate(value):
        if not isinstance(text, str):
            raise HttpError(
                422, "bad_field", f"{name}[{i}] must be a text, got {type(text).__name__}"
            )
        if len(text) > limits.query_characters:
            raise HttpError(
                413, "query_too_long",
                f"{name}[{i}] has {len(text):,} characters; this server takes "
                f"{limits.query_characters:,} (--max-query)",
            )  # fmt: skip
        if not text.isascii():
            _check_unicode(text, f"{name}[{i}]")
    return value


def _queries(asked: Mapping[str, Any], limits: Limits) -> list[str]:
    if "queries" in asked:
        return texts(asked["queries"], "queries", limits)
    if "query" in asked:
        query = asked["query"]
        if not isinstance(query, str):
            raise HttpError(
                422, "bad_field", f"'query' must be a text, got {type(query).__name__}; "
                "for several, send 'queries'"
            )  # fmt: skip
        return texts([query], "query", limits)
    got = ", ".join(f"{name:.40}" for name in sorted(asked)[:8]) or "nothing"
    raise HttpError(422, "no_query", f"the request needs 'queries' or 'query'; it has {got}")


def _k(asked: Mapping[str, Any], limits: Limits, default_k: int) -> int:
    for name in _NAMES_OF_K:
        k = asked.get(name)
        if k is None:
            continue
        if isinstance(k, bool) or not isinstance(k, int) or k < 0:
            raise HttpError(
                422, "bad_field", f"{name!r} must be a whole number from 1, got {k!r:.80}"
            )
        if k > limits.k:
            raise HttpError(
                422,
                "k_too_large",
                f"{name}={_short(k)} is more than this server gives ({limits.k})",
            )
        return k or default_k
    return default_k


def _short(number: int) -> str:
    """Write a number that a client sent, however long: Python refuses to print very long ones."""
    return str(number) if number.bit_length() < 100 else f"a number of {number.bit_length()} bits"


def _check_unicode(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise HttpError(422, "bad_text", f"{where} is not valid Unicode: {error.reason}") from error
