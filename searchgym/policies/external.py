"""Policy for external generators: prompts as ids and exact rows, without a generator of its own.

Trainers and servers that sample by themselves call :meth:`ExternalPolicy.ask` for the prompt,
:meth:`ExternalPolicy.remember` with the sampled tokens, and :meth:`ExternalPolicy.rows` for the
training rows. :class:`~searchgym.policies.causal_lm.CausalLMPolicy` is the same with a
generator of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np

from ..core.episode import Episode
from ..core.trajectory import Trajectory
from ..errors import CardError, EngineError, unknown
from ..llms.base import Completion, GenRequest, Ids, Sampling, check_sampling
from ..objects import load_known, load_object
from ..plugins import Registry
from ..seeding import derive
from ..types import TurnRequest
from .record import Memory, Written, episode_usage
from .renderer import BareRenderer, ChatRenderer, PlainRenderer, Renderer, spelt
from .rows import TrainingRow, rows_of

SAMPLING = Sampling()
RENDERERS = Registry(
    "renderer", {"plain": PlainRenderer, "bare": BareRenderer, "chat": ChatRenderer}
)


class ExternalPolicy:
    """Keeps exact count of the tokens that a model, wherever it runs, reads and writes in episodes.

    The next turn's prompt is the ids of everything read and written so far, then the ids of what is
    new. Keys depend on ``seed`` and the request (episode, context, turn), not on who else is in the
    batch.

    Args:
        tokenizer: The model's, of transformers.
        renderer: ``"plain"`` for base models, ``"bare"`` for those that read no instructions,
            ``"names"`` for such with slots, ``"chat"`` for the tokenizer's template; a table with
            options, ``{"use": "chat", "enable_thinking": False}``; or a
            :class:`~searchgym.policies.renderer.Renderer`.
        context: Tokens of prompt and completion that the model can hold; ``None``: unlimited.
        sampling: Sampling of each turn; the request's stop strings are added, and its limit of
            tokens counts if lower.
        seed: Seed of the requests' keys.
        overflow: Handling of a prompt that leaves no room in the model's context. ``"invalid"``:
            the turn is empty, which is an invalid action that the episode answers and counts; with
            some room the turn is as long as fits (``finish`` says ``"length"``). ``"refuse"``:
            an ``EngineError`` unless all of ``max_tokens`` fits.
        memory: Episodes remembered. Asking for the next turn of a forgotten one is an error.

    Raises:
        EngineError: Impossible options, or a renderer that the tokenizer does not fit.
        EpisodeError: From ``ask``, an episode that holds texts which were not remembered here.
    """

    def __init__(
        self,
        tokenizer: Any,
        renderer: Renderer | Mapping[str, Any] | str = "plain",
        *,
        context: int | None = None,
        sampling: Sampling = SAMPLING,
        seed: int = 0,
        overflow: Literal["invalid", "refuse"] = "invalid",
        memory: int = 65_536,
    ) -> None:
        if overflow not in ("invalid", "refuse") or memory < 1:
            raise EngineError(
                f"overflow is 'invalid' or 'refuse', memory is ≥ 1; got {overflow!r}, {memory}"
            )
        self.renderer = make_renderer(renderer, tokenizer)
        self.sampling, self.seed, self.overflow = sampling, seed, overflow
        self.context = context
        self.memory = Memory(memory)
        self.weights = 0
        """Number of the weights that write now, for completions that do not say it."""
        self._lock = threading.RLock()

    @property
    def version(self) -> int:
        """Version of the weights."""
        return self.weights

    # --- turns --------------------------------------------------------------------------------
    def ask(
        self, request: TurnRequest, sampling: Sampling | None = None
    ) -> GenRequest | Completion:
        """Return the generator's request for a turn; an empty completion if the context is full.
        The caller must :meth:`remember` the generator's answer before the next turn."""
        settings = self.sampling if sampling is None else sampling
        check_sampling(settings)
        with self._lock:
            pieces, prefill = self._prompt(request)
        ids = (*chain.from_iterable(pieces), *prefill)
        room = self._room(request, len(ids), settings)
        if room < 1:
            none = np.zeros(0, np.float32)
            return Completion("", (), none, (), self.version, none, "length")
        stops = tuple(dict.fromkeys((*request.stop, *settings.stop)))
        key = derive(self.seed, "policy", request.episode_id, request.context, request.turn)
        settings = settings._replace(max_tokens=room, stop=stops)
        return GenRequest(ids, settings, key, frozenset({"ids", "logp"}))

    def remember(self, request: TurnRequest, completion: Completion) -> Completion:
        """Keep a turn's tokens for the next turn's prompt and for rows; returns the completion with
        the text that the episode is to be given."""
        if completion.ids is None or completion.logp is None:
            raise EngineError(f"{self._writer} gave no ids or logp, which it promises")
        self._check_ids(completion.ids)
        if completion.ends is None:  # a server that shows half a character as no text at all
            completion = completion._replace(ends=self._ends(completion.text, completion.ids))
        completion = self.renderer.heard(request.segments, completion)
        with self._lock:
            pieces, prefill = self._prompt(request)
            history = self.memory.at(request)
            history.asked = None
            history.written[request.turn] = Written(
                request.turn, request.context, pieces, prefill, completion
            )
        return completion

    def rows(
        self, played: Episode | Trajectory, *, group: str | None = None, since: int = 0
    ) -> list[TrainingRow]:
        """The training rows of an episode this policy has played; see :func:`rows_of`."""
        name = played.config.episode_id if isinstance(played, Episode) else played.id
        with self._lock:
            written = self.memory.written(name)
        return rows_of(played, written, group=group, since=since)

    def episode_usage(self, episode_id: str, *, since: int = 0) -> dict[str, float]:
        """Usage of an episode's turns from ``since`` on: tokens read and written, and how many
        turns overflowed the context or were cut by length
        (:func:`~searchgym.policies.record.turn_usage`)."""
        with self._lock:
            written = self.memory.written(episode_id)
        return episode_usage({n: w for n, w in written.items() if n >= since})

    def forget(self, episode_ids: Iterable[str]) -> None:
        """Drop what is remembered of episodes whose rows have been made."""
        with self._lock:
            self.memory.forget(episode_ids)

    # --- parts --------------------------------------------------------------------------------
    def _check_ids(self, ids: Ids) -> None:
        """``EngineError`` for ids that mean nothing here."""
        if self.vocabulary is None:
            return
        if wrong := [i for i in ids if not 0 <= i < self.vocabulary]:
            raise EngineError(
                f"{self._writer} gave token id {wrong[0]}, but the tokenizer of "
                f"{type(self.renderer).__name__} has 0 to {self.vocabulary - 1}: give the "
                "renderer the tokenizer of the model that the server runs"
            )

    @cached_property
    def vocabulary(self) -> int | None:
        """Size of the vocabulary: the highest id of the renderer's tokenizer, if it has one, plus
        1."""
        ask = getattr(getattr(self.renderer, "tokenizer", None), "get_vocab", None)
        return None if ask is None else max(ask().values()) + 1

    def _ends(self, text: str, ids: Ids) -> tuple[int, ...]:
        """Return the end of each token in a text, by the renderer's tokenizer."""
        tokenizer = getattr(self.renderer, "tokenizer", None)
        if tokenizer is None:
            raise EngineError(
                f"{self._writer} gave no ends, and {type(self.renderer).__name__} "
                "has no tokenizer to find them with"
            )
        return tuple(min(end, len(text)) for end in spelt(tokenizer, ids).ends)

    @property
    def _writer(self) -> str:
        """Name of the writer, for error messages."""
        return "whoever generates"

    def _prompt(self, request: TurnRequest) -> tuple[tuple[Ids, ...], Ids]:
        """The pieces of a prompt, and its prefill; made once for a request that is asked and then
        remembered."""
        history = self.memory.at(request)
        if history.asked is not None and history.asked[0] is request:
            return history.asked[1:]
        pieces = self.renderer.render(request, history.ids(request))
        prefill = request.prefill
        started = self.renderer.spell(request.segments, prefill).ids if prefill else ()
        history.asked = request, pieces, started
        return pieces, started

    def _room(self, request: TurnRequest, length: int, sampling: Sampling) -> int:
        """Tokens the turn may have; below one: the context is full."""
        wanted = sampling.max_tokens
        if request.max_tokens is not None:
            wanted = min(wanted, request.max_tokens)
        if self.context is None or length + wanted <= self.context:
            return wanted
        if self.overflow == "refuse":
            raise EngineError(
                f"turn {request.turn} of episode {request.episode_id!r}: {length} prompt tokens + "
                f"{wanted} new ones exceed the model's {self.context}. Lower max_tokens, k, "
                "snippet_chars or max_turns, or use overflow='invalid'"
            )
        return self.context - length


