"""Token ids to text and back: character ends, stop strings. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_PARTIAL = "\ufffd"
"""Character that decoders write for bytes that are no whole character (yet)."""
_CONTEXT = 6
"""Prompt tokens decoded along: some tokenizers drop a text's first space."""


class Reader:
    """Decodes tokens one at a time so that pieces join to what decoding them together gives.

    A window of tokens is decoded twice, without and with the newest; it moves on when the new text
    holds whole characters only (a character may take several byte-level tokens).
    """

    def __init__(self, decode: Callable[[list[int]], str], prompt: Sequence[int] = ()) -> None:
        self._decode = decode
        self._window = [int(i) for i in prompt[-_CONTEXT:]]
        self._read = len(self._window)
        self._before = decode(self._window) if self._window else ""
        if self._before.endswith(_PARTIAL):  # a prompt cut inside a character cannot help
            self._window, self._read, self._before = [], 0, ""
        self.text = ""
        self.ends: list[int] = []
        """Character end of each token added."""

    def add(self, token: int) -> None:
        self._window.append(int(token))
        now = self._decode(self._window)
        if len(now) > len(self._before) and not now.endswith(_PARTIAL):
            self._advance(now)
        self.ends.append(len(self.text))

    def silent(self) -> None:
        """A token without text (end of sequence): what is pending is final."""
        self.finish()
        self.ends.append(len(self.text))

    def finish(self) -> str:
        """The whole text; bytes that never became a character stay as replacement characters."""
        if self._read < len(self._window):
            now = self._decode(self._window)
            if len(now) > len(self._before):
                self._advance(now)
                if self.ends:
                    self.ends[-1] = len(self.text)
        return self.text

    def _advance(self, now: str) -> None:
        self.text += now[len(self._before) :]
        self._window = self._window[self._read :]
        self._read = len(self._window)
        self._before = self._decode(self._window)


def stop_end(text: str, stops: Sequence[str], start: int = 0) -> int | None:
    """End of the first complete stop string from ``start`` on; ``None`` if there is none."""
    ends = [at + len(stop) for stop in stops if (at := text.find(stop, start)) >= 0]
    return min(ends, default=None)


def cut(ends: Sequence[int], end: int) -> tuple[int, tuple[int, ...]]:
    """Tokens to keep so that ``text[:end]`` is covered, and their ends, clipped.

    The token ``end`` falls into is kept whole; tokens wholly past it are not.
    """
    keep = next((i + 1 for i, e in enumerate(ends) if e >= end), len(ends))
    return keep, tuple(min(e, end) for e in ends[:keep])
