"""Worked numbers of the rewards that compare a group's members, and of the weights that follow
slopes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from searchgym.core.episode import Episode
from searchgym.errors import CardError
from searchgym.rl.rewards.ada_search import AdaSearch
from searchgym.rl.rewards.bounded import ClipTurns, DeltaTurns
from searchgym.rl.rewards.saas import Saas
from searchgym.rl.rewards.trace import SearchTrace
from searchgym.rl.rollouts.half_closed import HalfClosed, closed_book
from searchgym.rl.schedules.by_metric import ByMetric
from searchgym.rl.schedules.slope_weights import SlopeWeights, slope_weights
from searchgym.rl.slots.records import Group, Played, Rewards, TaskPlan, Workers
from tests.rl.colours import TASKS as COLOURS
from tests.rl.colours import player, setting
from tests.small import TASKS, episode, play

SEARCHES = ("founded", "painter", "town", "river", "Osten", "Trap")


def member(right: bool, searches: Sequence[str], *, closed: bool = False) -> Played:
    """An episode with such searches, each a turn."""
    e: Episode = episode(search_enabled=not closed, max_turns=9, max_parallel=3,
                         dialect="search_r1+parallel")  # fmt: skip
    texts = [f"<search>{query}</search>" for query in searches]
    play(e, *texts, f"<answer>{'Quell' if right else 'x'}</answer>")
    return Played(e, ())


def applied(transform: object, *members: Played, base: bool = True) -> list[float]:
    """What it makes of the members' exact match, or of nothing."""
    em = np.array([float(m.episode.outcome().em) for m in members])  # type: ignore[union-attr]
    searches = np.array([float(m.episode.queries) for m in members])
    group = Group(TaskPlan(TASKS[0], "g", 0), members)
    start = Rewards(em if base else np.zeros(len(em)))
    found = transform.apply(group, {"em": em, "searches": searches}, start, {})  # type: ignore[attr-defined]
    return [round(float(value), 9) for value in found.outcome]


def test_saas() -> None:
    known = [member(True, (), closed=True), member(True, (), closed=True)]
    unknown = [member(False, (), closed=True), member(True, (), closed=True)]
    three, wrong = member(True, SEARCHES[:3]), member(False, SEARCHES[:3])
    assert applied(Saas(), *known, three, wrong) == [1, 1, 0.85, 0]
    two, four = member(True, SEARCHES[:2]), member(True, SEARCHES[:4])
    assert applied(Saas(), *unknown, two, four, wrong) == [0, 1, 1, 0.9, 0], "middling"
    assert applied(Saas(), unknown[0], wrong, wrong) == [0, 0, 0], "hard"
    twice = member(False, ("founded", "Founded "))
    assert applied(Saas(), unknown[0], wrong, twice) == [0, 0, -0.1]


def test_ada_search() -> None:
    known = [member(True, (), closed=True), member(False, (), closed=True)]
    unknown = [member(False, (), closed=True)] * 2
    plain, searching = member(True, ()), member(True, SEARCHES[:1])
    assert applied(AdaSearch(), *known, plain, searching) == [1, 0, 1.5, 1]
    assert applied(AdaSearch(), *unknown, plain, searching) == [0, 0, 1, 1.5]
    assert applied(AdaSearch(), plain, searching) == [1, 1.5], "nobody tried without"


def test_traces_table() -> None:
    made = SearchTrace()
    keys = [(1, 2), (2, 4), (3, 6), (4, 4), (1, 1), (2, 2), (4, 4), (0, 0)]
    right = [True] * 4 + [False] * 3 + [True]
    got = made.bonus(keys, right, (2, 4))
    assert got == pytest.approx([0.2, 0.05, -0.02, -0.1, -0.1, 0, -0.1, 0])
    assert made.bonus([(2, 2)], [True], (2, 2)) == pytest.approx([0.2])


