"""Facts of a generated world that an agent has been shown, and so may state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..envs.search import SearchEnv
from ..types import Segment
from .hops import Hop


class Eyes:
    """Reads facts off search results; where pages can be opened, off opened pages only: results
    are then for choosing a page."""

    def __init__(self, made: SearchEnv) -> None:
        self._corpus = made.corpus
        self._opens = "access" in made.toolbox.tools

    def read(self, hops: Sequence[Hop], observed: Sequence[Segment]) -> int:
        """Count the hops, from the first, that can be read off what was observed."""
        shown = self.lengths(hops, observed)
        return next((i for i, h in enumerate(hops) if shown.get(h.passage, -1) < h.end), len(hops))

    def lengths(self, hops: Sequence[Hop], observed: Sequence[Segment]) -> Mapping[str, int]:
        """Characters shown of each passage, by its id; of opened pages, those of the hops."""
        if not self._opens:
            return {hit.passage.id: len(hit.passage.text) for s in observed for hit in s.hits}
        pages = [s.text for s in observed if s.kind == "page"]
        passages = {hop.passage: self._corpus.passage(hop.passage).text for hop in hops}
        return {p: len(t) for p, t in passages.items() if any(t in page for page in pages)}

    def to_open(self, hop: Hop, observed: Sequence[Segment]) -> str:
        """Title of the page that states a hop, if the newest results list it; else nothing."""
        if not self._opens or not observed:
            return ""
        hits = {hit.passage.id: hit.passage.title for hit in observed[-1].hits}
        return hits.get(hop.passage, "")


def observations(segments: Sequence[Segment]) -> list[Segment]:
    """Results and opened pages, in order."""
    return [s for s in segments if s.hits or s.kind == "page"]
