"""The JSON of OpenAI-compatible servers: what is sent, and what came back as our records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np

from ..types import Failure
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
    """Tokens of the answer, if the server says."""
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