def test_traces_reference_only_tightens() -> None:
    made = SearchTrace()
    two, one = member(True, SEARCHES[:2]), member(True, SEARCHES[:1])
    assert applied(made, two, base=False) == [1.2], "a good one alone, at the task's two hops"
    assert made.references == {"t1": (2, 2)}
    assert applied(made, two, one, base=False) == [1.05, 1.2]
    assert made.references == {"t1": (1, 1)}
    assert applied(made, two, base=False) == [0.98]
    assert made.references == {"t1": (1, 1)}
    again = SearchTrace()
    again.load_state_dict(made.state_dict())
    assert again.references == made.references
    lost = play(episode(max_turns=1), "hm")
    assert applied(made, Played(lost, ()), base=False) == [-0.5]


def test_clip_and_delta() -> None:
    turns = np.array([[0.5, 0.0, 1.0, 0.25], [1.0, 0.25, np.nan, np.nan], [0.5] + [np.nan] * 3])
    group = Group(TaskPlan(TASKS[0], "g", 0), ())
    start = Rewards(np.zeros(3), turns)
    clipped = ClipTurns(0.5).apply(group, {}, start, {}).turns
    assert clipped is not None
    assert np.nanmax(clipped) <= 0
    assert clipped[0].tolist() == [0, -0.5, 0, -0.25]
    delta = DeltaTurns().apply(group, {}, start, {}).turns
    assert delta is not None
    assert delta[0].tolist() == [0.5, -1.0, 1.0, 0.0]
    assert np.nansum(delta, 1).tolist() == [0.5, 1.0, 0.0], "the first of those before the last"
    assert np.isnan(delta).tolist() == np.isnan(turns).tolist()


def test_slope_weights() -> None:
    assert slope_weights([0.02, 0, -0.01], 0.02) == pytest.approx([0.366, 0.994, 1.640], abs=1e-3)
    assert slope_weights([0.3] * 3, 2) == pytest.approx([1, 1, 1])
    made = SlopeWeights(["f1", "em"], window=3, momentum=0.0)
    assert made.coef(0, {}) == {"w_f1": 1, "w_em": 1}
    for step in range(1, 5):
        found = made.coef(step, {"rewards/f1": 0.1 * step, "rewards/em": 0.5})
    assert found["w_f1"] < 1 < found["w_em"]
    assert sum(found.values()) == pytest.approx(2)
    again = SlopeWeights(["f1", "em"], window=3, momentum=0.0)
    again.load_state_dict(made.state_dict())
    later = {"rewards/f1": 0.2, "rewards/em": 0.6}
    assert again.coef(5, later) == made.coef(5, later)


def test_half_of_a_group_may_not_search() -> None:
    lm, policy = player(4)
    plan = TaskPlan(COLOURS[0], "0.0", 0)
    (group,) = HalfClosed(4, 2).collect([plan], Workers(policy, setting(), lm))
    assert [closed_book(m) for m in group.members] == [True, True, False, False]
    assert [m.episode.queries for m in group.members[:2]] == [0, 0]
    with pytest.raises(ValueError, match="between 1 and size"):
        HalfClosed(4, 4)


def test_a_coefficient_follows_a_metric() -> None:
    made = ByMetric("kl", "em", [[0.2, 0.0], [0.6, 1.0]], start=0.5, momentum=0.0)
    assert made.coef(0, {}) == {"kl": 0.5}
    found = [made.coef(1, {"em": em})["kl"] for em in (0.1, 0.3, 0.4, 0.9, float("nan"))]
    assert found == pytest.approx([0, 0.25, 0.5, 1, 1])
    slow, again = ByMetric(momentum=0.5), ByMetric(momentum=0.5)
    assert slow.coef(1, {"em": 0.0}) == {"entropy": 0.0}
    again.load_state_dict(slow.state_dict())
    assert again.coef(2, {"em": 1.0}) == slow.coef(2, {"em": 1.0}) == {"entropy": 0.5}
    with pytest.raises(CardError, match=r"unknown metric of this run 'em'.*reward"):
        ByMetric().coef(1, {"reward": 1.0})
    with pytest.raises(ValueError, match="by growing metric"):
        ByMetric(points=[[1, 0], [0, 1]])
