"""Model servers that speak OpenAI's interface: their connection, their JSON, and a probe of what
they can do.

Servers ignore fields they do not know: an unknown one is refused by some (status 4xx) and dropped
without a word by others. Either way the answer lacks its effect, and that is what is looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np

from ..errors import EngineError
from ..types import Failure
from ..utils.http import Client, HttpFailure, HttpRequest, may_pass
from .base import Completion
from .tokens import cut, stop_end

Endpoint = Literal["completions", "chat"]
PATHS: Mapping[Endpoint, str] = {"completions": "/completions", "chat": "/chat/completions"}


class Reply(NamedTuple):
    """Reply of a server: a status below 500 and a JSON object (``None``: no such body)."""

    status: int
    body: dict[str, Any] | None


class EndpointSupport(NamedTuple):
    """Features that one endpoint honours."""

    samples: bool = False
    """Temperature has an effect."""
    takes_seed: bool = False
    seed: bool = False
    """True if equal seeds give equal text."""
    top_p: bool = False
    top_k: bool = False
    logp: bool = False
    """Log-probabilities of sampled tokens, before temperature."""
    ids: bool = False
    """Takes (completions only) and gives token ids."""
    score: bool = False
    """Log-probabilities of prompt tokens."""
    stop: Literal["kept", "keep_flag", "unusable"] = "unusable"
    """``kept``: the stop string stays in the text (or stops are ignored, which leaves it there,
    too); ``keep_flag``: it does with vLLM's ``include_stop_str_in_output``; ``unusable``: it is
    cut off without a word which it was, so no stop strings are sent and we cut the text."""


def request_body(endpoint: Endpoint, prompt: Any, **fields: Any) -> dict[str, Any]:
    """The fields both endpoints share around a prompt."""
    return {"messages" if endpoint == "chat" else "prompt": prompt, **fields}


def logprob_fields(endpoint: Endpoint) -> dict[str, Any]:
    """Request fields for log-probabilities. Two alternatives, for the probe looks at the
    likeliest and vLLM's chats count the sampled token among them."""
    return {"logprobs": True, "top_logprobs": 2} if endpoint == "chat" else {"logprobs": 2}


def first_choice(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The first choice with ``text`` in either endpoint's shape; ``None`` if it has none."""
    try:
        choice = dict((body or {})["choices"][0])
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    if "message" in choice:
        message = choice["message"]
        choice["text"] = message.get("content") if isinstance(message, dict) else None
    return choice if isinstance(choice.get("text"), str) else None


def token_logprobs(choice: Mapping[str, Any]) -> tuple[list[str], list[float]] | None:
    """(token strings, log-probabilities) in either endpoint's shape."""
    entry = choice.get("logprobs")
    try:
        if isinstance(entry, dict) and isinstance(entry.get("content"), list):
            return (
                [str(t["token"]) for t in entry["content"]],
                [float(t["logprob"]) for t in entry["content"]],
            )
        if isinstance(entry, dict) and entry.get("token_logprobs") is not None:
            return [str(t) for t in entry["tokens"]], [float(x) for x in entry["token_logprobs"]]
    except (KeyError, TypeError, ValueError):
        return None
    return None


def best_logprob(choice: Mapping[str, Any]) -> float | None:
    """The likeliest first token's log-probability, whichever was drawn."""
    entry = choice.get("logprobs")
    try:
        if "content" in entry:  # type: ignore[operator]
            return max(float(t["logprob"]) for t in entry["content"][0]["top_logprobs"])  # type: ignore[index]
        return max(float(x) for x in entry["top_logprobs"][0].values())  # type: ignore[index]
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def prompt_scores(choice: Mapping[str, Any], ids: Sequence[int], last: int) -> list[float] | None:
    """Log-probabilities of the last ``last`` prompt tokens, from vLLM's ``prompt_logprobs``."""
    entry = choice.get("prompt_logprobs")
    if not isinstance(entry, list) or len(entry) != len(ids):
        return None
    start = len(ids) - last
    try:
        return [
            float(at[str(i)]["logprob"]) for at, i in zip(entry[start:], ids[start:], strict=True)
        ]
    except (KeyError, TypeError, ValueError):
        return None


def refused(said: Reply) -> Failure | None:
    """A status of 400 or more as a ``Failure`` that no retry mends."""
    if said.status < 400:
        return None
    return Failure("rejected", f"the server said {said.status}: {str(said.body)[:300]}", False)


def completion(
    body: Mapping[str, Any] | None, stops: Sequence[str], asked: int, facts: EndpointSupport
) -> Completion | Failure:
    """A server's answer as a record; ``bad_response`` if it lacks what the probe was given."""

    def bad(why: str) -> Failure:
        return Failure("bad_response", f"{why} in the answer {str(body)[:200]}")

    choice = first_choice(body)
    if choice is None:
        return bad("no text")
    text: str = choice["text"]
    ended = choice.get("finish_reason")
    if ended == "length" and (written := _written(body, choice)) is not None and written < asked:
        return Failure(
            "rejected",
            f"the server stopped after {written} of {asked} tokens, at the end of its context: "
            "shorten the prompt or lower max_tokens",
            False,
        )
    logps = token_logprobs(choice) if facts.logp else None
    ids = choice.get("token_ids") if facts.ids else None
    if facts.logp and logps is None:
        return bad("no log-probabilities")
    if facts.ids and (not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids)):
        return bad("no token ids")
    if ids is not None and logps is not None and len(logps[1]) != len(ids):
        return bad(f"{len(ids)} token ids, but {len(logps[1])} log-probabilities")
    ends = _ends(logps[0], text) if logps is not None else None
    n = len(ids) if ids is not None else len(logps[1]) if logps is not None else 0
    end = stop_end(text, stops)
    if end is not None and end < len(text):  # the server went on: cut as it should have
        if ends is not None:
            n, ends = cut(ends, end)
        elif n:
            return bad("tokens that do not join to the text")
        text = text[:end]
    return Completion(
        text,
        None if ids is None else tuple(ids[:n]),
        None if logps is None else np.array(logps[1][:n], np.float32),
        ends,
        0,
        None,
        "stop" if end is not None else "length" if ended == "length" else "eos",
    )


