"""Signal: the noise that an episode was played under."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import Group, Signals, Workers


class Noise(Slot):
    """``noise``: (M,) the episode's difficulty parameter of that name; 0 without one."""

    registered = "noise"
    provides = frozenset({"noise"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [
            {"noise": np.array([m.episode.config.params.get("noise", 0.0) for m in g.members])}
            for g in groups
        ]
