"""Live web search: five providers' public JSON interfaces behind one shape.

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


class Credentials(NamedTuple):
    key: str
    extra: str = ""
    """Google: the id of the programmable search engine (``cx``)."""


class Provider(NamedTuple):
    """Requests to one provider, and the reading of its replies."""

    url: str
    key_env: str
    price: float
    most: int
    """Results one request can give; more are not asked for."""
    ask: Callable[[str, str, int, Credentials], HttpRequest]
    """(url, query, k, credentials) → request."""
    results: Callable[[Any], list[Any]]
    text: str
    """The field of a result that holds its text."""
    link: str = "link"
    extra_env: str = ""

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

    def credentials(self, key_env: str | None) -> Credentials:
        """``EngineError`` naming the variable to set."""
        name = key_env or self.key_env
        if not (key := os.environ.get(name, "").strip()):
            raise EngineError(f"no API key: set the environment variable {name} and try again")
        extra = os.environ.get(self.extra_env, "").strip() if self.extra_env else ""
        if self.extra_env and not extra:
            raise EngineError(f"no search engine id: set the environment variable {self.extra_env}")
        return Credentials(key, extra)


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> HttpRequest:
    media = {"Content-Type": "application/json", "Accept": "application/json"}
    return HttpRequest("POST", url, json.dumps(body).encode("ascii"), {**media, **headers})


def _get(
    url: str, params: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> HttpRequest:
    return HttpRequest("GET", url, None, {"Accept": "application/json", **(headers or {})}, params)


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


def _serpapi_results(data: Any) -> list[Any]:
    """SerpAPI reports failures, and finding nothing, as an ``error`` text with status 200."""
    error = data.get("error") if isinstance(data, dict) else None
    if error and "any results" not in str(error):
        raise Malformed(f"SerpAPI: {error}")
    return _optional("organic_results")(data)


PROVIDERS: Mapping[str, Provider] = {
    "serper": Provider(
        "https://google.serper.dev/search", "SERPER_API_KEY", 0.001, 100,
        lambda url, q, k, c: _post(url, {"q": q, "num": k}, {"X-API-KEY": c.key}),
        _optional("organic"), "snippet",
    ),
    "serpapi": Provider(
        "https://serpapi.com/search.json", "SERPAPI_API_KEY", 0.015, 100,
        lambda url, q, k, c: _get(
            url, {"engine": "google", "q": q, "num": str(k), "api_key": c.key}
        ),
        _serpapi_results, "snippet",
    ),
    "brave": Provider(
        "https://api.search.brave.com/res/v1/web/search", "BRAVE_API_KEY", 0.005, 20,
        lambda url, q, k, c: _get(
            url, {"q": q[:400], "count": str(k)}, {"X-Subscription-Token": c.key}
        ),
        _optional("web", "results"), "description", "url",
    ),
    "tavily": Provider(
        "https://api.tavily.com/search", "TAVILY_API_KEY", 0.008, 20,
        lambda url, q, k, c: _post(
            url, {"query": q, "max_results": k, "search_depth": "basic"},
            {"Authorization": f"Bearer {c.key}"},
        ),
        lambda data: list(field(data, "results", list)), "content", "url",
    ),
    "google-cse": Provider(
        "https://www.googleapis.com/customsearch/v1", "GOOGLE_API_KEY", 0.005, 10,
        lambda url, q, k, c: _get(url, {"key": c.key, "cx": c.extra, "q": q, "num": str(k)}),
        _optional("items"), "snippet", extra_env="GOOGLE_CSE_ID",
    ),
}  # fmt: skip
"""Name → provider."""


def ask_for(
    provider: Provider, url: str, query: str, k: int, credentials: Credentials
) -> HttpRequest:
    """The request for one query, within the provider's limits."""
    return provider.ask(url, safe(query), max(1, min(k, provider.most)), credentials)
