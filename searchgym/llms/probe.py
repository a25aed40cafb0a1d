"""Probes a server's features with requests, since servers ignore fields they do not know.

An unknown field is refused by some servers (status 4xx) and dropped without a word by others;
either way the answer lacks its effect, and that is what is looked at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from ..errors import EngineError
from ..types import Failure
from .openai_json import (
    PATHS,
    Endpoint,
    EndpointSupport,
    best_logprob,
    first_choice,
    logprob_fields,
    prompt_scores,
    request_body,
    token_logprobs,
)
from .wire import Reply, Wire

_TEXT = "The quick brown fox jumps over the lazy dog. Then it"
_N = 16
"""Tokens of a probing answer."""


async def probe(
    wire: Wire, model: str, endpoint: Endpoint, extra: Mapping[str, Any]
) -> EndpointSupport | Failure | None:
    """Find an endpoint's features (``None``: no such endpoint) in about 15 calls of 16 tokens."""
    prompt: Any = _TEXT if endpoint == "completions" else [{"role": "user", "content": _TEXT}]

    async def ask(prompt: Any = prompt, n: int = _N, heat: float = 0.0, **more: Any) -> Any:
        """The first choice, ``None`` if the request was refused, or a ``Failure``."""
        fields = {"model": model, "max_tokens": n, "temperature": heat, **extra, **more}
        reply = await wire.post(PATHS[endpoint], request_body(endpoint, prompt, **fields))
        if isinstance(reply, Failure):
            raise _Down(reply)
        return first_choice(reply.body) if reply.status < 400 else None

    try:
        plain = await wire.post(
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
                f"{wire.base_url}{PATHS[endpoint]} refused a plain request for model {model!r} "
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


async def only_model(wire: Wire) -> str | Failure:
    """The name of the one model a server has; ``EngineError`` if it has several, or none."""
    reply = await wire.get("/models")
    if isinstance(reply, Failure):
        return reply
    listed = (reply.body or {}).get("data")
    names = [str(m.get("id")) for m in listed or [] if isinstance(m, dict)]
    if len(names) != 1:
        raise EngineError(
            f"{wire.base_url} serves {', '.join(names) or 'no model it names'}: give model="
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
