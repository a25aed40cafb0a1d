"""Kinds of observation: an episode's text, or a chat with tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gymnasium.spaces import Space

from ..core.episode import Episode
from ..core.messages import messages_of
from ..errors import CardError, unknown
from .spaces import ChatSpace, FreeText

MAX_TEXT = 8_000_000
"""Characters of the spaces: above any ``max_chars`` plus one observation."""


class ObservationKind(NamedTuple):
    """A kind of observation."""

    space: Space[Any]
    of: Callable[[Episode], Any]
    """The observation of an episode as it stands."""


def _text(episode: Episode) -> str:
    return episode.observation(episode.contexts.active)


KINDS: dict[str, tuple[Callable[[int], Space[Any]], Callable[[Episode], Any]]] = {
    "text": (FreeText, _text),
    "messages": (ChatSpace, messages_of),
}


def view_of(kind: str) -> ObservationKind:
    """Return the space of a kind of observation and how one is made.

    Raises:
        CardError: ``kind`` is neither "text" nor "messages".
    """
    if kind not in KINDS:
        raise CardError(unknown("kind of observation", str(kind), KINDS))
    space, of = KINDS[kind]
    return ObservationKind(space(MAX_TEXT), of)
