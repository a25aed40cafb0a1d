"""Language models that play episodes and keep exact count of their tokens.

Trainers and servers that sample by themselves call :meth:`ExternalPolicy.ask` for the prompt,
:meth:`ExternalPolicy.remember` with the sampled tokens, and :meth:`ExternalPolicy.rows` for the
training rows. :class:`CausalLMPolicy` is the same with a generator of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Literal, cast

import numpy as np

from ..batching import retried
from ..core.episode import Episode
from ..core.trajectory import Trajectory
from ..errors import CardError, EngineError, unknown
from ..llms.base import Completion, Generator, GenRequest, Ids, Sampling, check_sampling, require
from ..objects import load_known, load_object
from ..plugins import Registry
from ..seeding import derive
from ..types import Agent, Failure, Metered, Service, TurnRequest
from .record import Memory, Written, episode_usage, turn_usage
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
        self.cast: Mapping[str, Agent] = {}
        """Role → who writes its turns in the same episodes, in place of this policy."""
        self.learners: Mapping[str, ExternalPolicy] = {}
        """Those of the cast whose turns become rows and count as usage: language models that are
        trained."""
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
        written = self._written(name)
        others = self.cast.keys() - self.learners.keys()
        return rows_of(played, written, group=group, since=since, others=others)

    def episode_usage(self, episode_id: str, *, since: int = 0) -> dict[str, float]:
        """Usage of an episode's turns from ``since`` on: tokens read and written, and how many
        turns overflowed the context or were cut by length
        (:func:`~searchgym.policies.record.turn_usage`)."""
        return episode_usage({n: w for n, w in self._written(episode_id).items() if n >= since})

    def forget(self, episode_ids: Iterable[str]) -> None:
        """Drop what is remembered of episodes whose rows have been made."""
        names = list(episode_ids)
        with self._lock:
            self.memory.forget(names)
        for who in {id(who): who for who in self.cast.values()}.values():
            if (forget := getattr(who, "forget", None)) is not None:
                forget(names)

    def _written(self, episode_id: str) -> dict[int, Written]:
        """Turn → what was read and written there, by this policy or those of its cast."""
        with self._lock:
            written = self.memory.written(episode_id)
        for who in self.learners.values():
            written |= who._written(episode_id)
        return written

    # --- parts --------------------------------------------------------------------------------
    def _check_ids(self, ids: Ids) -> None:
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
        tokenizer = getattr(self.renderer, "tokenizer", None)
        if tokenizer is None:
            raise EngineError(
                f"{self._writer} gave no ends, and {type(self.renderer).__name__} "
                "has no tokenizer to find them with"
            )
        return tuple(min(end, len(text)) for end in spelt(tokenizer, ids).ends)

    @property
    def _writer(self) -> str:
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


class CausalLMPolicy(ExternalPolicy):
    """Agent and policy over any generator that takes and gives token ids and log-probabilities.

    What is drawn depends on ``seed`` and the request (episode, context, turn), not on who else is
    in the batch: the same seed plays the same episodes. Change ``seed`` to play them otherwise.

    Args:
        generator: Needs the capabilities ``ids``, ``logp`` and ``seed``.
        renderer: See :class:`~searchgym.policies.causal_lm.ExternalPolicy`, like ``sampling``,
            ``overflow`` and ``memory``; a name needs the generator's own tokenizer.
        context: Tokens of prompt and completion; default: the generator's.
        tries: Calls of the generator before its failure is raised.

    Raises:
        EngineError: naming what the generator lacks, or failed at.
        EpisodeError: an episode holds texts that this policy has not written.
    """

    token_counter = "the model's tokenizer"

    def __init__(
        self,
        generator: Generator,
        renderer: Renderer | Mapping[str, Any] | str = "plain",
        *,
        sampling: Sampling = SAMPLING,
        seed: int = 0,
        overflow: Literal["invalid", "refuse"] = "invalid",
        context: int | None = None,
        memory: int = 65_536,
        tries: int = 2,
    ) -> None:
        require(generator, "ids", "logp", "seed")
        if tries < 1:
            raise EngineError(f"tries is ≥ 1, got {tries}")
        self.generator, self.tries = generator, tries
        codec = getattr(generator, "codec", None)
        if codec is None and isinstance(renderer, str | Mapping):
            renderer_parts(renderer)  # a wrong name is wrong with any tokenizer
            raise EngineError(
                f"{type(generator).__name__} has no tokenizer of its own: give "
                "renderer=PlainRenderer(tokenizer) or ChatRenderer(tokenizer)"
            )
        super().__init__(
            None if codec is None else codec.tokenizer,
            renderer,
            context=context or getattr(generator, "context", None),
            sampling=sampling,
            seed=seed,
            overflow=overflow,
            memory=memory,
        )
        self.refresh: Callable[[], object] | None = None
        """Function called before each batch of turns; it fetches weights that come from
        elsewhere."""

    @property
    def fingerprint(self) -> str:
        """Digest of the generator with its weights, the way it is prompted, and the seed."""
        asked = " ".join(self.prompt_format.values())
        return f"{self.generator.fingerprint} {asked} context {self.context} seed {self.seed}"

    @property
    def prompt_format(self) -> dict[str, str]:
        """Prompt format, for the record of an evaluation: renderer and overflow."""
        renderer = getattr(self.renderer, "fingerprint", type(self.renderer).__name__)
        return {"renderer": str(renderer), "overflow": self.overflow}

    @property
    def version(self) -> int:
        """Version of the weights."""
        return int(getattr(self.generator, "version", 0))

    def weights_changed(self, weights: Mapping[str, Any] | None = None) -> int:
        """Tell the generator of a training step and return the new version. ``weights``: a state
        dict for a generator that holds a copy of its own (vLLM); none for one that shares the
        trainer's model."""
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
        if any(r.role in self.cast for r in requests):
            return _by_role(requests, self, lambda who, own: who.act(own))
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
        if any(r.role in self.cast for r in requests):
            return _by_role(requests, self, lambda who, own: _sampled(who, own, sampling))
        if self.refresh is not None:
            self.refresh()
        asked = [self.ask(request, sampling) for request in requests]
        where = [i for i, ask in enumerate(asked) if isinstance(ask, GenRequest)]
        new = self._generate([a for a in asked if isinstance(a, GenRequest)], requests, where)
        answers = iter(new)
        done = [next(answers) if isinstance(a, GenRequest) else a for a in asked]
        return [self.remember(r, c) for r, c in zip(requests, done, strict=True)]

    # --- parts --------------------------------------------------------------------------------
    @property
    def _writer(self) -> str:
        return type(self.generator).__name__

    def _check_ids(self, ids: Ids) -> None:
        # a generator with a tokenizer of its own drew them from its model's logits, which may be
        # more than its tokenizer has ids
        if not hasattr(self.generator, "codec"):
            super()._check_ids(ids)

    def _generate(
        self, asked: list[GenRequest], requests: Sequence[TurnRequest], where: Sequence[int]
    ) -> list[Completion]:
        """The generator's answers; what fails is asked again before it is an error."""
        answers = retried(cast("Service[Any, Any]", self.generator), asked, self.tries - 1)
        for i, answer in enumerate(answers):
            if isinstance(answer, Failure):
                raise turn_failed(requests[where[i]], answer)
        return answers


def _by_role(
    requests: Sequence[TurnRequest],
    own: CausalLMPolicy,
    ask: Callable[[Any, list[TurnRequest]], Sequence[Any]],
) -> list[Any]:
    """Answers to requests, in order, each by whoever plays its role."""
    answers: list[Any] = [None] * len(requests)
    players = [own.cast.get(request.role, own) for request in requests]
    for who in {id(who): who for who in players}.values():
        where = [i for i, player in enumerate(players) if player is who]
        alone = [requests[i] for i in where]
        for i, answer in zip(where, ask(who, alone), strict=True):
            answers[i] = answer
    return answers


def _sampled(
    who: Any, requests: list[TurnRequest], sampling: Sampling | None
) -> Sequence[Completion]:
    """Completions of an agent; of one that is no language model the text alone."""
    if isinstance(who, CausalLMPolicy):
        return who.sample(requests, sampling)
    texts = who.act(requests)
    return [Completion(str(t), None, None, None, 0, None, "stop") for t in texts]


def turn_failed(request: TurnRequest, failure: Failure) -> EngineError:
    """Make the error of a turn for which the generator gave no text."""
    told = f"{failure.kind}: {failure.message}"
    return EngineError(f"turn {request.turn} of episode {request.episode_id!r}: {told}")
