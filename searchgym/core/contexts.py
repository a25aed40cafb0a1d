"""Segments of an episode's contexts: their texts, authors and visibility.

Mostly append-only, but methods edit contexts: a judged observation is hidden, a page shrinks to a
stub, an executor works in a context of its own. Nothing is ever removed from the record.
"""

from __future__ import annotations

from typing import Literal

from ..types import Hit, Segment


class Contexts:
    """A stack of contexts (0 at the bottom) and all segments in the order they were written."""

    __slots__ = ("_ids", "_roles", "_stack", "_stubs", "_text", "_where", "chars", "segments")

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.chars = 0
        """Characters of all segments ever written."""
        self._where: list[list[int]] = []  # context -> positions in segments
        self._roles: list[str] = []
        self._stack: list[int] = []
        self._text: list[str | None] = []  # rendered visible text; None: must be rebuilt
        self._ids: list[list[str] | None] = []
        self._stubs: dict[int, str] = {}  # position of a page -> the stub that will replace it

    @property
    def active(self) -> int:
        """The context whose turn it is."""
        return self._stack[-1]

    def role(self, context: int) -> str:
        return self._roles[context]

    def open(self, role: str) -> None:
        """Begin a new context and make it the active one."""
        self._stack.append(len(self._roles))
        self._roles.append(role)
        self._where.append([])
        self._text.append("")
        self._ids.append([])

    def close(self) -> None:
        """Return to the context below."""
        self._stack.pop()

    def add(
        self,
        author: Literal["env", "policy"],
        kind: str,
        text: str,
        hits: tuple[Hit, ...] = (),
        stub: str | None = None,
        asked: str = "",
    ) -> None:
        """Append a segment to the active context. ``stub`` replaces it once it has been read."""
        context, position = self._stack[-1], len(self.segments)
        segment_id = f"s{position}"
        self.segments.append(Segment(segment_id, context, author, kind, (text,), True, hits, asked))
        self._where[context].append(position)
        self.chars += len(text)
        rendered, ids = self._text[context], self._ids[context]
        if rendered is not None and ids is not None:
            self._text[context] = rendered + text
            ids.append(segment_id)
        if stub is not None:
            self._stubs[position] = stub

    def visible(self, context: int) -> tuple[Segment, ...]:
        segments = self.segments
        return tuple(s for i in self._where[context] if (s := segments[i]).visible)

    def visible_ids(self, context: int) -> tuple[str, ...]:
        if (ids := self._ids[context]) is None:
            ids = self._ids[context] = [s.id for s in self.visible(context)]
        return tuple(ids)

    def render(self, context: int) -> str:
        if (text := self._text[context]) is None:
            text = self._text[context] = "".join(s.text for s in self.visible(context))
        return text

    def _hide(self, position: int) -> None:
        segment = self.segments[position]
        self.segments[position] = segment._replace(visible=False)
        self._text[segment.context] = self._ids[segment.context] = None

    def newest_results(self) -> int | None:
        """Position of the active context's newest visible observation of a tool, if any."""
        for position in reversed(self._where[self._stack[-1]]):
            segment = self.segments[position]
            if segment.visible and segment.kind in ("results", "page"):
                return position
        return None

    def hide_newest_results(self) -> None:
        """Hide what :meth:`newest_results` names; it stays in the record."""
        if (position := self.newest_results()) is not None:
            self._hide(position)

    def retire_pages(self) -> None:
        """Replace pages that the policy has read for one turn by their stubs, in place."""
        if not self._stubs:
            return
        for position, stub in list(self._stubs.items()):
            segment = self.segments[position]
            if not segment.visible:
                del self._stubs[position]
            elif self._answered_since(position):
                del self._stubs[position]
                self._hide(position)
                self._insert_stub(position, segment, stub)

    def _answered_since(self, position: int) -> bool:
        """Check whether the policy has written in this context after the segment."""
        context = self.segments[position].context
        return any(
            self.segments[i].author == "policy" for i in self._where[context] if i > position
        )

    def _insert_stub(self, position: int, page: Segment, stub: str) -> None:
        new = len(self.segments)
        self.segments.append(Segment(f"s{new}", page.context, "env", "stub", (stub,), True, ()))
        self.chars += len(stub)
        order = self._where[page.context]
        order.insert(order.index(position) + 1, new)
        self._text[page.context] = self._ids[page.context] = None


def cut_hits(hits: tuple[Hit, ...], limit: int | None) -> tuple[Hit, ...]:
    """Hits with texts of at most ``limit`` characters; the same tuple if none is longer."""
    if limit is None:
        return hits
    for hit in hits:
        if len(hit.passage.text) > limit:
            return tuple(
                Hit(h.passage._replace(text=h.passage.text[:limit]), h.score) for h in hits
            )
    return hits
