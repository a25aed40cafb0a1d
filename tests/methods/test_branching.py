"""Rollouts that branch: where they cut, how many leaves they have, and that each token is trained
on once. They play the laboratory's questions of one to four decisions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.core import read_jsonl, run_tools
from searchgym.errors import CardError, CheckError
from searchgym.rl import (
    ROLLOUTS,
    Batch,
    Branching,
    Group,
    Played,
    Rewards,
    Scored,
    TaskPlan,
    Trainer,
    TurnTree,
    Workers,
    contracts,
    make,
    pack,
    read,
    total,
    unpack,
)
from searchgym.viewer import Index, tree
from searchgym_agents.methods.arpo import EntropyBranches
from searchgym_agents.methods.dialtree import CHECKS, invalid, stale
from searchgym_agents.methods.latr import edit_distance, near_tie
from searchgym_agents.methods.search_r2 import first_fruitless
from searchgym_agents.methods.slate import StepScore, step_score
from tests.methods.trees import lm, path, plans, played, workers
from tests.rl.colours import TASKS, player, setting
from tests.rl.trainers import trainer

BRANCHING = (
    "expand", "levels", "entropy_branches", "near_ties", "one_step", "retry", "thompson", "mcts",
    "pruned",
)  # fmt: skip


@pytest.mark.parametrize("name", BRANCHING)
def test_each_token_is_trained_on_once_and_every_path_is_whole(name: str) -> None:
    for group in contracts.check_rollout(name, plans(), workers()):
        uids = [u for m in group.members for r in m.rows for u in r.turn_uids]
        assert len(set(uids)) == len(uids)
        for place, member in enumerate(group.members):
            turns = [t for _, t in path(group, place)]
            assert turns == list(range(len(member.episode.turns)))
            assert sorted(set(member.turns.tolist())) == turns[member.since :]
            if member.parent is not None:
                parent = group.members[member.parent].episode
                kept = [t.text for t in parent.turns[: member.since]]
                assert [t.text for t in member.episode.turns[: member.since]] == kept
                assert member.since >= group.members[member.parent].since
                assert member.episode.parent == (parent.config.episode_id, member.since)
            assert member.usage["tokens_out"] == member.tokens


@pytest.mark.parametrize("name", BRANCHING)
def test_a_prompts_tokens_are_those_of_the_parents_row(name: str) -> None:
    """A branch reads what its parent wrote, token by token, and has no gradient there."""
    for group in played(name):
        for member in (m for m in group.members if m.parent is not None and m.since and m.rows):
            parent = group.members[member.parent or 0]
            row, whole = member.rows[0], parent.rows[0]
            first = int(np.flatnonzero(row.sampled)[0])
            assert not row.loss_mask[:first].any()
            if parent.since == 0 and len(parent.episode.turns) > member.since:
                np.testing.assert_array_equal(row.ids[:first], whole.ids[:first])


def test_leaves_are_as_many_as_were_asked_for() -> None:
    for size, trees, rounds in ((8, 2, 1), (8, 2, 3), (12, 4, 2), (6, 1, 5)):
        spec = {"use": "expand", "size": size, "trees": trees, "rounds": rounds}
        for group in played(spec):
            assert len(group.members) == size
            per_tree = np.bincount([m.siblings for m in group.members])
            assert per_tree.tolist() == [size // trees] * trees
    for size in (2, 5, 16):
        groups = played({"use": "entropy_branches", "size": size})
        assert all(len(g.members) == size for g in groups)
    for group in played({"use": "levels", "size": 12, "roots": 3, "width": 2}):
        ended = [m for m in group.members if m.parent is None and len(m.episode.turns) == 1]
        assert len(group.members) <= 12 - 3 * len(ended)
        for member in group.members:
            assert member.since in (0, 1, 2)


def test_arpos_odds() -> None:
    rule = EntropyBranches()
    assert [rule.odds(rise) for rise in (1, 0, -1, 9, -9)] == pytest.approx([0.7, 0.5, 0.3, 1, 0])
    calm = {"use": "entropy_branches", "size": 8, "base": 0.0, "slope": 0.0}
    assert all(m.parent is None for g in played(calm) for m in g.members)
    for group in played({**calm, "base": 1.0}):
        for member in (m for m in group.members if m.parent is not None):
            before = member.episode.turns[member.since - 1]
            assert before.calls, "branches begin after a tool's results"


def test_mars2_goes_where_it_went_well() -> None:
    """All leaves are there; what earned more has more that stems from it than what earned less."""
    below: dict[bool, list[int]] = {True: [], False: []}
    for group in played({"use": "thompson", "size": 16, "first": 2}, count=30):
        assert len(group.members) == 16
        for place, member in enumerate(group.members):
            if member.parent is None and len(member.episode.turns) > 1:
                stem = sum(m.siblings == member.siblings for m in group.members) - 1
                below[member.episode.parts["em"] == 1].append(stem)  # type: ignore[index]
                assert place == 0 or stem < 15
    assert np.mean(below[True]) > 1.5 * np.mean(below[False])
    only = played({"use": "thompson", "size": 4, "first": 4})
    assert all(m.parent is None for g in only for m in g.members)


def kin(parents: Sequence[tuple[int | None, int]], earned: Sequence[float], **options: Any) -> Any:
    """Rewards of members that left (a parent, after a turn)."""
    members: Any = tuple(SimpleNamespace(parent=p, since=at) for p, at in parents)
    start = Rewards(np.array(earned, float))
    made = make("reward", {"use": "kin", **options})
    return made.apply(Group(plans(1)[0], members), {}, start, {}).outcome.tolist()


def test_mars2_compares_with_parent_and_siblings() -> None:
    assert kin([(None, 0), (None, 0)], [0, 1]) == [-0.5, 1.5]
    assert kin([(None, 0), (0, 1), (0, 1)], [0, 1, 0]) == [0, 1.5, -0.25], "the first has neither"
    assert kin([(None, 0), (0, 1), (0, 2)], [0.5, 1, 0]) == [0.5, 1.25, -0.25], "no siblings"
    alone = kin([(None, 0), (0, 1), (0, 1)], [0, 1, 0], siblings=1.0, weight=1.0)
    assert alone == [0, 2, -1]
    again = kin([(None, 0), (0, 0)], [0, 1])
    assert again == [-0.5, 1.5], "who left at the beginning is a sibling"
    broken = kin([(None, 0), (0, 1), (0, 1)], [np.nan, 1, 0])
    assert np.isnan(broken[0])
    assert broken[1:] == [1.5, -0.5], "by the sibling alone"


def test_latrs_near_ties() -> None:
    assert [near_tie(*p) for p in ((0.5, 0.4), (0.7, 0.26), (0.4, 0.2))] == [True, False, False]
    assert [edit_distance(*p) for p in (([], [1, 2]), ([1, 2, 3], [1, 3]), ("abcd", "bxd"))] == [
        2, 1, 2,
    ]  # fmt: skip


def test_latr_without_a_share_are_independent_chains() -> None:
    size = {"size": 6}
    plain = played({"use": "chains", **size})
    for spec in ({"share": 0.0}, {"least": 1.0}):
        found = played({"use": "near_ties", **size, **spec})
        for group, other in zip(found, plain, strict=True):
            texts, wanted = ([[t.text for t in m.episode.turns] for m in g.members]
                             for g in (group, other))  # fmt: skip
            assert texts == wanted
    rollout = make("rollout", {"use": "near_ties", "size": 8})
    shares = [1.0, 0.75, 0.5, 0.25, 0.0]
    counts = [rollout.leaves(replace(workers(), coef={"near_ties": s})) for s in shares]
    assert counts == [8, 6, 4, 2, 0]


def test_latr_asks_no_outdated_model() -> None:
    """In a rollout worker weights reach the policy's model alone."""
    lm, policy = player(4)
    other, _ = player(5)
    policy.refresh = lambda: None
    rollout = make("rollout", {"use": "near_ties", "size": 2})
    plan = TaskPlan(TASKS[0], "r", 0)
    assert rollout.collect([plan], Workers(policy, setting(), lm))
    with pytest.raises(CardError, match=r"near_ties reads .* grows old"):
        rollout.collect([plan], Workers(policy, setting(), other))


