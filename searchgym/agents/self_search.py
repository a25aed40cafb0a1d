"""A language model that plays self-search episodes, with or without a real engine in its texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dialects.base import get_dialect
from ..errors import EngineError, EpisodeError
from ..llms.base import Generator
from ..seeding import derive
from ..types import Failure, SearchEngine, TurnRequest
from .sim_to_real import Grounded, Prompt, SimToReal


class SelfSearchAgent:
    """Answers the requests of ``engine="self"`` environments.

    Without ``engine`` the policy writes its own results; with one, the searches that ``real`` names
    are answered by it (sim-to-real). Stateless: what is drawn depends on ``seed`` and the request.

    Args:
        generator: Any text generator.
        engine: Any search engine; None: self-search alone.
        seed: Seed of the draws.
        options: Options of :class:`searchgym.agents.sim_to_real.SimToReal`.

    Raises:
        EngineError: impossible options, or an engine that must be told the task.
    """

    def __init__(
        self,
        generator: Generator,
        engine: SearchEngine | None = None,
        *,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if engine is not None and engine.needs_task:
            raise EngineError(
                f"{type(engine).__name__} must be told the task, which no agent is; use another "
                "engine, or searchgym.agents.sim_to_real.SimToReal with Prompt(…, task=task)"
            )
        options.setdefault("real", 0 if engine is None else "all")
        self.writer = SimToReal(generator, engine, **options)
        self.seed = seed
        self.sampling = self.writer.sampling

    @property
    def fingerprint(self) -> str:
        """Model, engine and everything else that changes the texts."""
        return f"{self.writer.fingerprint} seed {self.seed}"

    def ground(self, requests: Sequence[TurnRequest], /) -> list[Grounded]:
        """The texts with what is known of their searches.

        Raises:
            EpisodeError: a request of another mode.
            EngineError: the generator or the engine failed, retries included.
        """
        for request in requests:
            if not getattr(get_dialect(request.dialect), "self_search", False):
                raise EpisodeError(
                    f"this agent plays self-search episodes, got dialect {request.dialect!r}; make "
                    "the environment with engine='self'"
                )
        prompts = [
            Prompt(
                "".join(s.text for s in request.segments) + request.prefill,
                derive(self.seed, "self-search-agent", request.episode_id, request.turn),
                request.episode_id,
            )
            for request in requests
        ]
        done: list[Grounded] = []
        for request, reply in zip(requests, self.writer.run(prompts), strict=True):
            if isinstance(reply, Failure):
                raise EngineError(
                    f"episode {request.episode_id}: {reply.kind} after retries: {reply.message}"
                )
            done.append(reply)
        return done

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """One whole text per request; raises as :meth:`ground`."""
        return [made.text for made in self.ground(requests)]
