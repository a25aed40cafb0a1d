"""Malformed actions: thousands here, a million in the benchmarks."""

from __future__ import annotations

import pytest

from .walk import fuzz

pytestmark = pytest.mark.contract


@pytest.mark.parametrize(
    "dialect", ["search_r1", "search_r1+parallel+judge+delegate+access", "asearcher+judge+delegate",
                "json_tools+parallel", "plain", "search_r1+tools", "agentgl", "json_tools+tools",
                "plain+tools"],
)  # fmt: skip
def test_no_action_breaks_the_contract(dialect):
    counts = fuzz(dialect, actions=4_000, seed=1)
    assert counts["actions"] == 4_000
    assert counts["episodes"] > 100
    # the mutator must reach the interesting states, or this test would prove nothing
    for kind in ("Invalid", "Search", "Answer"):
        assert counts[kind] > 20, (kind, counts)
    callable_ = "tools" in dialect.split("+") or dialect == "agentgl"
    assert (counts["Call"] > 10) == callable_, counts