def test_latr_branches_at_ties_and_drops_what_is_alike() -> None:
    """Every token of these has a rival as likely; siblings differ by the share asked for."""
    ties = {"use": "near_ties", "size": 8, "least": 0.0, "apart": 1.0}
    groups = played({**ties, "differs": 0.4})
    branches = 0
    for group in groups:
        assert len(group.members) == 8
        for place, member in enumerate(group.members):
            if member.parent is None:
                continue
            branches += 1
            assert member.siblings == 0
            mine = _ids(member, member.since)
            others = [
                m
                for i, m in enumerate(group.members)
                if i != place
                and (i == member.parent or (m.parent, m.since) == (member.parent, member.since))
            ]
            for other in others:
                theirs = _ids(other, member.since)
                apart = edit_distance(mine, theirs) / max(len(mine), len(theirs))
                assert apart >= 0.4
    assert branches
    more = sum(m.parent is not None for g in played({**ties, "differs": 0.0}) for m in g.members)
    assert more > branches, "some were dropped"


def _ids(member: Played, turn: int) -> list[int]:
    """Tokens of one turn."""
    return [
        int(i)
        for r in member.rows
        for i in r.ids[r.sampled][
            [int(r.turn_uids[k].rpartition("/")[2]) == turn for k in r.turn_of_token[r.sampled]]
        ]
    ]


