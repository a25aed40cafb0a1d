"""Tree search and what is learnt from its trees: worked numbers, and properties on trees that are
really grown, in the laboratory's questions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.errors import CardError
from searchgym.rl import (
    Batch,
    Group,
    Mcts,
    Recipe,
    Rewards,
    Scored,
    SearchNode,
    TaskPlan,
    TurnTree,
    Workers,
    backed_up,
    contracts,
    make,
    path,
    read,
    total,
)
from searchgym_agents.methods.rest_mcts import StepQuality, ValuedMcts, qualities, steps
from tests.methods.trees import forest, plans, played, workers
from tests.methods.trees import path as turns_of
from tests.rl import lookup

pytestmark = pytest.mark.contract


def node(state: tuple[int, int], visits: int, total: float, *children: SearchNode) -> SearchNode:
    return SearchNode(state, visits, total, list(children), ended=not children)


# --- the search -----------------------------------------------------------------------------------
def test_the_bound() -> None:
    rule = Mcts(width=2)
    root = node((-1, 0), 4, 1.0)
    seldom, often = node((0, 1), 1, 0.0), node((1, 1), 3, 1.0)
    assert rule.bound(seldom, root) == pytest.approx(math.sqrt(2 * math.log(4)))  # 1.6651
    assert rule.bound(often, root) == pytest.approx(
        1 / 3 + math.sqrt(2 * math.log(4) / 3)
    )  # 1.2947
    assert Mcts(explore=0).bound(often, root) == pytest.approx(1 / 3)


def test_the_walk() -> None:
    """To the better child, or to the one seldom visited; past what is ended or full."""
    good = node((0, 1), 3, 3.0, node((0, 2), 1, 1.0), node((2, 2), 2, 2.0, node((2, 3), 1, 1.0)))
    rare = node((1, 1), 1, 0.0, node((1, 2), 1, 0.0))
    root = node((-1, 0), 4, 3.0, good, rare)
    greedy = Mcts(width=2, explore=0).select(root)
    assert greedy is not None
    assert greedy.state == (2, 2), "its sibling has ended"
    curious = Mcts(width=2, explore=9).select(root)
    assert curious is rare, "it has one child"
    assert Mcts(width=2).select(node((-1, 0), 1, 0.0, node((0, 1), 1, 0.0))) is None


def test_a_search_is_whole() -> None:
    """As many leaves as were asked for, no state has more children than the width, and counts and
    values are those of the leaves below."""
    for size, width in ((8, 2), (9, 3), (5, 4)):
        rule = Mcts(size, width)
        for plan in plans():
            tree = grown(rule, plan)
            root = backed_up(tree)
            assert len(tree.branches) == size
            assert root.visits == size
            leaves = {i: set(path(tree, i)) for i in range(size)}
            waiting = list(root.children)
            while waiting:
                found = waiting.pop()
                below = [i for i, states in leaves.items() if found.state in states]
                earned = [tree.branches[i].earned for i in below]
                assert (found.visits, found.value) == (len(below), pytest.approx(np.mean(earned)))
                assert len(found.children) <= width
                waiting += found.children


def grown(rule: Mcts, plan: object) -> TurnTree:
    """The tree of a group, as it was when the last branch ended."""
    seen: list[TurnTree] = []
    grow = rule.grow

    def watched(tree: TurnTree) -> None:
        seen.append(tree)
        grow(tree)

    rule.grow = watched  # type: ignore[method-assign]
    rule.collect([plan], workers())  # type: ignore[list-item]
    rule.grow = grow  # type: ignore[method-assign]
    return seen[-1]


def test_a_search_goes_where_the_reward_is() -> None:
    """Without exploration the first branch leaves the chain that earned most, if it can be left."""
    seen = 0
    for plan in plans(12):
        tree = grown(Mcts(3, 2, 0.0), plan)
        first, second, later = tree.branches
        best = max((first, second), key=lambda b: b.earned)
        if first.earned != second.earned and best.turns > 1:
            assert later.root == best.root
            seen += 1
    assert seen


# --- ReST-MCTS* -----------------------------------------------------------------------------------
def test_qualities() -> None:
    np.testing.assert_allclose(qualities([0, 0, 0], [2, 1, 0]), [1 / 3, 2 / 3, 1])
    assert qualities([1, 0], [2, 1]) == [0, 0.5]
    # half right brings nothing; one wrong step takes (1 - 1/3) / 3 back
    np.testing.assert_allclose(qualities([0, 0.5, 1], [2, 2, 2]), [1 / 3, 1 / 3, 1 / 9])


def test_the_tree_judges_its_turns() -> None:
    """Errors and distances by hand: a turn is right if a success lies below it."""
    for group in played("mcts", 12):
        (signals,) = StepQuality(solved=0.5).measure([group], workers())
        found = signals["turn_quality"]
        for place in range(len(group.members)):
            way = turns_of(group, place)
            assert steps(group, place) == way
            below = [
                [m for i, m in enumerate(group.members) if step in turns_of(group, i)]
                for step in way
            ]
            errors = [float(all(total(m) < 0.5 for m in members)) for members in below]
            left = [
                min(len(m.episode.turns) for m in members if wrong or total(m) >= 0.5) - number
                for number, (wrong, members) in enumerate(zip(errors, below, strict=True), 1)
            ]
            np.testing.assert_allclose(found[place, : len(way)], qualities(errors, left))
            if total(group.members[place]) >= 0.5:
                assert found[place, len(way) - 1] == 1


def test_a_state_is_worth_what_the_model_and_its_leaves_say() -> None:
    rule = ValuedMcts(width=2, explore=0, alpha=0.25)
    poor, rich = node((0, 1), 2, 0.0, node((0, 2), 2, 0.0)), node((1, 1), 2, 1.0)
    rich.ended = False
    poor.expected, rich.expected = 0.8, 0.2
    assert rule.worth(poor) == pytest.approx(0.6)  # .75 of .8
    assert rule.worth(rich) == pytest.approx(0.275)  # .75 of .2 and .25 of 1/2
    assert rule.worth(node((0, 2), 2, 0.5)) == 0.25, "an ended one has no more than its return"
    root = node((-1, 0), 4, 1.0, poor, rich)
    assert rule.select(root) is poor
    assert Mcts(width=2, explore=0).select(root) is rich


SPEC = {"use": "valued_mcts", "size": 3, "alpha": 0.0, "explore": 0.0}


def boxes(trained: bool = True) -> tuple[Workers, list[TaskPlan]]:
    """Boxes of which one query of four shows the colour, then the answer is due."""
    lm, policy = lookup.player(4)
    there = lookup.setting(trained)
    plans = [TaskPlan(task, f"b{i}", i) for i, task in enumerate(there.tasks)]
    return Workers(policy, there, lm), plans


def test_the_value_model_learns_the_qualities_and_then_guides() -> None:
    """At α = 0 and without exploration, two chains are played and a branch leaves the one of which
    more is expected: after a training the one that asked the right question, about boxes that were
    not trained on; before it all are alike, and the first is taken."""
    here, plans = boxes()
    rollout, losses = make("rollout", SPEC), []
    contracts.check_rollout(SPEC, plans[:6], here)
    for step in range(8):
        groups = rollout.collect(plans[5 * step : 5 * step + 5], here)
        signals = StepQuality().measure(groups, here)
        scored = [
            Scored(g, s, Rewards(np.array([total(m) for m in g.members])))
            for g, s in zip(groups, signals, strict=True)
        ]
        losses.append(rollout.fit(scored)["valued_mcts/loss"])
    assert losses[-1] < losses[0]
    same = make("rollout", SPEC)
    same.load_state_dict(rollout.state_dict())
    same.load_tensors(rollout.tensors())
    rates = [rightly(one, *boxes(False)) for one in (rollout, same, make("rollout", SPEC))]
    assert rates[0] == rates[1] > 0.9
    assert 0.2 < rates[2] < 0.8


def rightly(rollout: Any, here: Workers, plans: list[TaskPlan]) -> float:
    """Of the groups in which one chain asked for the colour, the share whose branch left it."""
    four = [p._replace(key=k, name=f"{p.name}.{k}") for k in range(4) for p in plans]
    found = []
    for group in rollout.collect(four, here):
        asked = [m.episode.turns[0].text.strip() == "search: colour" for m in group.members[:2]]
        if any(asked) and not all(asked):
            left = group.members[2].parent
            assert left is not None
            found.append(asked[left])
    assert len(found) > 20
    return float(np.mean(found))


def test_with_returns_alone_it_is_the_plain_search() -> None:
    here, plans = boxes()
    plans = plans[:6]
    plain, valued = (
        make("rollout", spec).collect(plans, here)
        for spec in ({"use": "mcts", "size": 6}, {"use": "valued_mcts", "size": 6, "alpha": 1.0})
    )
    texts = [
        [([t.text for t in m.episode.turns], m.parent, m.since) for g in groups for m in g.members]
        for groups in (plain, valued)
    ]
    assert texts[0] == texts[1]


def test_a_value_model_needs_qualities() -> None:
    table = {**read("rest_mcts"), "signal": ["return"], "advantage": "grpo"}
    with pytest.raises(CardError, match="needs 'turn_quality'"):
        Recipe.of(table).check(frozenset())
    with pytest.raises(CardError, match=r"alpha is in \[0, 1\], got 1.5"):
        make("rollout", {"use": "valued_mcts", "alpha": 1.5})


def selected(batch: Batch, quality: list[list[float]], **options: object) -> list[list[bool]]:
    batch.signals["turn_quality"] = torch.tensor(quality, dtype=torch.float64)
    made = make("advantage", {"use": "selected", **options}).estimate(batch, {})
    assert made.adv.tolist() == [1.0] * len(batch)
    assert made.mask is not None
    return [
        kept[: int(n)]
        for kept, n in zip(made.mask.tolist(), batch.mask.sum(1).tolist(), strict=True)
    ]


def test_the_shortest_way_is_imitated() -> None:
    """A chain that fails at its third turn; a branch after its first turn that succeeds at once,
    and one that needs two turns."""
    batch = forest([0, 1, 1], [-1, 0, 0], [0, 1, 1], [3, 2, 3])
    nan = math.nan
    quality = [[0.5, 0.25, 0.0], [0.5, 1, nan], [0.5, 2 / 3, 1]]
    assert selected(batch, quality) == [[True, False, False], [True], [False, True]]
    assert selected(batch, quality, best=False)[2] == [True, True]


def test_what_leads_to_no_success_is_not_imitated() -> None:
    for group in played("mcts", 12):
        (signals,) = StepQuality(solved=0.5).measure([group], workers())
        earned = np.array([total(m) for m in group.members])
        batch = Batch.of([Scored(group, signals, Rewards(earned))])
        assert batch is not None
        mask = make("advantage", "selected").estimate(batch, {}).mask
        for line, member in enumerate(batch.members):
            for turn in {*member.turns.tolist()}:
                kept = mask[line][batch.mask[line] & (batch.turn[line] == turn)]
                below = leaves_below(group, (line, turn))
                assert bool(kept.any()) == bool(kept.all())
                assert not kept.any() or any(earned[i] >= 0.5 for i in below)
        assert bool(mask.any()) == bool((earned >= 0.5).any())


def leaves_below(group: Group, step: tuple[int, int]) -> list[int]:
    return [i for i in range(len(group.members)) if step in turns_of(group, i)]


def test_the_laboratory_has_trees_of_every_kind() -> None:
    """Or the tests above would show little: some fail, some succeed, some branch."""
    groups = played("mcts", 12)
    assert {total(m) >= 0.5 for g in groups for m in g.members} == {True, False}
    assert max(m.since for g in groups for m in g.members) >= 1


# --- CR-Planner ---------------------------------------------------------------------------------
def test_cr_planners_critic_chooses_better_turns_than_chance() -> None:
    """The policy stays as it is, and there are as many candidates: without having learnt, the
    critic takes any of them."""
    lm, policy = lookup.player(4)
    here = Workers(policy, lookup.setting(), lm)
    spec = {"use": "critic_chosen", "size": 6, "chosen": 2, "candidates": 4}
    tasks = lookup.setting().tasks

    def some(step: int, count: int) -> list[TaskPlan]:
        places = range(step * count, (step + 1) * count)
        return [TaskPlan(tasks[i % len(tasks)], f"c{i}", i) for i in places]

    learning, fresh = make("rollout", spec), make("rollout", spec)
    losses = []
    for step in range(10):
        learning.collect(some(step, 10), here)
        losses.append(learning.fit([])["critic_chosen/loss"])
    assert losses[0] < math.log(2)
    assert losses[-1] < losses[0]
    assert learning.fit([]) == {}, "pairs are learnt from once"
    same = make("rollout", spec)
    same.load_state_dict(learning.state_dict())
    same.load_tensors(learning.tensors())
    assert torch.equal(same.head.weight, learning.head.weight)
    with pytest.raises(CardError, match="size - chosen must be at least 2"):
        make("rollout", {**spec, "size": 3})

    def right(rollout: Any) -> float:
        """How many of the candidates for the last turn, behind chosen ones, are right."""
        groups = contracts.check_rollout(rollout, some(99, 20), here)
        ended = [m for g in groups for m in g.members[4:] if m.finished]
        assert all(len(m.episode.turns) == 2 for m in ended)
        return sum(m.episode.parts["em"] for m in ended) / len(ended)

    assert right(learning) > 1.5 * right(fresh)


# --- PROPA ----------------------------------------------------------------------------------------
def test_demonstrations_are_where_nobody_succeeded() -> None:
    """The rollout's own groups stay as they are, and the expert is the last of those that fail."""
    base = {"use": "mcts", "size": 3}
    alone = played(base, 12)
    helped = contracts.check_rollout({"use": "rescued", "rollout": base}, plans(12), workers())
    kinds = set()
    for mine, theirs in zip(alone, helped, strict=True):
        solved = any(total(m) >= 0.5 for m in mine.members)
        experts = [m for m in theirs.members if m.purpose == "expert"]
        assert len(experts) == (not solved)
        assert len(theirs.members) == 3 + len(experts)
        assert all(total(m) >= 0.5 and m.unsampled for m in experts)
        for a, b in zip(mine.members, theirs.members, strict=False):
            assert a.episode.snapshot() == b.episode.snapshot()
        kinds.add(solved)
    assert kinds == {True, False}
