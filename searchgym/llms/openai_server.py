"""Model servers that speak OpenAI's interface: their connection, and a probe of what they can do.

Servers ignore fields they do not know: an unknown one is refused by some (status 4xx) and dropped
without a word by others. Either way the answer lacks its effect, and that is what is looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from ..errors import EngineError
from ..types import Failure
from ..utils.http import Client, HttpFailure, HttpRequest, may_pass
from .openai_json import (
    PATHS,
    Endpoint,
    EndpointSupport,
    Reply,
    best_logprob,
    first_choice,
    logprob_fields,
    prompt_scores,
    request_body,
    token_logprobs,
)

_TEXT = "The quick brown fox jumps over the lazy dog. Then it"
_N = 16
"""Tokens of a probing answer."""


class ModelServer(Client):
    """A server at ``base_url``. The key is read from the environment at each call, if set.

    ``timeout_s`` bounds one try, whole answer included; ``tries`` bounds their number;
    ``max_bytes`` bounds an answer, decompressed. All else is the policy of :class:`Client`. The
    ``openai`` package has a policy of its own, bounds neither the size of an answer nor the time of
    a whole try, and takes a second to import: it is not used here.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key_env: str,
        timeout_s: float,
        tries: int,
        backoff_s: float,
        connections: int,
        max_bytes: int = 64 << 20,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise EngineError(f"base_url is like http://127.0.0.1:8000/v1, got {base_url!r}")
        if min(tries, connections, max_bytes) < 1 or timeout_s <= 0 or backoff_s < 0:
            raise EngineError(
                "tries, connections and max_bytes must be ≥ 1, timeout_s > 0, backoff_s ≥ 0, got "
                f"{tries}, {connections}, {max_bytes}, {timeout_s}, {backoff_s}"
            )
        super().__init__(
            timeout_s=timeout_s, retries=tries - 1, backoff_s=backoff_s, concurrency=connections,
            max_bytes=max_bytes, user="a model server's client (httpx)",
        )  # fmt: skip
        self.base_url, self.key_env = base_url.rstrip("/"), key_env

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        key: int = 0,
        stop: Callable[[], Failure | None] = lambda: None,
    ) -> Reply | Failure:
        """The server's reply; ``stop`` as in :meth:`Client.send`."""
        return await self._ask("POST", path, json.dumps(body).encode(), key, stop)

    async def get(self, path: str) -> Reply | Failure:
        return await self._ask("GET", path)

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        key: int = 0,
        stop: Callable[[], Failure | None] = lambda: None,
    ) -> Reply | Failure:
        secret = os.environ.get(self.key_env, "")
        self.hide(secret)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        request = HttpRequest(method, self.base_url + path, body, headers)
        got = await self.send(request, key=key, stop=stop, check=_object)
        if not isinstance(got, HttpFailure):
            return Reply(200, _object(got.body))
        if got.status is None or got.status < 400 or may_pass(got.status):
            return got.failure
        if got.status in (401, 403):
            raise EngineError(
                f"{request.url} refused the key ({got.status}): put a valid one into the "
                f"environment variable {self.key_env}" + ("" if secret else ", which is not set")
            )
        try:
            return Reply(got.status, _object(got.body))
        except ValueError:
            return Reply(got.status, None)


def _object(body: bytes) -> dict[str, Any]:
    """A JSON object; ``ValueError`` for anything else."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    return data


async def probe(
    server: ModelServer, model: str, endpoint: Endpoint, extra: Mapping[str, Any]
) -> EndpointSupport | Failure | None:
    """Find an endpoint's features (``None``: no such endpoint) in about 15 calls of 16 tokens."""
    prompt: Any = _TEXT if endpoint == "completions" else [{"role": "user", "content": _TEXT}]

    async def ask(prompt: Any = prompt, n: int = _N, heat: float = 0.0, **more: Any) -> Any:
        """The first choice, ``None`` if the request was refused, or a ``Failure``."""
        fields = {"model": model, "max_tokens": n, "temperature": heat, **extra, **more}
        reply = await server.post(PATHS[endpoint], request_body(endpoint, prompt, **fields))
        if isinstance(reply, Failure):
            raise _Down(reply)
        return first_choice(reply.body) if reply.status < 400 else None

    try:
        plain = await server.post(
            PATHS[endpoint],
            request_body(endpoint, prompt, model=model, max_tokens=_N, temperature=0.0, **extra),
        )
        if isinstance(plain, Failure):
            return plain
        if plain.status in (404, 405, 501) and not _names_model(plain):
            return None
        greedy = first_choice(plain.body) if plain.status < 400 else None
        if greedy is None:
            if endpoint == "chat" and plain.status < 500:
                return None  # e.g. a model without a chat template
            raise EngineError(
                f"{server.base_url}{PATHS[endpoint]} refused a plain request for model {model!r} "
                f"({plain.status}): {str(plain.body)[:300]}"
            )
        facts = await _sampling(ask, greedy["text"])
        if facts.samples:
            facts = facts._replace(
                top_p=await _narrows(ask, greedy["text"], {"top_p": 1e-6}),
                top_k=await _narrows(ask, greedy["text"], {"top_k": 1}),
            )
        facts = facts._replace(
            logp=await _logp(ask, endpoint), stop=await _stop(ask, greedy["text"])
        )
        if endpoint == "completions":
            ids, score = await _ids(ask)
            facts = facts._replace(ids=ids, score=score)
        else:
            told = await ask(n=2, return_token_ids=True)
            facts = facts._replace(ids=_are_ids((told or {}).get("token_ids")))
        return facts
    except _Down as down:
        return down.failure


