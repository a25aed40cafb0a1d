"""Copies and records of an episode: its config and the log of its inputs, played again.

An episode is determined by its config and the texts and results that it took, so fork, snapshot,
resume and golden replay are one mechanism. They are called as methods of ``Episode``, which say
what the arguments mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..errors import EpisodeError
from ..seeding import derive
from ..storage.records import events_from_json, events_to_json
from ..utils.trust import registered_only
from .rules import EpisodeConfig
from .state import EpisodeState

SNAPSHOT_VERSION = 1
E = TypeVar("E", bound=EpisodeState)
"""``Episode``, whose methods these functions are."""


def fork(episode: E, at: int | None, branch: int | None) -> E:
    """Copy an episode after its first ``at`` turns (:meth:`Episode.fork`)."""
    at, config = config_of_fork(episode, at, branch)
    copy = type(episode)(config, parent=(episode.config.episode_id, at))
    _replay(copy, episode.events, turns=at)
    return copy


def config_of_fork(
    episode: EpisodeState, at: int | None, branch: int | None
) -> tuple[int, EpisodeConfig]:
    """Return the turns that a fork copies and its config.

    Raises:
        EpisodeError: the episode has no such turn, or ``branch`` is less than 1.
    """
    turns = len(episode.turns)
    at = turns if at is None else at
    if not 0 <= at <= turns:
        raise EpisodeError(f"cannot fork at turn {at} of an episode with {turns}")
    own = config = episode.config
    if branch is not None:
        if branch < 1:
            raise EpisodeError(f"a branch is numbered from 1, got {branch}")
        number = derive(own.branch, "fork", branch) if own.branch else branch
        config = replace(own, branch=number, episode_id=f"{own.episode_id}~{branch}")
    return at, config


def snapshot(episode: EpisodeState) -> dict[str, Any]:
    """Return config and log as JSON values (:meth:`Episode.snapshot`)."""
    return {
        "version": SNAPSHOT_VERSION,
        "config": episode.config.to_json(),
        "events": events_to_json(episode.events),
        "parent": list(episode.parent) if episode.parent else None,
    }


def restore(
    cls: type[E],
    snapshot: Mapping[str, Any],
    *,
    trust: bool,
    **own: Any,
) -> E:
    """Replay the episode a snapshot was taken of (:meth:`Episode.restore`)."""
    if not isinstance(snapshot, Mapping):
        raise EpisodeError(
            "a snapshot is a table, as snapshot() returns it or json.loads reads it, got "
            f"{type(snapshot).__name__}: {snapshot!r:.80}"
        )
    if snapshot.get("version") != SNAPSHOT_VERSION:
        raise EpisodeError(
            f"snapshot version {snapshot.get('version')!r}, expected {SNAPSHOT_VERSION}"
        )
    if missing := sorted({"config", "events"} - set(snapshot)):
        raise EpisodeError(f"the snapshot has no {missing[0]!r}: it is not whole")
    parent = snapshot.get("parent")
    with registered_only("this snapshot", trust=trust):
        try:
            config = EpisodeConfig.from_json(snapshot["config"], trust=trust, **own)
            events = events_from_json(snapshot["events"])
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise EpisodeError(
                f"the snapshot holds values that snapshot() does not write ({error!r:.200})"
            ) from error
        episode = cls(config, parent=tuple(parent) if parent else None)
        _replay(episode, events)
    return episode


def _replay(episode: Any, events: Sequence[tuple[Any, ...]], turns: int | None = None) -> None:
    """Feed logged inputs to an episode, until it has so many turns."""
    for event in events:
        reached = turns is not None and len(episode.turns) >= turns
        if reached and event[0] not in ("receive", "amend"):
            return
        if event[0] == "act":
            episode.act(event[2], context=event[1])
        elif event[0] == "fail":
            episode.fail(*event[1])
        elif event[0] == "amend":
            episode.amend(*event[1:])
        else:
            episode.receive(event[1])
