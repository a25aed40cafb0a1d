"""Chats with tools over any OpenAI-compatible server: what was said, which tools were called, what
it cost. For agents; :class:`OpenAIGenerator` is for text whose tokens matter."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import EngineError
from ..storage.files import parse_json
from ..storage.store import Store
from ..types import Failure
from ..utils.http import all_of
from .openai_server import ModelServer, Reply, only_model

PATH = "/chat/completions"
_NO_ROOM = re.compile(
    r"context.{0,40}(length|size|window)|exceed.{0,40}context", re.IGNORECASE | re.DOTALL
)
"""Pattern of servers' messages (status 400) for a chat longer than the model's context."""


class ToolUse(NamedTuple):
    """A call as the model wrote it."""

    name: str
    arguments: str
    """JSON, unread: it may be broken."""


class Said(NamedTuple):
    """One reply."""

    text: str
    calls: tuple[ToolUse, ...] = ()
    finish: str = "stop"
    """stop | tool_calls | length | content_filter | …, the server's word; ``no_room``: the chat is
    longer than the model can read."""
    refusal: str = ""
    """The model's words where it declined to answer."""
    tokens: tuple[int, int] | None = None
    """Read and written, as the server counted when it was asked; None if it did not say."""


class ChatRequest(NamedTuple):
    """One chat to be continued. ``fields``: further JSON fields, such as ``tools``."""

    messages: tuple[Mapping[str, Any], ...]
    fields: Mapping[str, Any] = {}
    key: int = 0
    """Random key, for the server's ``seed`` where one was asked for, and for spreading retries."""


