"""Running the tool calls that episodes hand out: one batch per tool, however many episodes."""

from __future__ import annotations

from collections.abc import Sequence

from .episode import Episode
from .tools import Toolbox


def run_tools(episodes: Sequence[Episode], toolbox: Toolbox) -> None:
    """Run all pending calls of all episodes and hand the results back.

    Repeats for retries, which the episodes' rules bound. Episodes without pending calls are left
    alone and never reach a tool.
    """
    waiting = [e for e in episodes if e.phase == "receive"]
    while waiting:
        results = toolbox.run([call for e in waiting for call in e.pending])
        at = 0
        for episode in waiting:
            size = len(episode.pending)
            episode.receive(results[at : at + size])
            at += size
        waiting = [e for e in waiting if e.phase == "receive"]