def test_only_ends_of_a_tree_are_dropped() -> None:
    grown = TurnTree(plans(1)[0], workers(), {})
    grown.chain()
    grown.fork(0, 0)
    grown.chain()
    grown.fork(2, 0)
    with pytest.raises(ValueError, match=r"go on from some of the branches \[0\]"):
        grown.drop([0])
    grown.drop([1])
    assert [b.parent for b in grown.branches] == [None, None, 1]
    assert grown.forks == {0: 1, 1: 1}
    again = grown.branches[grown.fork(0, 0)].episode.config.episode_id
    assert again.endswith("2"), "names are not used twice"


def test_vstar_grows_where_most_is_expected() -> None:
    """The head learns what a state is worth; then the best states are taken, each once."""
    lm, policy = player(4)
    workers = Workers(policy, setting(), lm)
    plans = [TaskPlan(task, f"v{i}", i) for i, task in enumerate(TASKS)]
    spec = {"use": "value_guided", "size": 6, "chains": 3, "rounds": 3, "epochs": 300}
    for group in contracts.check_rollout(spec, plans, workers):
        assert [m.parent is None for m in group.members] == [True] * 3 + [False] * 3
        left = [(m.parent, m.since) for m in group.members if m.parent is not None]
        states = {(i, t) for i, m in enumerate(group.members) for t in m.turns.tolist()}
        assert len(set(left)) == min(len(left), len(states))
    rollout = make("rollout", spec)
    groups = rollout.collect(plans, workers)
    assert rollout.state_dict() != {"width": 0}
    every = copy.copy(rollout._states)
    paid = [
        Rewards(np.array([float(len(m.episode.turns) == 2) for m in g.members])) for g in groups
    ]
    loss = rollout.fit([Scored(g, {}, r) for g, r in zip(groups, paid, strict=True)])
    assert loss["value_guided/loss"] < 0.05
    for group in groups:
        for member in group.members:
            if len(member.episode.turns) == 2:
                last = every.of(member.episode.config.episode_id)[1]
                assert rollout.head.value(last) == pytest.approx(1, abs=0.2)
    same = make("rollout", spec)
    same.load_state_dict(rollout.state_dict())
    same.load_tensors(rollout.tensors())
    assert same.head.value(last) == rollout.head.value(last)
    with pytest.raises(CardError, match="chains is between 1 and size - 1"):
        make("rollout", {**spec, "size": 3})


def test_a_rollout_that_learns_plays_in_the_trainers_process() -> None:
    lm, policy = player(4)
    recipe = {**read("grpo"), "rollout": "value_guided"}
    elsewhere: Any = object()
    with pytest.raises(CardError, match="ValueGuided learns from the episodes that it plays"):
        Trainer(setting(), lm, recipe, policy=policy, rollouts=elsewhere)
    run = trainer(recipe, steps=2, tasks=2)
    assert all("value_guided/loss" in metrics for metrics in run.train())


