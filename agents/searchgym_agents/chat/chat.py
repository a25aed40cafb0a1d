"""Shared parts of agents over OpenAI-compatible chat servers: turn requests become messages, and
replies become actions in the environment's dialect.

They are stateless: the chat is made anew from each request, whose texts (in whatever dialect the
environment speaks) are read back into actions. So they play in every environment without being told
its dialect, batches and restarts change nothing, and a cache can answer.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from searchgym.dialects.base import Dialect, View, get_dialect
from searchgym.dialects.escape import escape_controls
from searchgym.errors import DialectError, EngineError, EpisodeError
from searchgym.llms.openai_chat import ChatClient, ChatRequest, Said
from searchgym.objects import check_options
from searchgym.seeding import derive
from searchgym.types import Action, Failure, Invalid, Metered, Segment, TurnRequest

ADDRESS, MODEL = "OPENAI_BASE_URL", "OPENAI_MODEL"
MAX_THOUGHT = 8_000
"""Characters of a reply's thoughts that are kept."""
WRONG_FORM = "That was not in the expected form."
NOT_POSSIBLE = "That is not possible here: the tool does not exist, or a budget is spent."


class ChatStep(NamedTuple):
    """A turn that has been taken."""

    action: Action
    thought: str
    text: str
    """Text as it stands in the episode."""
    seen: str
    """Reply of the environment."""


def question_of(request: TurnRequest) -> str:
    """The question (or task) as the environment puts it."""
    asked = (s for s in request.segments if s.kind in ("question", "task"))
    return escape_controls("".join(s.asked or s.text for s in asked).strip())


def steps_of(request: TurnRequest, dialect: Dialect) -> list[ChatStep]:
    """The turns so far, read back from the request's texts."""
    steps: list[ChatStep] = []
    for segment in request.segments:
        if segment.author == "policy":
            steps.append(_read(segment, dialect))
        elif steps:
            seen = _seen(segment, steps[-1].action)
            steps[-1] = steps[-1]._replace(seen=f"{steps[-1].seen}\n{seen}".strip())
    return steps


def _read(segment: Segment, dialect: Dialect) -> ChatStep:
    text = segment.text
    parsed = dialect.parse(text)
    thoughts = [text[s.start : s.end] for s in parsed.spans if s.kind == "think"]
    return ChatStep(parsed.action, "\n".join(thoughts), text, "")


def _seen(segment: Segment, action: Action) -> str:
    """A piece of the environment's; corrections in words of our own, because the environment's
    explain the dialect, which the model does not know."""
    if segment.kind == "invalid":
        return WRONG_FORM if isinstance(action, Invalid) else NOT_POSSIBLE
    return escape_controls(segment.text.strip())


def view_of(request: TurnRequest) -> View:
    """Return the parts of the instructions, the same at every turn of an episode."""
    return View(
        tools=request.tools,
        max_parallel=request.max_parallel,
        k=0,
        turns_left=request.turns_left + request.turn,
        queries_left=request.max_queries,
        judge=False,
        delegate=False,
        role=request.role,
        may_abstain=request.may_abstain,
    )


