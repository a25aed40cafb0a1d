"""Reward parts by name: what ``reward="f1"`` means."""

from __future__ import annotations

from collections.abc import Mapping

_HERE = "searchgym.rewards."
TURN = ("search", "access", "call", "invalid", "evidence")
"""Parts of turns that every episode measures, whatever its reward pays for."""
FINAL = ("em", "f1", "cover_em", "format")
"""Parts of the end that every episode measures."""
PUBLIC = frozenset({"search", "access", "call", "invalid"})
"""Parts that say nothing which the action does not say itself."""
REWARDS: Mapping[str, str] = {
    **{name: f"{_HERE}turns:{name}" for name in (*TURN, "answer_in_results")},
    **{name: f"{_HERE}answers:{name}" for name in FINAL},
}
"""Name → import path. Others are named by their own path, or entered here."""
