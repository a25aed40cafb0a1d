"""Published orderings that take no training: the verdicts of three seeds of each.

What is proved must come out (SLATE's variance, Dr. GRPO's missing bias); the others are what they
are, and the table says so. Orderings by training: ``make orderings``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from searchgym_agents.lab.orderings.results import measure_arm, shown
from searchgym_agents.lab.orderings.verdicts import ORDERINGS, verdict_of

from .table import show

pytestmark = pytest.mark.benchmark

PROVED = ("slate-variance", "dr-grpo-bias")
QUICK = (*PROVED, "rloo-variance", "san-gradient", "tree-grpo-finds")


def test_orderings_that_take_no_training() -> None:
    rows, verdicts = [], {}
    for name in QUICK:
        one = replace(ORDERINGS[name], seeds=3)
        pieces = {piece: measure_arm(*arm) for piece, arm in one.pieces().items()}
        verdicts[name], compared = verdict_of(one, pieces)
        rows += [(name, c.what, c.range, shown(c), c.verdict) for c in compared]
    show(
        "published orderings, three seeds",
        ("ordering", "compared", "published", "measured [95 %]", "verdict"),
        rows,
    )
    assert {verdicts[name] for name in PROVED} == {"agree"}
    assert "not measured" not in verdicts.values()
