"""The tools ``search`` and ``access``: passages and pages, a whole batch at a time."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

from ..batching import run_batch
from ..corpora.corpus import Corpus
from ..errors import CardError, EngineError
from ..text import QUERY_CHARACTERS
from ..types import (
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
from .base import Tool, ToolContext


class SearchTool(Tool):
    """Search with any engine: ``search(query)``, of which the first 8,000 characters count.

    Args:
        engine: Engine that answers; by default the environment's.
        k: Hits per query; by default the environment's. The episode's parameter ``top_k`` stands
            above both.
        corpus: Source of passages for the parameter ``distractors``.
    """

    spec = ToolSpec(
        "search",
        "Search the corpus; returns the best matching passages.",
        {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for."}},
            "required": ["query"],
        },
    )

    def __init__(
        self,
        engine: SearchEngine | None = None,
        k: int | None = None,
        corpus: Corpus | None = None,
        *,
        cost: float = 0.0,
    ) -> None:
        super().__init__(cost=cost)
        self.engine, self.corpus = engine, corpus
        self.k = 3 if k is None and engine is not None else k
        self.needs_task = engine is not None and engine.needs_task

    def bind(self, context: ToolContext) -> Self:
        """A copy that searches the environment's engine where none was given."""
        bound = copy.copy(self)
        if self.engine is None:
            if self.k not in (None, context.k):
                raise CardError(
                    f"the instructions speak of the environment's k={context.k} hits per query; "
                    f"set that instead of the tool's k={self.k}"
                )
            bound.engine, bound.k = context.engine, context.k
            bound.needs_task = context.engine.needs_task
        if self.corpus is None:
            bound.corpus = context.corpus
        return bound

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        k, engine = self.k, self.engine
        if engine is None or k is None:
            raise EngineError("the search tool has no engine: SearchTool(engine, k)")
        queries = [
            Query(
                call.args["query"][:QUERY_CHARACTERS],
                int(params.get("top_k", k)) if params else k,
                call.ctx,
            )
            for call in batch
            for params in (call.ctx.params,)
        ]
        rankings: Sequence[Ranking | Failure] = run_batch(engine, queries)
        if [1 for call in batch if call.ctx.params and call.ctx.params.get("distractors")]:
            from ..engines.degraded.engine import distracted

            pairs = zip(queries, rankings, strict=True)
            rankings = [distracted(query, ranking, self.corpus) for query, ranking in pairs]
        cost = self.cost
        return [
            ToolResult((), r, cost) if type(r) is tuple else _result(r, cost)  # type: ignore[arg-type]
            for r in rankings  # plain tuples are the usual case, and a call each is felt
        ]


def _result(ranking: Ranking | Failure, cost: float) -> ToolResult | Failure:
    if isinstance(ranking, Failure):
        return ranking
    if isinstance(ranking, Charged):
        return ToolResult((), tuple(ranking), ranking.cost + cost, ranking.meta)
    return ToolResult((), ranking, cost)


class AccessTool(Tool):
    """Read the full page behind a search result by its URL or title: ``access(url)``.

    An unknown page is the policy's error (``meta["page"]`` is None), an outage is a ``Failure``.

    Args:
        pages: Source of pages; by default the environment's corpus, as its engine shows it.
    """

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

    def __init__(self, pages: PageSource | None = None, *, cost: float = 0.0) -> None:
        super().__init__(cost=cost)
        self.pages = pages
        self.needs_task = pages is not None and pages.needs_task

    def bind(self, context: ToolContext) -> Self:
        """A copy that opens the corpus's pages where no others were given."""
        from ..engines.pages import CorpusPages, pages_of

        if self.pages is not None:
            return self
        bound = copy.copy(self)
        bound.pages = pages_of(context.engine, CorpusPages(context.corpus))
        bound.needs_task = bound.pages.needs_task
        return bound

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        if self.pages is None:
            raise EngineError("the access tool has no pages: AccessTool(pages)")
        requests = [PageRequest(call.args["url"], call.ctx) for call in batch]
        pages: Sequence[Page | Failure | None] = run_batch(self.pages, requests)
        return [_opened(page, self.cost) for page in pages]


def _opened(page: Page | Failure | None, cost: float) -> ToolResult | Failure:
    if isinstance(page, Failure):
        return page
    if isinstance(page, ChargedPage):
        return ToolResult(cost=page.cost + cost, meta={**page.meta, "page": Page(*page)})
    return ToolResult(cost=cost, meta={"page": page})
