"""Live web search: three providers' public JSON interfaces behind one shape.

Keys come from the environment and are never written anywhere. Prices are the providers' public
list prices per query in US dollars, good for orders of magnitude; say ``price=`` for yours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...errors import EngineError
from ...utils.http import HttpRequest
from .formats import Malformed, RawHit, field, is_web_url, passage_of, safe, score_of, text_of


class Provider(NamedTuple):
    """Requests to one provider, and the reading of its replies."""

    url: str
    key_env: str
    price: float
    most: int
    """Results one request can give; more are not asked for."""
    ask: Callable[[str, str, int, str], HttpRequest]
    """(url, query, k, key) → request."""
    results: Callable[[Any], list[Any]]
    text: str
    """The field of a result that holds its text."""
    link: str = "link"

    def found(self, data: Any) -> list[RawHit]:
        """Results in order; those without a web address are left out (they cannot be cited)."""
        out = []
        for item in self.results(data):
            if not isinstance(item, dict):
                raise Malformed(f"a result must be an object, got {item!r:.60}")
            url = text_of(item.get(self.link), self.link)
            if not is_web_url(url):
                continue
            title = text_of(item.get("title"), "title")
            text = text_of(item.get(self.text), self.text)
            passage = passage_of({"title": title, "text": text, "url": url}, url)
            out.append(RawHit(passage, score_of(item.get("score"))))
        return out

    def key(self, key_env: str | None) -> str:
        """``EngineError`` naming the variable to set."""
        name = key_env or self.key_env
        if not (key := os.environ.get(name, "").strip()):
            raise EngineError(f"no API key: set the environment variable {name} and try again")
        return key


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> HttpRequest:
    media = {"Content-Type": "application/json", "Accept": "application/json"}
    return HttpRequest("POST", url, json.dumps(body).encode("ascii"), {**media, **headers})


def _optional(*path: str) -> Callable[[Any], list[Any]]:
    """A list down a path of objects; providers leave it out where nothing was found."""

    def read(data: Any) -> list[Any]:
        if not isinstance(data, dict):
            raise Malformed(f"expected an object, got {data!r:.60}")
        for name in path[:-1]:
            if name not in data:
                return []
            data = field(data, name, dict)
        if path[-1] not in data:
            return []
        return list(field(data, path[-1], list))

    return read


PROVIDERS: Mapping[str, Provider] = {
    "serper": Provider(
        "https://google.serper.dev/search", "SERPER_API_KEY", 0.001, 100,
        lambda url, q, k, key: _post(url, {"q": q, "num": k}, {"X-API-KEY": key}),
        _optional("organic"), "snippet",
    ),
    "brave": Provider(
        "https://api.search.brave.com/res/v1/web/search", "BRAVE_API_KEY", 0.005, 20,
        lambda url, q, k, key: HttpRequest(
            "GET", url, None, {"Accept": "application/json", "X-Subscription-Token": key},
            {"q": q[:400], "count": str(k)},
        ),
        _optional("web", "results"), "description", "url",
    ),
    "tavily": Provider(
        "https://api.tavily.com/search", "TAVILY_API_KEY", 0.008, 20,
        lambda url, q, k, key: _post(
            url, {"query": q, "max_results": k, "search_depth": "basic"},
            {"Authorization": f"Bearer {key}"},
        ),
        lambda data: list(field(data, "results", list)), "content", "url",
    ),
}  # fmt: skip
"""Name → provider."""


def ask_for(provider: Provider, url: str, query: str, k: int, key: str) -> HttpRequest:
    """The request for one query, within the provider's limits."""
    return provider.ask(url, safe(query), max(1, min(k, provider.most)), key)
