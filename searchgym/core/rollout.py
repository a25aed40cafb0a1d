"""Episodes played by agents: the one loop behind evaluation and training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import EpisodeError
from ..tools import Toolbox
from ..types import Agent, Failure
from .episode import Episode, run_tools


def run_episode(episode: Episode, agent: Agent, toolbox: Toolbox) -> Episode:
    """Play one episode to its end; returns it."""
    return run_episodes([episode], agent, toolbox)[0]


def run_episodes(
    episodes: Iterable[Episode],
    agent: Agent,
    toolbox: Toolbox,
    *,
    batch: int = 256,
    progress: Callable[[int], object] | None = None,
    finished: Callable[[Sequence[Episode]], object] | None = None,
) -> list[Episode]:
    """Play episodes to their ends, up to ``batch`` at a time, in lock step.

    The agent sees all open requests of a step at once and each tool runs once per step. A finished
    episode's place is taken by the next one. ``progress`` is told how many have just finished.

    Raises:
        EpisodeError: if the agent returns another number of texts than it was asked for, or
            something besides texts.
    """
    waiting = iter(episodes)
    active: list[Episode] = []
    order: list[Episode] = []
    while True:
        while len(active) < batch and (new := next(waiting, None)) is not None:
            order.append(new)
            active.append(new)
        if not active:
            return order
        if going := [e for e in active if e.phase != "done"]:  # a restored one may be over
            step(going, agent, toolbox)
        ended = [e for e in active if e.phase == "done"]
        active = [e for e in active if e.phase != "done"]
        if finished is not None and ended:
            finished(ended)
        if progress is not None and ended:
            progress(len(ended))


def step(episodes: Sequence[Episode], agent: Agent, toolbox: Toolbox) -> None:
    """One turn of every episode: one call of the agent, one of each tool."""
    requests = [request for e in episodes for request in e.requests()]
    texts: Any = agent.act(requests)
    if isinstance(texts, str) or not hasattr(texts, "__len__"):
        raise EpisodeError(
            f"the agent returned {type(texts).__name__} for {len(requests)} requests; a list of "
            "texts is needed, one for each"
        )
    if len(texts) != len(requests):
        raise EpisodeError(f"the agent returned {len(texts)} texts for {len(requests)} requests")
    for episode, text in zip(episodes, texts, strict=True):
        if isinstance(text, str):
            episode.act(text)
        elif isinstance(text, Failure):
            episode.fail(text)
        else:
            raise EpisodeError(
                f"the agent returned {type(text).__name__} for a request; a text is needed"
            )
    run_tools(episodes, toolbox)
