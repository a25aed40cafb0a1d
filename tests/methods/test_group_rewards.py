"""Worked numbers of the rewards that compare a group's members, and of the weights that follow
slopes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from searchgym.core import Episode
from searchgym.curricula import make_schedule
from searchgym.errors import CardError
from searchgym.rl import Floats, Group, Played, Rewards, TaskPlan, Workers
from searchgym_agents.methods.adasearch import AdaSearch
from searchgym_agents.methods.clip_delta import ClipTurns, DeltaTurns
from searchgym_agents.methods.dw_grpo import SlopeWeights, slope_weights
from searchgym_agents.methods.hypereyes import SearchTrace
from searchgym_agents.methods.saas import HalfClosed, Saas, closed_book
from searchgym_agents.methods.subsearch import SubSearch, answerability, decomposition, searches
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
    wide = member(True, ["founded ## painter ## town"])
    assert made.references == {"t1": (1, 1)}
    made.references = {"t1": (3, 3)}
    assert applied(made, wide, member(True, SEARCHES[:3]), base=False) == [1.2, 1.05]
    assert made.references == {"t1": (1, 3)}, "an episode that there was, of three queries at once"
    assert applied(made, wide, two, member(False, SEARCHES[:3]), base=False) == [1.2, 0.98, -0.1]
    again = SearchTrace()
    again.load_state_dict(made.state_dict())
    assert again.references == made.references
    lost = play(episode(max_turns=1), "hm")
    assert applied(made, Played(lost, ()), base=False) == [-0.5]


# --- SubSearch --------------------------------------------------------------------------------
def cosines(*vectors: Sequence[float]) -> Floats:
    """(N, N) cosines of vectors of any lengths."""
    table = np.array(vectors, float)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    made: Floats = table @ table.T
    return made


def test_subsearchs_decomposition() -> None:
    """The question (.6, .8) and the axes, which share nothing and cover it together."""
    table = cosines((0.6, 0.8), (1, 0), (0, 1))
    together = 0.5 * 1.4 / 2**0.5 + 0.5 * 0.7
    assert decomposition(table, 0, [[1, 2]]) == pytest.approx(together)
    assert decomposition(table, 0, [[1, 1]]) == pytest.approx(0.5 * 0.6), "twice the same"
    assert decomposition(table, 0, [[0]]) == 0, "the question itself"
    assert decomposition(table, 0, [[2]]) == pytest.approx(1 - 0.05 / 0.15)
    assert decomposition(table, 0, [[1, 2], [0]]) == pytest.approx(together / 2)
    for near, worth in {0.85: 1, 0.775: 0.5, 0.925: 0.5, 0.7: 0, 0.1: 0}.items():
        one = np.array([[1, near], [near, 1]])
        assert decomposition(one, 0, [[1]]) == pytest.approx(worth)
    opposite = cosines((0, 1), (1, 0), (-1, 0))
    assert decomposition(opposite, 0, [[1, 2]]) == 0, "parts whose sum has no direction"
    assert decomposition(table, 0, []) == 0


def test_subsearchs_answerability() -> None:
    """Documents of a sub-query, then sub-queries, then searches."""
    table = cosines((1, 0), (0.6, 0.8), (0, 1))
    assert answerability(table, [[(0, [1, 2])]]) == pytest.approx(0.3)
    assert answerability(table, [[(0, [1, 2]), (2, [1])]]) == pytest.approx(0.55)
    assert answerability(table, [[(0, [0])], [(0, [2]), (0, [])]]) == pytest.approx(0.5)
    assert answerability(table, []) == 0


def test_subsearchs_form() -> None:
    made = SubSearch(encoder=None)

    def paid(reward: float, *texts: str) -> float:
        e = episode(max_turns=len(texts), dialect="search_r1")
        return made.formed(play(e, *texts), reward)

    shows, nothing, think = "<search>painter</search>", "<search>river</search>", "<think>t</think>"
    answer = "<answer>x</answer>"
    for texts, hit in (([think + shows], 0.1), ([think + nothing], 0.0), ([], 0.0)):
        texts = [*texts, think + answer]
        assert paid(0.15, *texts) == pytest.approx(0.15 + hit)
        assert paid(0.0, *texts) == paid(-0.1, *texts) == pytest.approx(0.2 + hit)
        assert paid(0.95, *texts) == pytest.approx(min(1.0, 0.95 + hit))
    assert paid(1.0, nothing, answer) == 0.8
    assert paid(0.25, nothing, answer) == pytest.approx(0.05)
    assert paid(0.15, nothing, answer) == 0, "a little worth is less than none"
    assert paid(0.0, nothing, answer) == 0.1
    assert paid(0.15, think + shows, think + shows) == 0, "no answer"


def test_subsearchs_weight() -> None:
    beta = make_schedule({"kind": "eased_cosine", "start": 0.2, "middle": 0.15, "end": 0.02,
                          "warmup": 200, "decay": 2000, "power": 1.5})  # fmt: skip
    want = {0: 0.2, 50: 0.19375, 100: 0.2 - 0.05 * 0.125**0.5, 200: 0.15, 1200: 0.085, 2200: 0.02,
            9000: 0.02}  # fmt: skip
    for step, value in want.items():
        assert beta(step) == pytest.approx(value)
    with pytest.raises(CardError, match="warmup, decay and power > 0"):
        make_schedule({"kind": "eased_cosine", "start": 1, "middle": 1, "end": 0, "warmup": 0,
                       "decay": 9})  # fmt: skip
    made = SubSearch(encoder=None)
    assert made.gated(0.15, 0.0) == pytest.approx(0.15 + 0.2 * 0.65 * 0.05), "low, and at rest"
    assert made.gated(0.15, 1.0) == 0.15, "it moves: .02"
    assert made.gated(0.05, 0.0) == pytest.approx(0.06), "a rise of .0004, at most .01"
    made.load_state_dict({"mean": 0.9})
    assert made.gated(0.15, 1.0) == pytest.approx(0.15 - 0.2 * 0.252 * 0.13), "high, and rising"
    assert made.gated(0.15, 0.0) == 0.15
    again = SubSearch(encoder=None)
    again.load_state_dict(made.state_dict())
    assert again.mean == made.mean
    with pytest.raises(ValueError, match="least ≤ beta"):
        SubSearch(beta=0.01)


@pytest.mark.parametrize(
    "encoder", [None, pytest.param("all-MiniLM-L6-v2", marks=pytest.mark.contract)]
)
def test_subsearch_pays_wrong_answers_for_their_searches(encoder: str | None) -> None:
    if encoder:
        pytest.importorskip("sentence_transformers")
    made = SubSearch(encoder=encoder, structure=0.0, retrieval=0.0, answered=0.0)
    question = TASKS[0].question
    two = member(False, ["founded ## painter"])
    members = [member(False, ()), member(True, SEARCHES[:2]), two, member(False, [question])]
    worths = made.worths([m.episode for m in members])
    assert worths[0] == 0
    assert min(worths[1:]) > 0
    (((first, shown), (second, others)),) = searches(two.episode, 3)
    texts = [question, first, second, *(f"{p.title}\n{p.text}" for p in (*shown, *others))]
    table, middle, end = made.alike(texts), 3 + len(shown), len(texts)
    answers = table[1, 3:middle].mean() / 2 + table[2, middle:end].mean() / 2
    assert worths[2] == pytest.approx(0.5 * answers + 0.5 * decomposition(table, 0, [[1, 2]]))
    assert applied(made, *members, base=False) == pytest.approx(
        [0, 1, 0.2 * worths[2], 0.2 * worths[3]], abs=2e-8
    )
    lower = SubSearch(encoder=encoder, structure=0.0, retrieval=0.0, answered=0.0, rate=0.0)
    em = np.array([0.0, 1.0, 0.0, 0.0])
    group = Group(TaskPlan(TASKS[0], "g", 0), tuple(members))
    paid = lower.apply(group, {"em": em}, Rewards(np.zeros(4)), {"subsearch": 0.05}).outcome
    assert paid == pytest.approx([0, 1, 0.05 * worths[2], 0.05 * worths[3]])


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