def test_dialtree_prunes_what_went_wrong_and_nothing_else() -> None:
    pruned = 0
    for group in played({"use": "pruned", "size": 6, "roots": 3, "width": 2}, 12):
        leaves = [m for m in group.members if m.finished]
        assert len(leaves) <= 6
        assert sum(m.parent is None for m in group.members) == 3
        for place, member in enumerate(group.members):
            episode = member.episode
            turns = range(1, len(episode.turns) + 1)
            wrong = [
                n for n in turns if faulty(episode, n) and (n < len(turns) or not member.finished)
            ]
            assert wrong == ([] if member.finished else [len(turns)])
            pruned += not member.finished
            after = [m.since for m in group.members if m.parent == place]
            assert all(at < len(turns) for at in after), "nothing leaves an end"
    assert pruned
    everyone = played({"use": "pruned", "size": 6, "roots": 3, "prune": []}, 12)
    assert all(m.finished for g in everyone for m in g.members)
    assert {len(g.members) for g in everyone} >= {6}


def faulty(episode: Any, turns: int) -> bool:
    """Whether the last of the first turns was no action, or searched in vain."""
    before = episode.fork(at=turns)
    return any(check(before) for check in CHECKS.values())


def test_a_search_in_vain() -> None:
    setup = lm().tree.env
    task = setup.tasks[1]
    episode = setup.start(0, task=task)
    first, second = task.queries
    found = []
    for text in (first, first, second, "nothing that is there"):
        episode.act(f"search: {text}")
        run_tools([episode], setup.toolbox)
        found.append(stale(episode))
    assert found == [False, True, False, True]
    assert not invalid(episode)


def test_slate_trains_all_candidates_of_each_turn() -> None:
    for group in played({"use": "one_step", "size": 4}):
        at: dict[int, int] = {}
        for member in group.members:
            for turn in {*member.turns.tolist()}:
                at[turn] = at.get(turn, 0) + 1
        assert set(at.values()) == {4}
        assert len(group.members) == 4 + 3 * (len(at) - 1)
        done = [m for m in group.members if m.finished]
        assert max(len(m.episode.turns) for m in done) == len(at)
        assert any(not m.finished for m in group.members) or len(at) == 1


def test_slates_scores() -> None:
    """A gold passage 1, none 0, no action -1; an early answer is worth 0.075 more than a late."""
    setup = lm().tree.env
    task = setup.tasks[1]

    def after(*texts: str) -> list[float]:
        episode = setup.start(0, task=task)
        for text in texts:
            episode.act(text)
            run_tools([episode], setup.toolbox)
        return [step_score(episode, k) for k in range(len(episode.turns))]

    first, second = task.queries
    right = f"answer: {task.answers[0]}"
    assert after(f"search: {first}", f"search: {second}", right) == [1, 1, 1.025]
    assert after(f"search: {first}", f"search: {first}", right) == [1, 0, 1.025]
    assert after(right) == [1.075]
    assert after("answer: nobody") == [-1 + 0.075]
    assert after("what?", right) == [-1, 1.05]
    assert after(right)[0] - after("what?", "what?", "what?", right)[3] == pytest.approx(0.075)


def test_slates_prefixes_are_paid_to_their_writers_alone() -> None:
    """A candidate's reward by token is its own turn's score."""
    (group, *_) = played({"use": "one_step", "size": 4, "temperature": 0.0}, 3)[1:]
    (signals,) = StepScore().measure([group], workers())
    scores = signals["turn_score"]
    rewards = make("reward", {"use": "per_turn", "signal": "turn_score"}).apply(
        group, signals, Rewards(np.zeros(len(group.members))), {}
    )
    batch = Batch.of([Scored(group, signals, rewards)])
    assert batch is not None
    paid = batch.token_reward()
    for line, member in enumerate(batch.members):
        turns = range(member.since, len(member.episode.turns))
        assert float(paid[line].sum()) == pytest.approx(sum(scores[line, t] for t in turns))
        for t in turns:
            own = paid[line][batch.mask[line] & (batch.turn[line] == t)]
            assert float(own.sum()) == pytest.approx(scores[line, t])


