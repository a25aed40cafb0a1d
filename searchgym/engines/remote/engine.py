"""The engine over the network: many queries under way at once, each with its own fate."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from ...batching import text_and_k
from ...corpora.corpus import Corpus
from ...errors import EngineError, check_known, unknown
from ...objects import is_number
from ...storage.files import value_digest
from ...types import Charged, Failure, PageSource, Query, Ranking
from ...utils.http import Client, HttpFailure, HttpRequest
from ...worlds.world import World
from .formats import Malformed, parse_json, ranking, server_url
from .formats import dialect as dialect_named
from .mcp import McpSession, found
from .pages import AccessReader, JinaReader, McpReader, PageReader, RemotePages
from .providers import PROVIDERS, ask_for

READERS = ("jina",)
_TOKEN = "SEARCHGYM_REMOTE_TOKEN"


class RemoteEngine:
    """A server that speaks a ``/retrieve`` dialect (``url``), or a live web engine (``provider``).

    Args:
        url: Address of a server, or another address of the provider (a proxy).
        dialect: ``searchgym.engines.remote.DIALECTS`` or "mcp".
        provider: ``searchgym.engines.remote.PROVIDERS``.
        key_env: Environment variable with the key; the provider's usual one by default. Servers
            get ``SEARCHGYM_REMOTE_TOKEN`` as a bearer token where it is set.
        price: Cost per answered query, as told in ``ToolResult.cost``.
        budget: Most that may be spent by this object; further queries fail.
        batch_size: Queries in one request, where the dialect allows several. If the server rejects
            such a request, its queries are asked one by one: a bad one hurts no other.
        reader: Reader of pages for the access tool: "jina", or None (the corpus's own pages).
            By default Jina for providers; a dialect that reads pages always does.
        limits: ``timeout_s, retries, backoff_s, max_wait_s, rate, concurrency, max_bytes``; see
            :class:`searchgym.utils.http.Client`.

    Raises:
        EngineError: for wrong options or a missing key. A query that fails is a ``Failure``.
    """

    needs_task = False

    def __init__(
        self,
        url: str | None = None,
        *,
        dialect: str = "search-r1",
        provider: str | None = None,
        key_env: str | None = None,
        price: float | None = None,
        budget: float | None = None,
        batch_size: int = 32,
        reader: str | None = "auto",
        reader_url: str | None = None,
        **limits: Any,
    ) -> None:
        if provider is None and url is None:
            raise EngineError(
                "a remote engine needs 'url' (and 'dialect') or 'provider': "
                f"one of {', '.join(PROVIDERS)}"
            )
        if not isinstance(batch_size, int) or batch_size < 1:
            raise EngineError(f"batch_size must be a whole number ≥ 1, got {batch_size!r}")
        if reader not in ("auto", None, *READERS):
            raise EngineError(unknown("reader", str(reader), READERS))
        self.batch_size, self.budget = batch_size, budget
        self._provider = None
        self._mcp: McpSession | None = None
        self._headers: dict[str, str] = {}
        secret = ""
        if provider is not None:
            check_known("web provider", PROVIDERS, provider, error=EngineError)
            self._provider = PROVIDERS[provider]
            self._credentials = self._provider.credentials(key_env)
            secret = self._credentials.key
            self.url = server_url(url or self._provider.url, "")
            self.price = self._provider.price if price is None else price
            speech = provider
        else:
            assert url is not None
            if token := os.environ.get(key_env or _TOKEN, "").strip():
                self._headers["Authorization"], secret = f"Bearer {token}", token
            elif key_env:
                raise EngineError(f"no token: set the environment variable {key_env}")
            self.price = 0.0 if price is None else price
            if dialect != "mcp":
                self._dialect = dialect_named(dialect)
            self.url = server_url(url, "/mcp" if dialect == "mcp" else self._dialect.path)
            speech = dialect
        for name, value in (("price", self.price), ("budget", budget)):
            if value is not None and (not is_number(value) or value < 0):
                raise EngineError(f"{name} must be a number ≥ 0, got {value!r}")
        self.client = Client(secret=secret, **limits)
        if provider is None and dialect == "mcp":
            self._mcp = McpSession(self.client, self.url, self._headers)
        self._reader = self._choose(reader, reader_url)
        self._guard = threading.Lock()
        self._answered = 0
        self._spent = 0.0
        digest = value_digest([speech, self.url, self._reader and self._reader.fingerprint])
        self.fingerprint = f"remote:{speech}:{self.url}:{digest[:12]}"

    def _choose(self, reader: str | None, url: str | None) -> PageReader | None:
        if reader == "jina" or (reader == "auto" and self._provider is not None):
            return JinaReader(self.client, server_url(url, "/")) if url else JinaReader(self.client)
        if self._mcp is not None:
            return McpReader(self._mcp)
        if self._provider is None and self._dialect.access:
            base = self.url.removesuffix(self._dialect.path)
            headers = {"Content-Type": "application/json", **self._headers}
            return AccessReader(self.client, url or base + self._dialect.access, headers)
        return None

    # --- Service ------------------------------------------------------------------------------
    def cache_key(self, request: Query, /) -> bytes | None:
        """Query text and k: equal queries under way share an answer."""
        return text_and_k(request)

    def pages(self, default: PageSource) -> PageSource:
        """The server's or provider's pages where it has any, else ``default``."""
        return default if self._reader is None else RemotePages(self._reader, self.client)

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        """Answer every query, in order; all requests are under way at once."""
        answers: list[Ranking | Failure] = [()] * len(batch)
        jobs = self._jobs(batch)
        done = self.client.run([self._ask([batch[i] for i in job]) for job in jobs])
        for job, given in zip(jobs, done, strict=True):
            for i, answer in zip(job, given, strict=True):
                answers[i] = answer
        return answers

    def stats(self) -> dict[str, float]:
        """Requests, retries, timeouts, failures, bytes, queries answered, and money spent."""
        with self._guard:
            return {**self.client.counts, "answered": self._answered, "spent": self._spent}

    def close(self) -> None:
        """Close all connections."""
        self.client.close()

    # --- asking -------------------------------------------------------------------------------
    def _jobs(self, batch: Sequence[Query]) -> list[list[int]]:
        """Places of queries that go into one request; empty queries go nowhere."""
        by_k: dict[int, list[int]] = {}
        for i, query in enumerate(batch):
            if query.k > 0 and query.text.strip():
                by_k.setdefault(query.k, []).append(i)
        many = self._provider is None and self._mcp is None and self._dialect.many
        size = self.batch_size if many else 1
        return [rows[at : at + size] for rows in by_k.values() for at in range(0, len(rows), size)]

    async def _ask(self, queries: Sequence[Query]) -> list[Ranking | Failure]:
        if not self._afford(len(queries)):
            if len(queries) > 1:  # some of them may still be paid for
                return [(await self._ask([query]))[0] for query in queries]
            text = f"the budget of {self.budget:g} is spent; raise 'budget' to go on"
            return [Failure("rejected", text, retryable=False)] * len(queries)
        rankings: list[Ranking] | HttpFailure
        try:
            rankings = await self._answer(queries)
        except Malformed as error:
            rankings = HttpFailure(Failure("bad_response", f"{self.url}: {error}"), 200)
        if isinstance(rankings, HttpFailure):
            self._refund(len(queries))
            if len(queries) > 1 and rankings.status not in (None, 401, 403, 429):
                alone = [await self._ask([query]) for query in queries]
                return [answers[0] for answers in alone]
            return [rankings.failure] * len(queries)
        with self._guard:
            self._answered += len(queries)
        if not self.price:
            return list(rankings)
        return [Charged(hits, self.price) for hits in rankings]

    async def _answer(self, queries: Sequence[Query]) -> list[Ranking] | HttpFailure:
        """Rankings of one request; ``Malformed`` where the reply is not as documented."""
        k = queries[0].k
        if self._mcp is not None:
            data = await self._mcp.call("search", {"query": queries[0].text})
            if isinstance(data, HttpFailure):
                return data
            return [ranking(found(data, McpReader(self._mcp).address), k)]
        if self._provider is not None:
            ask = ask_for(self._provider, self.url, queries[0].text, k, self._credentials)
        else:
            body = self._dialect.pack([query.text for query in queries], k)
            headers = {"Content-Type": self._dialect.media, **self._headers}
            ask = HttpRequest("POST", self.url, body, headers)
        reply = await self.client.send(ask)
        if isinstance(reply, HttpFailure):
            return reply
        if self._provider is not None:
            return [ranking(self._provider.found(parse_json(reply.body)), k)]
        lists = self._dialect.unpack(reply.body, len(queries))
        return [ranking(items, k) for items in lists]

    def _afford(self, n: int) -> bool:
        """Reserve the price of n queries, unless the budget forbids it."""
        with self._guard:
            cost = n * self.price
            if self.budget is not None and self._spent + cost > self.budget:
                return False
            self._spent += cost
            return True

    def _refund(self, n: int) -> None:
        with self._guard:
            self._spent -= n * self.price


def make(corpus: Corpus, world: World | None, **options: Any) -> RemoteEngine:
    """Build for the registry: ``{"name": "remote", "url": …}`` or ``{"name": "remote", "provider":
    …}``.

    What is searched is the server's business; the environment's corpus serves its tasks only.
    """
    return RemoteEngine(**options)