class ChatAgent(ABC):
    """Asks a model behind ``/chat/completions``.

    What a model does wrong (no action, broken JSON, a reply cut short, a refusal to answer, a chat
    longer than it can read) is an invalid action, which the episode counts and answers. What the
    server does wrong is a ``Failure``: the episode is lost to the infrastructure and not scored.

    Args:
        base_url: Default: the environment variable ``OPENAI_BASE_URL``.
        model: Default: ``OPENAI_MODEL``, or the only one the server has.
        seed: Seed of the requests' keys (see ``seeded``).
        options: For :class:`~searchgym.llms.openai_chat.ChatClient`: temperature, max_tokens,
            tries, cache, price_in, …

    Raises:
        CardError: an option that it does not take.
        EngineError: no address, impossible options; from :meth:`act`: a refused key, an unknown
            model.
        EpisodeError: a request of an environment it cannot play (self-search, planners).
    """

    token_counter = "the model's server"

    def __init__(
        self, base_url: str | None = None, model: str | None = None, *, seed: int = 0,
        **options: Any,
    ) -> None:  # fmt: skip
        base_url = base_url or os.environ.get(ADDRESS)
        if not base_url:
            raise EngineError(
                f"{type(self).__name__} needs the address of a model server: base_url='http://127."
                f"0.0.1:8000/v1' (-s agent.base_url=…), or the environment variable {ADDRESS}"
            )
        check_options(f"agent {type(self).__name__}", ChatClient, options, complete=False)
        self.client = ChatClient(base_url, model or os.environ.get(MODEL) or None, **options)
        self.seed = seed
        self.wrong: Counter[str] = Counter()
        """Replies that were no action, by why."""
        self.left_out = 0
        """Calls of tools that came together with another one and were not carried out."""

    @property
    def fingerprint(self) -> str:
        """Model, sampling and kind of agent."""
        return f"{type(self).__name__}:{self.client.fingerprint}:{self.seed}"

    @property
    def sampling(self) -> dict[str, Any]:
        return self.client.sampling

    @property
    def usage(self) -> dict[str, float]:
        """Requests so far and their cost (:attr:`ChatClient.usage`), replies that were no
        action (``wrong_…``, by why), calls that were left out."""
        wrong = {f"wrong_{why}": float(n) for why, n in sorted(self.wrong.items())}
        return {**self.client.usage, **wrong, "left_out": float(self.left_out)}

    def act(self, requests: Sequence[TurnRequest], /) -> list[str | Failure]:
        """A text in each request's dialect, or why there is none; one batch of calls."""
        said = self.client.run([self._asked(request) for request in requests])
        return [
            s if isinstance(s, Failure) else Metered(self._text(s, request), self._took(s))
            for s, request in zip(said, requests, strict=True)
        ]

    # --- for the two kinds ----------------------------------------------------------------------
    @abstractmethod
    def messages(
        self, request: TurnRequest, view: View, steps: Sequence[ChatStep]
    ) -> list[dict[str, Any]]:
        """The chat that asks for the next turn."""

    def fields(self, request: TurnRequest) -> Mapping[str, Any]:
        """Further JSON fields of the request."""
        return {}

    @abstractmethod
    def read(self, said: Said, request: TurnRequest) -> tuple[Action, str]:
        """(action, thought) of a reply; ``Invalid`` if it holds none."""

    # --- parts ----------------------------------------------------------------------------------
    def _took(self, said: Said) -> dict[str, float]:
        """Return the cost of a reply when asked for, cached or not; ``overflowed``:
        the chat left it no room, ``length_cut``: it was ended by ``max_tokens``."""
        cut = {
            "overflowed": float(said.finish == "no_room"),
            "length_cut": float(said.finish == "length"),
        }
        if said.tokens is None:
            return cut
        read, written = said.tokens
        cost = self.client.price(read, written)
        return {"tokens_in": float(read), "tokens_out": float(written), "cost": cost, **cut}

    def _asked(self, request: TurnRequest) -> ChatRequest:
        dialect = get_dialect(request.dialect)
        if getattr(dialect, "self_search", False) or request.role != "agent":
            raise EpisodeError(
                f"{type(self).__name__} plays ordinary episodes, got dialect {request.dialect!r} "
                f"and role {request.role!r}; use an environment with an engine and no delegation"
            )
        steps = steps_of(request, dialect)
        messages = self.messages(request, view_of(request), steps)
        key = derive(self.seed, "chat-agent", request.episode_id, request.turn)
        return ChatRequest(tuple(messages), self.fields(request), key)

    def _text(self, said: Said, request: TurnRequest) -> str:
        dialect = get_dialect(request.dialect)
        if said.refusal or said.finish == "content_filter":
            action: Action = Invalid("refused")
            thought = said.refusal or said.text
        elif said.finish == "no_room":
            action, thought = Invalid("no_room"), ""
        else:
            action, thought = self.read(said, request)
            if isinstance(action, Invalid) and said.finish == "length":
                action = Invalid("length")
        if not isinstance(action, Invalid):
            try:
                return dialect.render_action(action, thought[:MAX_THOUGHT])
            except DialectError:
                action = Invalid("not_sayable")
        self.wrong[action.reason] += 1
        return self._nothing(dialect, thought)

    @staticmethod
    def _nothing(dialect: Dialect, text: str) -> str:
        """A text that holds what was said and no action, whatever it looks like."""
        text = dialect.escape(text[:MAX_THOUGHT]).strip()
        return text if isinstance(dialect.parse(text).action, Invalid) else ""
