"""Text from any OpenAI-compatible server: vLLM's, transformers', llama.cpp's, hosted ones."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

import numpy as np

from ..errors import EngineError
from ..types import Failure
from ..utils.http import all_of
from .base import Completion, Floats, GenRequest, Ids, Message, check, form, request_key, require
from .openai_server import (
    PATHS,
    Endpoint,
    EndpointSupport,
    ModelServer,
    completion,
    first_choice,
    logprob_fields,
    only_model,
    probe,
    prompt_scores,
    refused,
    request_body,
)

_SEED = (1 << 63) - 1
"""Servers take seeds of 63 bits."""
Item = TypeVar("Item")


class OpenAIGenerator:
    """A model behind ``/completions`` and ``/chat/completions``.

    What the server can do is probed at first use; asking for more is an ``EngineError``, also for
    sampling it would ignore. Strings and ids go to ``/completions``, chats to the other. ``model``
    may be left out where the server has one. ``extra`` is added to every request. ``connection``:
    keywords of :class:`~searchgym.llms.openai_server.ModelServer` (``key_env``, ``timeout_s``,
    ``tries``, ``backoff_s``, ``connections``).

    ``seed`` means that the server repeated itself when asked alone; whether it does in any batch is
    the server's business (``Cached`` makes it certain).
    """

    needs_task = False
    version = 0

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
        **connection: Any,
    ) -> None:
        self.server = ModelServer(base_url, **connection)
        self.extra = dict(extra or {})
        self._model = model
        self._facts: dict[Endpoint, EndpointSupport | None] | None = None
        self._asking: asyncio.Future[Failure | None] | None = None

    @property
    def model(self) -> str:
        """Name of the model; the server is asked if it was not given."""
        return self._model or self._settled()._model  # type: ignore[return-value]

    @property
    def fingerprint(self) -> str:
        """Digest of address, model and extra fields; a server may change what a name means."""
        said = json.dumps(
            [self.server.base_url, self.model, self.extra], sort_keys=True, default=str
        )
        return f"openai:{hashlib.blake2b(said.encode(), digest_size=16).hexdigest()}"

    @property
    def facts(self) -> Mapping[Endpoint, EndpointSupport | None]:
        """Features found at each endpoint; ``None``: not there."""
        return self._settled()._facts  # type: ignore[return-value]

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities common to all endpoints there (and ``score``, ``chat``)."""
        there = [f for f in self.facts.values() if f is not None]
        text = self.facts["completions"]
        common = {name for name in ("logp", "seed") if all(getattr(f, name) for f in there)}
        if text is not None and all(f.ids for f in there):
            common.add("ids")
        if text is not None and text.ids and text.score:
            common.add("score")
        if self.facts["chat"] is not None:
            common.add("chat")
        return frozenset(common)

    def cache_key(self, request: GenRequest) -> bytes | None:
        return request_key(request) if "seed" in self.capabilities else None

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        """All requests at once over the pool."""
        return self.server.wait(self._all(batch, self._check, self._one))

    async def arun(self, request: GenRequest) -> Completion | Failure:
        """One request from within any event loop, without blocking it."""
        return (await self.server.arun(self._all([request], self._check, self._one)))[0]

    def score(self, batch: Sequence[tuple[Ids, Ids]]) -> list[Floats | Failure]:
        def able(_: object) -> None:
            require(self, "ids", "score")

        return self.server.wait(self._all(batch, able, self._score))

    def close(self) -> None:
        """Give connections back."""
        self.server.close()

    # --- finding out --------------------------------------------------------------------------
    def _settled(self) -> Self:
        """Return the generator itself, probed. ``EngineError`` if the server cannot be asked."""
        if self._facts is None and (down := self.server.wait(self._settle())) is not None:
            raise EngineError(f"cannot find out what the server can do: {down.message}")
        return self

    async def _settle(self) -> Failure | None:
        """Probe once, on the first request; a ``Failure`` if the server is down just now."""
        if self._facts is not None:
            return None
        if self._asking is None:  # on the server's loop only, hence no lock
            self._asking = asyncio.ensure_future(self._find_out())
            self._asking.add_done_callback(self._asked)
        return await asyncio.shield(self._asking)

    def _asked(self, task: asyncio.Future[Failure | None]) -> None:
        self._asking = None  # a failure is no fact: the next call asks again

    async def _find_out(self) -> Failure | None:
        if self._model is None:
            model = await only_model(self.server)
            if isinstance(model, Failure):
                return model
            self._model = model
        facts: dict[Endpoint, EndpointSupport | None] = {}
        for endpoint in PATHS:
            known = await probe(self.server, self._model, endpoint, self.extra)
            if isinstance(known, Failure):
                return known
            facts[endpoint] = known
        if not any(facts.values()):
            raise EngineError(
                f"{self.server.base_url} has neither {' nor '.join(PATHS.values())}: base_url "
                "usually ends in /v1"
            )
        self._facts = facts
        return None

    def _check(self, batch: Sequence[GenRequest]) -> None:
        """``EngineError`` for what this server would refuse, ignore or leave out."""
        check(self, batch)
        for request in batch:
            endpoint, facts, s = *self._at(request), request.sampling
            ignored = [
                what
                for what, wanted, honoured in (
                    ("temperature", s.temperature > 0, facts.samples),
                    ("top_p", s.temperature > 0 and s.top_p < 1, facts.top_p),
                    ("top_k", s.temperature > 0 and s.top_k > 0, facts.top_k),
                )
                if wanted and not honoured
            ]
            if ignored:
                raise EngineError(
                    f"{self.server.base_url}{PATHS[endpoint]} ignores {' and '.join(ignored)}: use "
                    "another server, or sampling without"
                )

    def _at(self, request: GenRequest) -> tuple[Endpoint, EndpointSupport]:
        endpoint: Endpoint = "chat" if form(request.prompt) == "chat" else "completions"
        facts = self.facts[endpoint]
        if facts is None:
            raise EngineError(
                f"{self.server.base_url} has no {PATHS[endpoint]} for model {self.model!r}: give "
                + ("a string" if endpoint == "chat" else "Messages")
            )
        return endpoint, facts

    # --- asking -------------------------------------------------------------------------------
    async def _all(
        self,
        batch: Sequence[Item],
        check: Callable[[Sequence[Item]], None],
        one: Callable[[Item], Coroutine[Any, Any, Any]],
    ) -> list[Any]:
        if not batch:
            return []
        if (down := await self._settle()) is not None:
            return [down] * len(batch)
        check(batch)
        # an exception is a configuration error: one is enough
        return await all_of(one(item) for item in batch)

    async def _one(self, request: GenRequest) -> Completion | Failure:
        endpoint, facts = self._at(request)
        s = request.sampling
        prompt: Any = request.prompt
        if endpoint == "chat":
            prompt = [m._asdict() for m in cast("tuple[Message, ...]", prompt)]
        elif not isinstance(prompt, str):
            prompt = [int(i) for i in prompt]
        fields: dict[str, Any] = {
            "model": self.model,
            "max_tokens": s.max_tokens,
            "temperature": s.temperature,
            **self.extra,
        }
        if s.temperature > 0:  # limits are always said: servers take defaults from model cards
            fields["top_p"] = s.top_p
            if facts.top_k:
                fields["top_k"] = s.top_k or -1
            if facts.takes_seed:
                fields["seed"] = request.key & _SEED
        if s.stop and facts.stop != "unusable":
            fields["stop"] = list(s.stop)
            if facts.stop == "keep_flag":
                fields["include_stop_str_in_output"] = True
        if facts.ids:
            fields["return_token_ids"] = True
        if facts.logp:
            fields |= logprob_fields(endpoint)
        reply = await self.server.ask(
            PATHS[endpoint], request_body(endpoint, prompt, **fields), request.key
        )
        if isinstance(reply, Failure):
            return reply
        return refused(reply) or completion(reply.body, s.stop, s.max_tokens, facts)

    async def _score(self, pair: tuple[Ids, Ids]) -> Floats | Failure:
        context, rest = pair
        if not len(rest):
            return np.zeros(0, np.float32)
        if not len(context):
            return Failure("rejected", "the context has no tokens: give at least one", False)
        ids = [int(i) for i in (*context, *rest)]
        fields = {"model": self.model, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        body = request_body("completions", ids, **fields, **self.extra)
        reply = await self.server.ask(PATHS["completions"], body)
        if isinstance(reply, Failure):
            return reply
        if (failure := refused(reply)) is not None:
            return failure
        scores = prompt_scores(first_choice(reply.body) or {}, ids, len(rest))
        if scores is None:
            return Failure("bad_response", f"no prompt_logprobs in {str(reply.body)[:200]}")
        return np.array(scores, np.float32)
