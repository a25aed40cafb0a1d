"""Requests and answers of services as JSON values: what a recording holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...storage.records import hits_from_json, hits_to_json, result_from_json, result_to_json
from ...types import (
    CallContext,
    Charged,
    ChargedPage,
    Page,
    PageRequest,
    Query,
    Ranking,
    ToolCall,
)


class ServiceCodec(NamedTuple):
    """Codec of one kind of service: requests and answers as JSON."""

    request: Callable[[Any], Any]
    """Request as JSON, without the episode's context."""
    context: Callable[[Any], Any]
    """The rest an answer may depend on: key, parameters, task, state."""
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    shown: Callable[[Any], str]
    """The request for people."""
    probe: Callable[[CallContext], Any]
    """A request in some context, to find out whether contexts matter."""

    def reads_context(self, service: Any) -> bool:
        """Check whether a service's answers depend on more than the request."""
        if service.needs_task:
            return True
        keys = [service.cache_key(self.probe(context)) for context in _CONTEXTS]
        return keys[0] is None or keys[0] != keys[1]


_CONTEXTS = (CallContext(1, "one", {}), CallContext(2, "two", {"noise": 0.5}, None, None, 1))


def _context(request: Query | PageRequest | ToolCall) -> Any:
    ctx = request.ctx
    task = None if ctx.task is None else [ctx.task.id, ctx.task.question, list(ctx.task.answers)]
    return [ctx.key, dict(ctx.params), ctx.state, task]


def _search_encode(ranking: Ranking) -> Any:
    if isinstance(ranking, Charged):
        return {"hits": hits_to_json(ranking), "cost": ranking.cost, "meta": dict(ranking.meta)}
    return {"hits": hits_to_json(ranking)}


def _search_decode(data: Any) -> Ranking:
    hits = hits_from_json(data["hits"])
    return Charged(hits, data["cost"], data["meta"]) if "cost" in data else hits


def _page_encode(page: Page | None) -> Any:
    if page is None:
        return None
    written = {"page": [page.url, page.title, page.text, list(page.passage_ids)]}
    if isinstance(page, ChargedPage):
        return {**written, "cost": page.cost, "meta": dict(page.meta)}
    return written


def _page_decode(data: Any) -> Page | None:
    if data is None:
        return None
    url, title, text, ids = data["page"]
    page = Page(url, title, text, tuple(ids))
    return ChargedPage.of(page, data["cost"], data["meta"]) if "cost" in data else page


def _tool_context(call: ToolCall) -> Any:
    """Tools are pure in (arguments, state), unless they are told the task: what stands behind such
    a one (a simulated engine) may read anything of the episode, its noise for instance."""
    return [call.ctx.state, None] if call.ctx.task is None else _context(call)


CODECS: dict[str, ServiceCodec] = {
    "search": ServiceCodec(
        request=lambda query: [query.text, query.k],
        context=_context,
        encode=_search_encode,
        decode=_search_decode,
        shown=lambda query: f"the query {query.text!r} with k={query.k}",
        probe=lambda context: Query("a query", 3, context),
    ),
    "access": ServiceCodec(
        request=lambda request: request.url,
        context=_context,
        encode=_page_encode,
        decode=_page_decode,
        shown=lambda request: f"the page {request.url!r}",
        probe=lambda context: PageRequest("https://a.example/page", context),
    ),
    "tool": ServiceCodec(
        request=lambda call: [call.tool, dict(call.args)],
        context=_tool_context,
        encode=result_to_json,
        decode=result_from_json,
        shown=lambda call: f"the call {call.tool}({dict(call.args)!r})",
        probe=lambda context: ToolCall("a tool", {}, 0, context),
    ),
}
"""Kind of service → how it is written down."""
