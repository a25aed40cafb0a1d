"""Signal: the policy's likelihood of the answer that it will give, before each of its turns."""

from __future__ import annotations

from ..slots.records import Played
from .gold import GoldLogp


class OwnLogp(GoldLogp):
    """``own_logp``: (M, K) as ``gold_logp``, of the member's own final answer: how sure it was of
    it before each turn, without being told what is right (SubSearch, arXiv 2604.07415). NaN for an
    episode without an answer.
    """

    registered = "own_logp"
    by_turn = frozenset({"own_logp"})
    provides = frozenset({"own_logp"})

    def target(self, member: Played) -> str | None:
        outcome = member.episode.outcome()
        return (outcome.answer or None) if outcome is not None else None