def test_search_r2_accepts_or_cuts_where_nothing_was_found() -> None:
    spec = {"use": "retry", "size": 8, "accept": 1.0}
    for group in played(spec):
        first = [m for m in group.members if m.parent is None]
        assert len(first) == 4
        for place, member in enumerate(first):
            tries = [m for m in group.members if m.parent == place]
            assert len(tries) == (total(member) < 1)
            for second in tries:
                assert second.since == first_fruitless(member.episode)
    easy = {**spec, "accept": -9.0}
    assert all(len(g.members) == 4 for g in played(easy)), "accepting all is four chains"
    chains = played({"use": "chains", "size": 4})
    for mine, theirs in zip(played(easy), chains, strict=True):
        for a, b in zip(mine.members, theirs.members, strict=True):
            assert a.episode.snapshot() == b.episode.snapshot()


def test_a_hint_is_read_and_not_trained_on() -> None:
    model, policy = player(4)
    asked: list[str] = []
    sample = policy.sample

    def heard(requests: Sequence[Any], *rest: Any) -> Any:
        asked.extend(s.text for r in requests for s in r.segments if s.kind == "question")
        return sample(requests, *rest)

    policy.sample = heard  # type: ignore[method-assign]
    here = Workers(policy, setting(), model)
    some = [TaskPlan(task, f"0.{i}", i) for i, task in enumerate(TASKS)]
    spec = {"use": "hinted", "size": 2, "tries": 3, "hint": "answer"}
    groups = make("rollout", spec).collect(some, here)
    failed = [g for g in groups if any(m.purpose == "expert" for m in g.members)]
    assert failed
    assert any("Hint: blue" in text for text in asked)
    for group in groups:
        assert len(group.members) == 2
        assert group.members[0].purpose == "train"
        if group in failed:
            assert total(group.members[0]) < 1 <= total(group.members[1])
        for row in (r for m in group.members for r in m.rows):
            assert "Hint" not in model.tokenizer.decode(row.ids)
    again = make("rollout", {"use": "retry", "size": 4, "hint": "answer"}).collect(some, here)
    for group in again:
        assert [m.purpose for m in group.members] == ["train"] * 2 + ["expert"] * 2
        for row in (r for m in group.members for r in m.rows):
            assert "Hint" not in model.tokenizer.decode(row.ids)


# --- what carries them ----------------------------------------------------------------------------
@pytest.mark.parametrize("name", BRANCHING)
def test_trees_cross_to_other_processes(name: str) -> None:
    for group in played(name, 3):
        back = unpack(group.plan, pack(group))
        for mine, theirs in zip(group.members, back.members, strict=True):
            same = ("parent", "siblings", "since", "finished", "tokens", "usage")
            assert [getattr(mine, n) for n in same] == [getattr(theirs, n) for n in same]
            assert mine.episode.snapshot() == theirs.episode.snapshot()


def test_a_tree_does_not_depend_on_who_else_is_played() -> None:
    for name in BRANCHING:
        (alone,) = make("rollout", name).collect(plans()[4:5], workers())
        among = played(name)[4]
        for mine, theirs in zip(alone.members, among.members, strict=True):
            assert mine.episode.snapshot() == theirs.episode.snapshot()
            assert (mine.parent, mine.siblings) == (theirs.parent, theirs.siblings)


def test_saved_rollouts_show_the_tree(tmp_path: Path) -> None:
    recipe = {**read("tree_grpo"), "rollout": {"use": "expand", "size": 4}}
    run = trainer(recipe, 3, steps=1, tasks=2, save_rollouts=8, out=tmp_path)
    list(run.train())
    found = list(read_jsonl(tmp_path / ROLLOUTS))
    assert [t.parent is None for t in found] == [True, True, False, False] * 2
    assert found[2].parent == (found[0].id, 1)
    shown = tree(Index(tmp_path), found[2].id, listed(tmp_path))
    assert [(b.row["episode"], b.depth, b.turn) for b in shown] == [
        (found[0].id, 0, None), (found[2].id, 1, 1),
    ]  # fmt: skip


