"""The ``/retrieve`` dialects in use, one row each: what is posted, and what comes back.

Search-R1's is the de-facto standard; its clients differ in who nests, who wraps, who packs. Names
and shapes follow the projects' public clients and servers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import EngineError, MissingExtraError, unknown
from .wire import Malformed, RawHit, field, parse_json, passage_of, safe, score_of

JSON = "application/json"
MSGPACK = "application/msgpack"


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
