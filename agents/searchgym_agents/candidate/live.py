"""Progress of a candidate training, noted in a small file while it goes on: for live pages."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

ENDING = ".live.json"
EVERY_S = 1.0
"""Seconds between two notes; an evaluation is noted at once."""


class LiveNote:
    """Keeps ``path`` up to date: ``what`` is being done, the ``fraction`` of the run that is done,
    ``curve`` (the evaluations so far), and the ``seconds`` since the first update.

    A note that cannot be written (a full disk) is left out: training does not depend on it.
    """

    def __init__(self, path: Path, curve: list[Mapping[str, float]] | None = None) -> None:
        self.path = path
        self.curve = [dict(point) for point in curve or ()]
        self._noted, self._began = 0.0, time.monotonic()
        self._first: float | None = None

    def __call__(self, what: str, fraction: float, point: Mapping[str, float] | None) -> None:
        """Take in a report of :class:`CandidateTrainer`."""
        now = time.monotonic()
        if point is not None:
            self.curve.append(dict(point))
        if self._first is None and fraction > 0:
            self._first, self._began = fraction, now
        if point is None and now - self._noted < EVERY_S:
            return
        self._noted = now
        done = fraction - (self._first or 0.0)
        left = (now - self._began) / done * (1 - fraction) if done > 0 else None
        value = {"what": what, "fraction": fraction, "left_s": left, "curve": self.curve}
        partial = self.path.with_name(self.path.name + ".part")
        try:
            partial.write_text(json.dumps(value), encoding="utf-8")
            os.replace(partial, self.path)
        except OSError:
            partial.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the note: what it said is in the trained agent."""
        self.path.unlink(missing_ok=True)