def make_renderer(spec: Renderer | Mapping[str, Any] | str, tokenizer: Any) -> Renderer:
    """Return the renderer that ``spec`` names or is, for a tokenizer.

    Args:
        spec: A name of ``RENDERERS`` or ``"package.module:Class"``, a table ``{"use": either,
            **options}``, or a renderer.
        tokenizer: Tokenizer of transformers; not needed if a renderer is given.

    Raises:
        EngineError: An unknown name or option, or a tokenizer that does not fit.
    """
    if not isinstance(spec, str | Mapping):
        return spec
    use, options = renderer_parts(spec)
    if tokenizer is None:
        raise EngineError(
            f"there is no tokenizer for the renderer {use!r}: give renderer=PlainRenderer("
            "tokenizer) or ChatRenderer(tokenizer)"
        )
    try:
        kind = load_known(RENDERERS[use]) if use in RENDERERS else load_object(use)
        made: Renderer = kind(tokenizer, **options)
    except (CardError, TypeError) as error:
        raise EngineError(f"renderer {use!r}: {error}") from error
    return made


def renderer_parts(spec: Mapping[str, Any] | str) -> tuple[str, dict[str, Any]]:
    """Return name and options of a renderer given as JSON values, checked as far as that goes
    without a tokenizer. ``EngineError`` for an unknown name."""
    options = {"use": spec} if isinstance(spec, str) else dict(spec)
    use = options.pop("use", None)
    if not isinstance(use, str):
        raise EngineError(f"a renderer table names its renderer: {{use = 'chat', …}}, got {spec!r}")
    if use not in RENDERERS and ":" not in use:
        raise EngineError(
            unknown("renderer", use, RENDERERS) + ", 'package.module:Class' or an object"
        )
    return use, options