def listed(folder: Path) -> str:
    """The agent under whose name the viewer lists a run's rollouts."""
    (row, *_) = Index(folder).rows("SELECT agent FROM episodes LIMIT 1")
    return str(row["agent"])


# --- members that stop early ----------------------------------------------------------------------
class Stops(Branching):
    """Plays one turn."""

    registered = "stops"

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.size):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        for branch in tree.branches:
            branch.stopped = True


class SaysSo(Stops):
    truncates = True


class ReadsTwice(Branching):
    """Trains on what a branch has in common with its parent twice."""

    plant = Stops.plant

    def grow(self, tree: TurnTree) -> None:
        if not tree.going and not tree.rounds:
            tree.rounds = 1
            if tree.branches[0].turns > 1:
                tree.fork(0, 1)

    def _members(self, tree: TurnTree) -> tuple[Played, ...]:
        policy = tree.workers.policy
        return tuple(
            Played(b.episode, tuple(policy.rows(b.episode)), parent=b.parent) for b in tree.branches
        )


def test_who_stops_early_says_so() -> None:
    spec = {"use": f"{__name__}:Stops", "size": 2}
    with pytest.raises(CheckError, match="episodes are finished, or truncates is True"):
        contracts.check_rollout(spec, plans(3), workers())
    recipe = {"rollout": spec, "advantage": "grpo", "loss": "ppo"}
    with pytest.raises(CardError, match=r"Stops stopped in episode .* truncates = True"):
        trainer(recipe, steps=1).advance()
    spec["use"] = f"{__name__}:SaysSo"
    contracts.check_rollout(spec, plans(3), workers())
    metrics = trainer(recipe, steps=1).advance()
    assert np.isnan(metrics["em"]), "nobody has answered"
    assert metrics["trajectories"] == 8


def test_a_turn_in_two_rows_is_found_out() -> None:
    with pytest.raises(CheckError, match="none of the parent's"):
        contracts.check_rollout({"use": f"{__name__}:ReadsTwice", "size": 2}, plans(3), workers())


def test_nothing_follows_an_end() -> None:
    grown = TurnTree(plans(1)[0], workers(), {})
    episode = grown.branches[grown.chain()].episode
    episode.act("answer: nobody")
    with pytest.raises(ValueError, match="nothing follows turn 1"):
        grown.fork(0, 1)


def test_options_out_of_range_are_named() -> None:
    for spec, message in (
        ({"use": "expand", "size": 7, "trees": 2}, "multiple of trees"),
        ({"use": "expand", "size": 4, "trees": 2, "rounds": 2}, "rounds between 1"),
        ({"use": "levels", "size": 6}, "power of width"),
        ({"use": "entropy_branches", "size": 4, "chains": 5}, "between 1 and size"),
        ({"use": "one_step", "temperature": -1}, "temperature is at least 0"),
        ({"use": "retry", "size": 3}, "must be even"),
        ({"use": "mcts", "size": 4, "width": 5}, "width is between 2 and size = 4"),
        ({"use": "retry", "hint": "all"}, "'queries' or 'answer'"),
        ({"use": "pruned", "roots": 9}, "roots is between 1 and size = 8"),
        ({"use": "pruned", "prune": ["late"]}, "unknown check 'late'"),
        ({"use": "hinted", "tries": 0}, "tries at least 1"),
        ({"use": "expand", "size": 1, "trees": 1}, "at least 2"),
    ):
        with pytest.raises((ValueError, CardError), match=message):
            make("rollout", spec)


def test_batches_say_where_branches_begin() -> None:
    (group,) = played({"use": "expand", "size": 4, "trees": 1, "rounds": 3}, 2)[1:]
    rewards = Rewards(np.arange(4.0))
    batch = Batch.of([Scored(group, {}, rewards)])
    assert batch is not None
    assert batch.since is not None
    assert batch.since.tolist() == [m.since for m in group.members]
    assert torch.equal(batch.take([2, 0]).since, batch.since[[2, 0]])  # type: ignore[arg-type]