async def only_model(server: ModelServer) -> str | Failure:
    """The name of the one model a server has; ``EngineError`` if it has several, or none."""
    reply = await server.get("/models")
    if isinstance(reply, Failure):
        return reply
    listed = (reply.body or {}).get("data")
    names = [str(m.get("id")) for m in listed or [] if isinstance(m, dict)]
    if len(names) != 1:
        raise EngineError(
            f"{server.base_url} serves {', '.join(names) or 'no model it names'}: give model="
        )
    return names[0]


class _Down(Exception):
    """The server failed in the middle: ask again another time."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


Ask = Callable[..., Awaitable[Any]]


async def _sampling(ask: Ask, greedy: str) -> EndpointSupport:
    """Test whether hot answers differ from the greedy one, and repeat with their seed."""
    hot = [await ask(heat=2.0, seed=seed) for seed in (1, 1, 2, 3)]
    takes_seed = None not in hot
    if not takes_seed:
        hot = [await ask(heat=2.0) for _ in range(4)]
    if None in hot:
        return EndpointSupport()
    texts = [choice["text"] for choice in hot]
    return EndpointSupport(
        samples=len({*texts, greedy}) > 1,
        takes_seed=takes_seed,
        seed=takes_seed and texts[0] == texts[1] and len(set(texts)) > 1,
    )


async def _narrows(ask: Ask, greedy: str, limit: Mapping[str, Any]) -> bool:
    """Test whether a limit that leaves only the likeliest token makes hot sampling greedy."""
    for _ in range(2):
        got = await ask(heat=2.0, **limit)
        if got is None or got["text"] != greedy:
            return False
    return True


async def _logp(ask: Ask, endpoint: Endpoint) -> bool:
    """Test whether log-probabilities come, and are the same at another temperature."""
    cold = await ask(n=1, **logprob_fields(endpoint))
    hot = await ask(n=1, heat=2.0, **logprob_fields(endpoint))
    if not cold or not hot or token_logprobs(cold) is None:
        return False
    a, b = best_logprob(cold), best_logprob(hot)
    return a is not None and b is not None and abs(a - b) < 0.01


async def _stop(ask: Ask, greedy: str) -> Literal["kept", "keep_flag", "unusable"]:
    middle = greedy[len(greedy) // 3 :]
    stop = next((c for c in middle if c.isprintable() and not c.isspace() and c != "\ufffd"), None)
    if stop is None:
        return "unusable"
    for mode, more in (("kept", {}), ("keep_flag", {"include_stop_str_in_output": True})):
        got = await ask(stop=[stop], **more)
        if got is not None and stop in got["text"]:
            return mode  # type: ignore[return-value]
    return "unusable"


async def _ids(ask: Ask) -> tuple[bool, bool]:
    """Test whether token ids are given and taken, and whether given ones are scored."""
    told = await ask(n=4, return_token_ids=True) or {}
    context: Any = told.get("prompt_token_ids")
    ids: Any = told.get("token_ids")
    if not _are_ids(context) or not _are_ids(ids):
        return False, False
    again = await ask(prompt=context, n=4, return_token_ids=True) or {}
    scored = await ask(prompt=context + ids, n=1, prompt_logprobs=0) or {}
    return again.get("token_ids") == ids, prompt_scores(scored, context + ids, len(ids)) is not None


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(i, int) for i in value)


def _names_model(reply: Reply) -> bool:
    """404 means "no such model" on some servers: that is no missing endpoint."""
    return "model" in str(reply.body).lower()
