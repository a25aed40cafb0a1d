"""Reading whole pages over the network: Jina's reader, ASearcher's ``/access``, MCP documents."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from ...corpora.load import split_contents
from ...types import ChargedPage, Failure, Page, PageRequest
from ...utils.http import Client, HttpFailure, HttpRequest
from .formats import Malformed, field, is_web_url, made_id, parse_json, safe, text_of
from .mcp import McpSession

JINA = "https://r.jina.ai/"
JINA_KEY = "JINA_API_KEY"
JINA_PRICE = 0.02e-6
"""US dollars per token read; the provider's public list price."""
_TEXTS = ("page", "contents", "content", "text")
_NO_SUCH_PAGE = frozenset({400, 404, 410, 422, 451})


class PageReader(Protocol):
    """Reads one page."""

    fingerprint: str

    async def read(self, url: str) -> Page | Failure | None: ...


class RemotePages:
    """A page source over the network. Only plain http(s) addresses are asked for; any other is a
    page that does not exist, the policy's mistake. Pages are as large as ``max_bytes`` allows."""

    needs_task = False

    def __init__(self, reader: PageReader, client: Client) -> None:
        self.reader, self.client = reader, client
        self.fingerprint = f"remote-pages:{reader.fingerprint}"

    def cache_key(self, request: PageRequest, /) -> bytes | None:
        """The address."""
        return request.url.strip().encode("utf-8", "surrogatepass")

    def run(self, batch: Sequence[PageRequest], /) -> list[Page | Failure | None]:
        """One page, ``None`` or failure per request, in order, all under way at once."""
        return self.client.run([self._one(request) for request in batch])

    async def _one(self, request: PageRequest) -> Page | Failure | None:
        url = request.url.strip()
        if not is_web_url(url):
            return None
        try:
            return await self.reader.read(url)
        except Malformed as error:
            return Failure("bad_response", f"{self.reader.fingerprint}: {error}")


class JinaReader:
    """``GET https://r.jina.ai/<url>`` in JSON mode; the key (``JINA_API_KEY``) is optional."""

    def __init__(self, client: Client, url: str = JINA, price: float = JINA_PRICE) -> None:
        self.client, self.url, self.price = client, url.rstrip("/") + "/", price
        self.fingerprint = f"jina:{self.url}"
        key = os.environ.get(JINA_KEY, "").strip()
        self._headers = {"Accept": "application/json"}
        if key:
            client.hide(key)
            self._headers["Authorization"] = f"Bearer {key}"

    async def read(self, url: str) -> Page | Failure | None:
        address = self.url + quote(safe(url), safe=":/?&=%#@!$'()*+,;[]~-._")
        reply = await self.client.send(
            HttpRequest("GET", address.replace("#", "%23"), None, self._headers)
        )
        if isinstance(reply, HttpFailure):
            return None if reply.status in _NO_SUCH_PAGE else reply.failure
        data = field(parse_json(reply.body), "data", dict)
        text = text_of(data.get("content"), "content")
        usage = data.get("usage")
        tokens = usage.get("tokens") if isinstance(usage, dict) else None
        cost = self.price * tokens if isinstance(tokens, int) and tokens > 0 else 0.0
        page = Page(url, text_of(data.get("title"), "title"), text, (url,))
        return ChargedPage.of(page, cost)


class AccessReader:
    """ASearcher's ``POST /access {"urls": […]}`` → ``{"result": [text, record or null]}``."""

    def __init__(self, client: Client, url: str, headers: dict[str, str]) -> None:
        self.client, self.url, self.headers = client, url, headers
        self.fingerprint = f"access:{url}"

    async def read(self, url: str) -> Page | Failure | None:
        body = json.dumps({"urls": [safe(url)]}).encode("ascii")
        reply = await self.client.send(HttpRequest("POST", self.url, body, self.headers))
        if isinstance(reply, HttpFailure):
            return reply.failure
        results = field(parse_json(reply.body), "result", list)
        if len(results) != 1:
            raise Malformed(f"{len(results)} pages for one address")
        page = results[0]
        if page is None:
            return None
        if isinstance(page, dict):  # some servers send a record instead of the bare text
            whole = next((page[name] for name in _TEXTS if page.get(name)), "")
            title = text_of(page.get("title"), "title")
            return Page(url, title, text_of(whole, "page"), (made_id(url),))
        return Page(url, "", text_of(page, "page"), (made_id(url),))


class McpReader:
    """``get_document(docid)``; a hit's address is the server's with its docid behind it."""

    def __init__(self, session: McpSession, tool: str = "get_document") -> None:
        self.session, self.tool = session, tool
        self.fingerprint = f"mcp:{session.url}:{tool}"

    def address(self, docid: str) -> str:
        return f"{self.session.url.rstrip('/')}/{quote(docid, safe='')}"

    async def read(self, url: str) -> Page | Failure | None:
        prefix = self.session.url.rstrip("/") + "/"
        if not url.startswith(prefix) or urlsplit(url).query:
            return None
        docid = unquote(url[len(prefix) :])
        data: Any = await self.session.call(self.tool, {"docid": docid})
        if isinstance(data, HttpFailure):
            return data.failure
        if data is None:
            return None
        if isinstance(data, str):
            data = {"text": data}
        if isinstance(data, dict) and data.get("error"):
            return None
        text = text_of(data.get("text") if isinstance(data, dict) else None, "text")
        title, body = split_contents(text, quoted=True)
        return Page(url, text_of(data.get("title"), "title") or title, body, (docid,))