class ChatClient:
    """A model behind ``/chat/completions``.

    Args:
        base_url: Like ``http://127.0.0.1:8000/v1``.
        model: Its name; may be left out where the server has one.
        key_env, timeout_s, tries, backoff_s, connections: Of
            :class:`~searchgym.llms.openai_server.ModelServer`.
        max_tokens, temperature: Of each reply.
        seeded: Send ``seed``, made of each request's key.
        extra: Further fields of every request; one that is None is left out, which removes a field
            that a server refuses (``{"max_tokens": None, "max_completion_tokens": 500}``).
        cache: File of replies kept for ever (``storage.store``): equal requests, one reply.
            Requests that differ in nothing but their key are equal at temperature 0, else samples.
        price_in, price_out: US dollars per million tokens read and written.
        budget: US dollars after which no more is asked. Calls under way then are still paid for;
            each process counts its own.

    Raises:
        EngineError: impossible settings; later a refused key, an unknown model or address.
    """

    needs_task = False

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        key_env: str = "OPENAI_API_KEY",
        timeout_s: float = 120.0,
        tries: int = 4,
        backoff_s: float = 0.5,
        connections: int = 16,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seeded: bool = False,
        extra: Mapping[str, Any] | None = None,
        cache: str | Path | None = None,
        price_in: float = 0.0,
        price_out: float = 0.0,
        budget: float | None = None,
    ) -> None:
        if max_tokens < 1 or temperature < 0 or min(price_in, price_out, budget or 0.0) < 0:
            raise EngineError(
                "max_tokens must be ≥ 1, temperature, prices and budget ≥ 0, got "
                f"{max_tokens}, {temperature}, {price_in}, {price_out}, {budget}"
            )
        if budget is not None and not (price_in or price_out):
            raise EngineError(
                "a budget needs price_in and price_out, in dollars per million tokens"
            )
        self.server = ModelServer(
            base_url, key_env=key_env, timeout_s=timeout_s, tries=tries, backoff_s=backoff_s,
            connections=connections,
        )  # fmt: skip
        self._model, self.seeded, self.extra = model, seeded, dict(extra or {})
        self.max_tokens, self.temperature = max_tokens, float(temperature)
        self.price_in, self.price_out, self.budget = price_in, price_out, budget
        self._store = None if cache is None else Store(cache)
        self._guard = threading.Lock()
        self._usage = dict.fromkeys(
            ("requests", "cached", "failures", "prompt_tokens", "completion_tokens"), 0
        )

    @property
    def model(self) -> str:
        """Name of the model; the server is asked if it was not given."""
        if self._model is None:
            name = self.server.wait(only_model(self.server))
            if isinstance(name, Failure):
                raise EngineError(f"cannot ask the server for its model: {name.message}")
            self._model = name
        return self._model

    @property
    def sampling(self) -> dict[str, Any]:
        """Sampling of replies, for records."""
        return {"max_tokens": self.max_tokens, "temperature": self.temperature, **self.extra}

    @property
    def fingerprint(self) -> str:
        """Digest of address, model and sampling; the server may change the model behind a name."""
        said = json.dumps(
            [self.server.base_url, self.model, self.sampling, self.seeded], default=str
        )
        return f"chat:{self.model}:{hashlib.blake2b(said.encode(), digest_size=8).hexdigest()}"

    @property
    def usage(self) -> dict[str, float]:
        """Usage so far: ``requests`` answered by the server, ``cached`` ones, ``failures``,
        ``prompt_tokens``, ``completion_tokens`` (as the server counts), and their ``cost`` in US
        dollars."""
        with self._guard:
            used = self._usage
            cost = self.price(used["prompt_tokens"], used["completion_tokens"])
            return {**used, "cost": cost}

    def run(self, batch: Sequence[ChatRequest]) -> list[Said | Failure]:
        """A reply per request, in order; a failed one is a ``Failure`` in its place."""
        if not batch:
            return []
        bodies = [self.body(request) for request in batch]
        return self.server.wait(self._all(bodies, [request.key for request in batch]))

    def close(self) -> None:
        """Give connections back."""
        self.server.close()

    # --- asking -------------------------------------------------------------------------------
    def body(self, request: ChatRequest) -> dict[str, Any]:
        """The JSON that is sent."""
        fields: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in request.messages],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            **request.fields,
        }
        if self.seeded:
            fields["seed"] = request.key & ((1 << 31) - 1)
        fields |= self.extra
        return {name: value for name, value in fields.items() if value is not None}

    async def _all(self, bodies: list[dict[str, Any]], keys: list[int]) -> list[Said | Failure]:
        # an exception is a configuration error: one is enough
        return await all_of(self._one(b, k) for b, k in zip(bodies, keys, strict=True))

    async def _one(self, body: dict[str, Any], key: int) -> Said | Failure:
        space = f"chat/{self.server.base_url}"
        name = _name(body, key)
        if self._store is not None and (kept := self._store.get_many(space, [name])[0]):
            self._count(cached=1)
            return _unpacked(kept)
        reply = await self.server.ask(PATH, body, key, self._spent)
        answer = reply if isinstance(reply, Failure) else self._read(reply)
        if isinstance(answer, Failure):
            self._count(failures=1)
            return answer
        usage = ((reply.body or {}) if isinstance(reply, Reply) else {}).get("usage")
        told = usage if isinstance(usage, Mapping) else {}
        counts = {n: told.get(n) for n in ("prompt_tokens", "completion_tokens")}
        known = {n: c for n, c in counts.items() if isinstance(c, int)}
        self._count(requests=1, **known)
        if len(known) == 2:
            answer = answer._replace(tokens=(known["prompt_tokens"], known["completion_tokens"]))
        if self._store is not None:
            answer = _unpacked(self._store.add_many(space, {name: _packed(answer)})[name])
        return answer

    def _spent(self) -> Failure | None:
        if self.budget is None or self.usage["cost"] < self.budget:
            return None
        text = f"the budget of ${self.budget:g} is spent; raise 'budget' to go on"
        return Failure("rejected", text, retryable=False)

    def _read(self, reply: Reply) -> Said | Failure:
        """A reply as a record; ``Failure`` for what the model has not said."""
        shown = str(reply.body)[:300]
        if reply.status in (404, 405):
            raise EngineError(
                f"{self.server.base_url}{PATH} said {reply.status} for model {self._model!r}: "
                f"{shown}; check model and base_url, which usually ends in /v1"
            )
        if reply.status >= 400:
            if reply.status in (400, 413, 422) and _NO_ROOM.search(str(reply.body)):
                return Said("", (), "no_room")
            return Failure("rejected", f"the server said {reply.status}: {shown}", False)
        try:
            choice = (reply.body or {})["choices"][0]
            message = choice["message"]
            calls = tuple(_use(call) for call in message.get("tool_calls") or ())
            text, refusal = message.get("content") or "", message.get("refusal") or ""
        except (KeyError, IndexError, TypeError, AttributeError):
            return Failure("bad_response", f"no message in the answer {shown}")
        if not isinstance(text, str):  # parts of text, as some servers send them
            text = "".join(str(p.get("text", "")) for p in text if isinstance(p, Mapping))
        return Said(text, calls, str(choice.get("finish_reason") or "stop"), str(refusal))

    def price(self, read: int, written: int) -> float:
        """US dollars for so many tokens."""
        return (read * self.price_in + written * self.price_out) / 1e6

    def _count(self, **counts: int) -> None:
        with self._guard:
            for name, n in counts.items():
                self._usage[name] += n


def _name(body: Mapping[str, Any], key: int) -> bytes:
    """Cache key of a request. Another key asks for another sample, where any are drawn."""
    told: Any = body if body.get("temperature") == 0 else [body, key]
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=32).digest()


def _use(call: Mapping[str, Any]) -> ToolUse:
    function = call["function"]
    arguments = function.get("arguments")
    if not isinstance(arguments, str):  # some servers send the object itself
        arguments = json.dumps(arguments)
    return ToolUse(str(function["name"]), arguments)


def _packed(said: Said) -> bytes:
    return json.dumps(said).encode()


def _unpacked(value: bytes) -> Said:
    text, calls, finish, refusal, *more = parse_json(value, "a cached answer")
    tokens = tuple(more[0]) if more and more[0] else None  # older files lack them
    return Said(text, tuple(ToolUse(*call) for call in calls), finish, refusal, tokens)
