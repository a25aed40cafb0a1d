"""Signal: the length of the policy's text in an episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..slots.protocols import Slot
from ..slots.records import Group, Signals, Workers


class Length(Slot):
    """``length``: sampled tokens of all turns together."""

    registered = "length"
    provides = frozenset({"length"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [{"length": np.array([float(m.tokens) for m in g.members])} for g in groups]
