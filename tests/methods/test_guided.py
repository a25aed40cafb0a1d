"""Episodes that a guide begins: who is trained on which turns, and from where."""

from __future__ import annotations

import numpy as np
import pytest

from searchgym.errors import CardError
from searchgym.rl import Batch, Rewards, Scored, contracts, make, pack, total, unpack
from tests.methods.trees import plans, played, workers


def test_the_policy_goes_on_from_where_the_guide_stops() -> None:
    starts = set()
    for group in contracts.check_rollout("guided", plans(12), workers()):
        guide = group.members[-1]
        assert (len(group.members), guide.purpose) == (9, "baseline")
        assert total(guide) > 0.5
        texts = [t.text for t in guide.episode.turns]
        begun = [m for m in group.members[:-1] if m.parent is not None]
        assert len(begun) == 4
        for member in begun:
            assert member.parent == 8
            assert 1 <= member.since < len(texts)
            assert [t.text for t in member.episode.turns[: member.since]] == texts[: member.since]
            assert sorted(set(member.turns.tolist())) == list(
                range(member.since, len(member.episode.turns))
            )
            starts.add(member.since)
        for member in group.members[:4]:
            assert (member.parent, member.since) == (None, 0)
    assert len(starts) > 1


def test_nothing_of_the_guides_is_trained_on() -> None:
    for group in played("guided", 6):
        earned = np.array([total(m) for m in group.members])
        batch = Batch.of([Scored(group, {}, Rewards(earned))])
        assert batch is not None
        assert len(batch) == 8
        for line, member in enumerate(batch.members):
            assert int(batch.mask[line].sum()) == member.tokens
            assert not member.unsampled
        back = unpack(group.plan, pack(group))
        assert [m.since for m in back.members] == [m.since for m in group.members]


def test_shares() -> None:
    for share, count in ((0.0, 0), (0.25, 2), (1.0, 8)):
        for group in played({"use": "guided", "share": share}):
            assert sum(m.parent is not None for m in group.members) == count
    chains = played("chains")
    for mine, theirs in zip(played({"use": "guided", "share": 0}), chains, strict=True):
        for a, b in zip(mine.members, theirs.members, strict=False):
            assert a.episode.snapshot() == b.episode.snapshot()
    with pytest.raises((ValueError, CardError), match="share in"):
        make("rollout", {"use": "guided", "share": 2})


def test_the_policy_fares_better_where_the_guide_began() -> None:
    """The laboratory's policy succeeds more often after right turns than from the question."""
    groups = played("guided", 24)
    alone = [total(m) for g in groups for m in g.members[:4]]
    begun = [total(m) for g in groups for m in g.members[4:8]]
    assert np.mean(begun) > np.mean(alone)
