"""Tools an agent can call. Each is a service over tool calls, stateless, and runs a whole batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .batching import run_batch
from .corpora.corpus import Corpus
from .engines.distractors import distracted
from .types import (
    Charged,
    ChargedPage,
    Failure,
    Page,
    PageRequest,
    PageSource,
    Query,
    Ranking,
    SearchEngine,
    ToolCall,
    ToolResult,
    ToolSpec,
)


class Tool(Protocol):
    """A named tool; ``run`` answers calls in order, each on its own."""

    spec: ToolSpec
    needs_task: bool

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]: ...


class SearchTool:
    """``search(query)`` over any engine; ``k`` hits, unless the episode's parameter ``top_k`` says
    otherwise. ``corpus``: where the parameter ``distractors`` takes its passages from."""

    spec = ToolSpec(
        "search",
        "Search the corpus; returns the best matching passages.",
        {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for."}},
            "required": ["query"],
        },
    )

    def __init__(self, engine: SearchEngine, k: int = 3, corpus: Corpus | None = None) -> None:
        self.engine, self.k, self.corpus = engine, k, corpus
        self.needs_task = engine.needs_task

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        k = self.k
        queries = [
            Query(call.args["query"], int(call.ctx.params.get("top_k", k)), call.ctx)
            for call in batch
        ]
        rankings: Sequence[Ranking | Failure] = run_batch(self.engine, queries)
        if any(call.ctx.params.get("distractors") for call in batch):
            pairs = zip(queries, rankings, strict=True)
            rankings = [distracted(query, ranking, self.corpus) for query, ranking in pairs]
        return [
            ToolResult((), r) if type(r) is tuple else _found(r)  # type: ignore[arg-type]
            for r in rankings  # plain tuples are the usual case, and a call each is felt
        ]


def _found(ranking: Ranking | Failure) -> ToolResult | Failure:
    if isinstance(ranking, Failure):
        return ranking
    if isinstance(ranking, Charged):
        return ToolResult((), tuple(ranking), ranking.cost, ranking.meta)
    return ToolResult((), ranking)


class AccessTool:
    """``access(url)``: the full page behind a search result, by its URL or title. An unknown one
    is the policy's error (``meta["page"]`` is None), an outage is a Failure."""

    spec = ToolSpec(
        "access",
        "Open a page by its URL or title and read it in full.",
        {
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "URL or title of a search result."}
            },
            "required": ["url"],
        },
    )

    def __init__(self, pages: PageSource) -> None:
        self.pages = pages
        self.needs_task = pages.needs_task

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        requests = [PageRequest(call.args["url"], call.ctx) for call in batch]
        pages: Sequence[Page | Failure | None] = run_batch(self.pages, requests)
        return [_opened(page) for page in pages]


def _opened(page: Page | Failure | None) -> ToolResult | Failure:
    if isinstance(page, Failure):
        return page
    if isinstance(page, ChargedPage):
        return ToolResult(cost=page.cost, meta={**page.meta, "page": Page(*page)})
    return ToolResult(meta={"page": page})


class Toolbox:
    """The tools of an environment by name; runs mixed calls as one batch per tool."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self.tools = dict(tools)

    def specs(self, names: Sequence[str]) -> tuple[ToolSpec, ...]:
        return tuple(self.tools[name].spec for name in names)

    @property
    def needs_task(self) -> frozenset[str]:
        return frozenset(name for name, tool in self.tools.items() if tool.needs_task)

    def run(self, calls: Sequence[ToolCall]) -> list[ToolResult | Failure]:
        """Results in the order of ``calls``; one ``run`` per tool, however many episodes."""
        if not calls:
            return []
        if len(self.tools) == 1:
            return self.tools[calls[0].tool].run(calls)
        by_tool: dict[str, list[int]] = {}
        for i, call in enumerate(calls):
            by_tool.setdefault(call.tool, []).append(i)
        results: list[Any] = [None] * len(calls)
        for name, where in by_tool.items():
            for i, result in zip(
                where, self.tools[name].run([calls[i] for i in where]), strict=True
            ):
                results[i] = result
        return results