def _written(body: Mapping[str, Any] | None, choice: Mapping[str, Any]) -> int | None:
    usage = (body or {}).get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    ids = choice.get("token_ids")
    return len(ids) if isinstance(ids, list) else count if isinstance(count, int) else None


def _ends(tokens: Sequence[str], text: str) -> tuple[int, ...] | None:
    """Character end of each token; ``None`` where their strings do not join to the text (pieces
    of characters). An end-of-sequence token's own name stands past the text."""
    joined = "".join(tokens)
    if not joined.startswith(text):
        return None
    return tuple(min(end, len(text)) for end in accumulate(map(len, tokens)))


_TEXT = "The quick brown fox jumps over the lazy dog. Then it"
_N = 16
"""Tokens of a probing answer."""


class ModelServer(Client):
    """A server at ``base_url``. The key, if any, is in the environment variable ``key_env``, which
    is read at each call.

    ``timeout_s`` bounds one try, whole answer included; ``tries`` bounds their number, then an item
    is a ``Failure``; ``connections`` bounds the calls under way; ``max_bytes`` bounds an answer,
    decompressed. All else is the policy of :class:`Client`. The
    ``openai`` package has a policy of its own, bounds neither the size of an answer nor the time of
    a whole try, and takes a second to import: it is not used here.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key_env: str = "OPENAI_API_KEY",
        timeout_s: float = 120.0,
        tries: int = 4,
        backoff_s: float = 0.5,
        connections: int = 64,
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

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        key: int = 0,
        stop: Callable[[], Failure | None] = lambda: None,
    ) -> Reply | Failure:
        """The server's reply: of a POST where there is a body, else of a GET. ``stop`` as in
        :meth:`Client.send`."""
        secret = os.environ.get(self.key_env, "")
        self.hide(secret)
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        method = "GET" if body is None else "POST"
        request = HttpRequest(method, self.base_url + path, data, headers)
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
        reply = await server.ask(PATHS[endpoint], request_body(endpoint, prompt, **fields))
        if isinstance(reply, Failure):
            raise _Down(reply)
        return first_choice(reply.body) if reply.status < 400 else None

    try:
        plain = await server.ask(
            PATHS[endpoint],
            request_body(endpoint, prompt, model=model, max_tokens=_N, temperature=0.0, **extra),
        )
        if isinstance(plain, Failure):
            return plain
        # 404 means "no such model" on some servers: that is no missing endpoint
        if plain.status in (404, 405, 501) and "model" not in str(plain.body).lower():
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
    reply = await server.ask("/models")
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
