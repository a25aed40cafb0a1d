"""A language model that plays episodes and keeps exact count of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from ..batching import retried
from ..errors import EngineError
from ..llms.base import Completion, Generator, GenRequest, Ids, Sampling, require
from ..types import Failure, Metered, Service, TurnRequest
from .external import RENDERERS, SAMPLING, ExternalPolicy, renderer_parts
from .record import turn_usage
from .renderer import Renderer

__all__ = ["RENDERERS", "SAMPLING", "CausalLMPolicy"]


class CausalLMPolicy(ExternalPolicy):
    """Agent and policy over any generator that takes and gives token ids and log-probabilities.

    What is drawn depends on ``seed`` and the request (episode, context, turn), not on who else is
    in the batch: the same seed plays the same episodes. Change ``seed`` to play them otherwise.

    Args:
        generator: Needs the capabilities ``ids``, ``logp`` and ``seed``.
        renderer: See :class:`~searchgym.policies.external.ExternalPolicy`, like ``sampling``,
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
        if overflow not in ("invalid", "refuse") or memory < 1 or tries < 1:
            raise EngineError(
                f"overflow is 'invalid' or 'refuse', memory and tries are ≥ 1; got {overflow!r}, "
                f"{memory}, {tries}"
            )
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
        asked = getattr(self.renderer, "fingerprint", type(self.renderer).__name__)
        return (
            f"{self.generator.fingerprint} {asked} {self.overflow} context {self.context} "
            f"seed {self.seed}"
        )

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


def turn_failed(request: TurnRequest, failure: Failure) -> EngineError:
    """Make the error of a turn for which the generator gave no text."""
    told = f"{failure.kind}: {failure.message}"
    return EngineError(f"turn {request.turn} of episode {request.episode_id!r}: {told}")
