"""A language model that plays episodes and keeps exact count of its tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Literal, cast

import numpy as np

from ..batching import run_batch
from ..episode import Episode
from ..errors import EngineError
from ..llms.base import Completion, Generator, GenRequest, Ids, Sampling, check_sampling, require
from ..seeding import derive
from ..trajectory import Trajectory
from ..types import Failure, Metered, Service, TurnRequest
from .names import NamesRenderer
from .record import Memory, Written, episode_usage, turn_usage
from .renderer import BareRenderer, ChatRenderer, PlainRenderer, Renderer, spelt
from .rows import Row, rows_of

SAMPLING = Sampling()
RENDERERS = {
    "plain": PlainRenderer, "bare": BareRenderer, "names": NamesRenderer, "chat": ChatRenderer,
}  # fmt: skip


class CausalLMPolicy:
    """Agent and policy over any generator that takes and gives token ids and log-probabilities.

    The next turn's prompt is the ids of everything read and written so far, then the ids of what is
    new. What is drawn depends on ``seed`` and the request (episode, context, turn), not on who else
    is in the batch: the same seed plays the same episodes. Change ``seed`` to play them otherwise.

    Args:
        generator: Needs the capabilities ``ids``, ``logp`` and ``seed``.
        renderer: ``"plain"`` for base models, ``"bare"`` for those that read no instructions,
            ``"names"`` for such with slots, ``"chat"`` for the tokenizer's template, or a
            :class:`Renderer`.
        sampling: Of each turn; the request's stop strings are added, and its own limit of tokens
            counts if lower.
        overflow: What happens when a prompt leaves no room in the model's context. ``"invalid"``:
            the turn is empty, which is an invalid action that the episode answers and counts; with
            some room the turn is as long as fits (``finish`` says ``"length"``). ``"refuse"``:
            an ``EngineError`` unless all of ``max_tokens`` fits.
        context: Tokens of prompt and completion; default: the generator's.
        memory: Episodes remembered. Asking for the next turn of a forgotten one is an error.
        tries: Calls of the generator before its failure is raised.

    Raises:
        EngineError: naming what the generator lacks, or failed at.
        EpisodeError: an episode holds texts that this policy has not written.
    """

    token_counter = "the model's tokenizer"

    def __init__(
        self,
        generator: Generator,
        renderer: Renderer | Literal["plain", "bare", "names", "chat"] = "plain",
        *,
        sampling: Sampling = SAMPLING,
        seed: int = 0,
        overflow: Literal["invalid", "refuse"] = "invalid",
        context: int | None = None,
        memory: int = 65_536,
        tries: int = 2,
    ) -> None:
        require(generator, "ids", "logp", "seed")
        if overflow not in ("invalid", "refuse") or memory < 1 or tries < 1:
            raise EngineError(
                f"overflow is 'invalid' or 'refuse', memory and tries are ≥ 1; got {overflow!r}, "
                f"{memory}, {tries}"
            )
        self.generator = generator
        self.renderer = _renderer(renderer, generator)
        self.sampling, self.seed, self.overflow, self.tries = sampling, seed, overflow, tries
        self.context: int | None = context or getattr(generator, "context", None)
        self.memory = Memory(memory)
        self.refresh: Callable[[], object] | None = None
        """Called before each batch of turns; where weights come from elsewhere, it fetches them."""
        self._lock = threading.RLock()

    @property
    def fingerprint(self) -> str:
        """Of the generator with its weights, how it is asked, and the seed."""
        asked = getattr(self.renderer, "fingerprint", type(self.renderer).__name__)
        return (
            f"{self.generator.fingerprint} {asked} {self.overflow} context {self.context} "
            f"seed {self.seed}"
        )

    @property
    def prompt_format(self) -> dict[str, str]:
        """How prompts are made, for the record of an evaluation: renderer and overflow."""
        renderer = getattr(self.renderer, "fingerprint", type(self.renderer).__name__)
        return {"renderer": str(renderer), "overflow": self.overflow}

    @property
    def version(self) -> int:
        """Of the weights."""
        return int(getattr(self.generator, "version", 0))

    def weights_changed(self, weights: Mapping[str, Any] | None = None) -> int:
        """After a training step: the new version. ``weights``: a state dict for a generator that
        holds a copy of its own (vLLM); none for one that shares the trainer's model."""
        generator: Any = self.generator
        needed = "version" if weights is None else "update_weights"
        if not hasattr(generator, needed):
            raise EngineError(
                f"{type(generator).__name__} has no {needed}: its weights cannot change. Train "
                "with a TransformersGenerator (TrainableLM.policy) or a VllmGenerator"
            )
        if weights is not None:
            generator.update_weights(weights)
        else:
            generator.version += 1
        return self.version

    def release(self) -> None:
        """Free what the generator keeps between calls, if it keeps anything; the next prompts are
        read anew."""
        forget = getattr(self.generator, "forget", None)
        if forget is not None:
            forget()

    # --- acting -------------------------------------------------------------------------------
    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """One text per request; raises as :meth:`sample`."""
        if (batch := len({r.episode_id for r in requests})) > self.memory.size:
            raise EngineError(
                f"memory={self.memory.size} is less than a batch of {batch} episodes, each of "
                "which has to be remembered for its next turn: raise memory"
            )
        said = self.sample(requests)
        return [Metered(c.text, self._usage(r)) for r, c in zip(requests, said, strict=True)]

    def _usage(self, request: TurnRequest) -> dict[str, float]:
        with self._lock:
            return turn_usage(self.memory.written(request.episode_id)[request.turn])

    def sample(
        self, requests: Sequence[TurnRequest], sampling: Sampling | None = None
    ) -> list[Completion]:
        """One completion per request, in order, each remembered for the next turn and for rows."""
        if self.refresh is not None:
            self.refresh()
        asked = [self.ask(request, sampling) for request in requests]
        where = [i for i, ask in enumerate(asked) if isinstance(ask, GenRequest)]
        new = self._generate([a for a in asked if isinstance(a, GenRequest)], requests, where)
        answers = iter(new)
        done = [next(answers) if isinstance(a, GenRequest) else a for a in asked]
        return [self.remember(r, c) for r, c in zip(requests, done, strict=True)]

    def ask(
        self, request: TurnRequest, sampling: Sampling | None = None
    ) -> GenRequest | Completion:
        """What the generator is asked for a turn; an empty completion if the context is full.
        Whoever asks the generator must :meth:`remember` its answer before the next turn."""
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
            raise EngineError(
                f"{type(self.generator).__name__} gave no ids or logp, which it promises"
            )
        self._check_ids(completion.ids)
        if completion.ends is None:  # a server that shows half a character as no text at all
            completion = completion._replace(ends=self._ends(completion.text, completion.ids))
        completion = self.renderer.heard(request.segments, completion)
        with self._lock:
            pieces, prefill = self._prompt(request)
            self.memory.at(request).written[request.turn] = Written(
                request.turn, request.context, pieces, prefill, completion
            )
        return completion

    def rows(
        self, played: Episode | Trajectory, *, group: str | None = None, since: int = 0
    ) -> list[Row]:
        """The training rows of an episode this policy has played; see :func:`rows_of`."""
        name = played.config.episode_id if isinstance(played, Episode) else played.id
        with self._lock:
            written = self.memory.written(name)
        return rows_of(played, written, group=group, since=since)

    def episode_usage(self, episode_id: str) -> dict[str, float]:
        """What an episode's turns took: tokens read and written, and how many turns overflowed the
        context or were cut by length (:func:`~searchgym.policies.record.turn_usage`)."""
        with self._lock:
            return episode_usage(self.memory.written(episode_id))

    def forget(self, episode_ids: Iterable[str]) -> None:
        """Drop what is remembered of episodes whose rows have been made."""
        with self._lock:
            self.memory.forget(episode_ids)

    # --- parts --------------------------------------------------------------------------------
    def _check_ids(self, ids: Ids) -> None:
        """``EngineError`` for ids that mean nothing here. A generator with a tokenizer of its own
        drew them from its model's logits, which may be more than its tokenizer has ids."""
        if hasattr(self.generator, "codec") or self._vocabulary is None:
            return
        if wrong := [i for i in ids if not 0 <= i < self._vocabulary]:
            raise EngineError(
                f"{type(self.generator).__name__} gave token id {wrong[0]}, but the tokenizer of "
                f"{type(self.renderer).__name__} has 0 to {self._vocabulary - 1}: give the "
                "renderer the tokenizer of the model that the server runs"
            )

    @cached_property
    def _vocabulary(self) -> int | None:
        """One more than the highest id of the renderer's tokenizer, if it has one."""
        ask = getattr(getattr(self.renderer, "tokenizer", None), "get_vocab", None)
        return None if ask is None else max(ask().values()) + 1

    def _ends(self, text: str, ids: Ids) -> tuple[int, ...]:
        """Where in a text each of its tokens ends, by the renderer's tokenizer."""
        tokenizer = getattr(self.renderer, "tokenizer", None)
        if tokenizer is None:
            raise EngineError(
                f"{type(self.generator).__name__} gave no ends, and {type(self.renderer).__name__} "
                "has no tokenizer to find them with"
            )
        return tuple(min(end, len(text)) for end in spelt(tokenizer, ids).ends)

    def _prompt(self, request: TurnRequest) -> tuple[tuple[Ids, ...], Ids]:
        """The pieces of a prompt, and its prefill."""
        pieces = self.renderer.render(request, self.memory.at(request).ids(request))
        prefill = request.prefill
        return pieces, self.renderer.spell(request.segments, prefill).ids if prefill else ()

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

    def _generate(
        self, asked: list[GenRequest], requests: Sequence[TurnRequest], where: Sequence[int]
    ) -> list[Completion]:
        """The generator's answers; what fails is asked again before it is an error."""
        answers: list[Any] = [None] * len(asked)
        open_ = list(range(len(asked)))
        service = cast("Service[Any, Any]", self.generator)
        for _ in range(self.tries):
            if not open_:
                break
            for i, answer in zip(open_, run_batch(service, [asked[i] for i in open_]), strict=True):
                answers[i] = answer
            open_ = [i for i in open_ if isinstance(answers[i], Failure) and answers[i].retryable]
        for i, answer in enumerate(answers):
            request = requests[where[i]]
            if isinstance(answer, Failure):
                raise EngineError(
                    f"turn {request.turn} of episode {request.episode_id!r}: {answer.kind}: "
                    f"{answer.message}"
                )
        return answers


def _renderer(renderer: Renderer | str, generator: Any) -> Renderer:
    if not isinstance(renderer, str):
        return renderer
    if renderer not in RENDERERS:
        raise EngineError(f"renderer is {', '.join(RENDERERS)} or an object, got {renderer!r}")
    codec = getattr(generator, "codec", None)
    if codec is None:
        raise EngineError(
            f"{type(generator).__name__} has no tokenizer of its own: give renderer=PlainRenderer("
            "tokenizer) or ChatRenderer(tokenizer)"
        )
    return RENDERERS[renderer](codec.tokenizer)
