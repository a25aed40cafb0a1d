"""Worked numbers of methods that mix in what the policy did not just play: an expert's episodes,
stored successes, hints, a reference; and what becomes of them in a checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from searchgym.curricula import make_schedule
from searchgym.errors import CardError, CheckError
from searchgym.rl import (
    Batch,
    Estimate,
    Group,
    Output,
    Recipe,
    Rewards,
    Scored,
    SFTLoss,
    TaskPlan,
    UniformTasks,
    WithExperts,
    Workers,
    contracts,
    group_of,
    make,
    read,
    sample_batch,
)
from searchgym.types import Task
from searchgym_agents.methods.chord import Mix
from searchgym_agents.methods.fathom_rapo import FathomRAPO, group_scale, solve_rate
from searchgym_agents.methods.rapo_retention import Retention, retention
from searchgym_agents.methods.red import ByEntropies
from searchgym_agents.methods.sasr import ByGradient, imitation_odds
from searchgym_agents.methods.spear import ReplayedSuccesses, ToolBonus, power_of_two
from searchgym_agents.methods.stores import Stored, restored, state_of, tensors_of, with_member
from tests.methods.trees import close
from tests.rl.colours import TASKS, player, setting
from tests.rl.kernels import forward_kl_loss
from tests.rl.trainers import trainer, weights


def gradient(spec: Any, batch: Batch) -> Tensor:
    """(N, T) a loss's gradient at the sampling log-probabilities."""
    loss = make("loss", spec)
    logp = batch.sampled_logp.clone().requires_grad_()
    output = Output(logp)
    if hasattr(loss, "prepare"):
        batch = replace(batch, notes={**batch.notes, **loss.prepare(batch, output, {})})
    return torch.autograd.grad(loss(output, batch, batch.totals, {})[0], logp)[0]


# --- members that were not played -------------------------------------------------------------
class Smuggler(UniformTasks):
    """Adds a member, and declares what it is told to."""

    def __init__(self, declared: bool = False) -> None:
        super().__init__()
        if declared:
            self.adds = frozenset({"replayed"})

    def admit(self, scored: Scored) -> Scored | None:
        return with_member(scored, Stored.of(scored, 0, 0), 1)


def test_a_data_policy_declares_the_members_that_it_adds() -> None:
    with pytest.raises(CheckError, match="purpose named in adds"):
        contracts.check_data({"use": f"{__name__}:Smuggler"})
    contracts.check_data({"use": f"{__name__}:Smuggler", "declared": True})


def test_a_rollout_declares_its_experts() -> None:
    lm, policy = player(0)
    workers = Workers(policy, setting(), lm)
    plans = [TaskPlan(TASKS[0], "0.0", 0)]

    class Silent(WithExperts):
        adds = frozenset()

    class Sampled(WithExperts):
        unsampled = False

    with pytest.raises(CheckError, match="purpose named in adds"):
        contracts.check_rollout(Silent(2), plans, workers)
    with pytest.raises(CheckError, match="no sampling log-probabilities"):
        contracts.check_rollout(Sampled(2), plans, workers)
    (group,) = contracts.check_rollout(WithExperts(2), plans, workers)
    assert [m.purpose for m in group.members] == ["train", "train", "expert"]
    assert [m.unsampled for m in group.members] == [False, False, True]
    batch = Batch.of([Scored(group, {}, Rewards(np.ones(3)))])
    assert batch is not None
    assert batch.unsampled.tolist() == batch.expert.tolist() == [False, False, True]
    assert batch.among(["played"]).tolist() == [True, True, False]


@pytest.mark.parametrize("loss", ["decoupled", "m2po"])
def test_a_ratio_to_whoever_sampled_is_refused_where_nobody_did(loss: str) -> None:
    """By name, before anything is played; kept to the policy's own members it is fine."""
    table = {"advantage": "grpo", "rollout": "with_experts", "loss": loss}
    with pytest.raises(CardError, match=r"loss.0 \(\w+\) needs 'sampled_logp'.*rollout"):
        trainer(table)
    with pytest.raises(CardError, match="rollout"):
        trainer({**table, "rollout": "demonstrations", "advantage": "ones"})
    own = {"use": "among", "members": "played", "loss": loss}
    Recipe.of({**table, "loss": own}).check(frozenset())
    with pytest.raises(CardError, match="sampled_logp"):
        Recipe.of({**table, "loss": {**own, "members": ["played", "expert"]}}).check(frozenset())


def test_members_that_nobody_sampled_are_noticed_in_the_batch() -> None:
    class Undeclared(WithExperts):
        unsampled = False

    run = trainer({"advantage": "grpo", "loss": "decoupled", "rollout": Undeclared(2)}, steps=1)
    with pytest.raises(CardError, match=r"DecoupledLoss.*this batch has members"):
        list(run.train())


# --- among ------------------------------------------------------------------------------------
def test_a_loss_among_some_members_is_that_loss_of_their_batch() -> None:
    """Value and gradient, whatever else is in the batch; an expert's in a part without any is 0."""
    batch = sample_batch(0)
    expert = torch.arange(len(batch)) % 3 == 1
    batch = replace(batch, expert=expert, replayed=torch.zeros_like(expert))
    for kind, places in (("expert", expert), ("played", ~expert)):
        spec = {"use": "among", "members": kind, "loss": "ppo"}
        got = gradient(spec, batch)
        alone = gradient("ppo", batch.take(torch.nonzero(places)[:, 0].tolist()))
        close(got[places], alone, 1e-6)
        assert not got[~places].any()
    none = replace(batch, expert=torch.zeros_like(expert))
    assert not gradient({"use": "among", "members": "expert"}, none).any()


def test_an_estimate_among_own_members_has_no_experts_in_its_baseline() -> None:
    batch = sample_batch(0).take([0, 1, 2, 3])
    batch = replace(batch, reward=torch.tensor([1.0, 0, 0, 1]), group=torch.zeros(4).long(),
                    expert=torch.tensor([False, False, False, True]),
                    replayed=torch.zeros(4).bool())  # fmt: skip
    adv = make("advantage", {"use": "among", "base": "dr_grpo"}).estimate(batch, {}).adv
    close(adv, [2 / 3, -1 / 3, -1 / 3, 0])
    close(make("advantage", "dr_grpo").estimate(batch, {}).adv, [0.5, -0.5, -0.5, 0.5])


# --- CHORD ------------------------------------------------------------------------------------
def test_chords_weight_of_a_token() -> None:
    """φ = p(1 - p): .25 at p = .5, .09 at .1 and at .9."""
    chance = torch.tensor([[0.5, 0.1, 0.9]])
    batch = replace(
        sample_batch(0).take([0]), sampled_logp=chance.log(), mask=torch.ones(1, 3).bool(),
    )  # fmt: skip
    got = gradient({"use": "sft", "weighting": "p(1-p)"}, batch)
    close(got, [[-0.25 / 3, -0.09 / 3, -0.09 / 3]], 1e-6)
    close(gradient("sft", batch), [[-1 / 3] * 3], 1e-6)
    with pytest.raises(ValueError, match=r"'none' or 'p\(1-p\)'"):
        SFTLoss(weighting="p")  # type: ignore[arg-type]


def test_chords_mu() -> None:
    """Up to the peak in 200 steps, down along a cosine in 400; the two weights add up to 1."""
    spec = {"kind": "warmup_cosine", "peak": 0.5, "valley": 0.02, "warmup": 200, "decay": 400}
    mu = make_schedule(spec)
    want = {0: 0, 100: 0.25, 200: 0.5, 300: 0.42970563, 400: 0.26, 600: 0.02, 9000: 0.02}
    for step, value in want.items():
        assert mu(step) == pytest.approx(value)
        coef = Mix(spec).coef(step, {})
        assert coef == {"policy": pytest.approx(1 - value), "sft": pytest.approx(value)}
    assert make_schedule({**spec, "warmup": 0})(0) == 0.5
    with pytest.raises(CardError, match="warmup ≥ 0 and decay > 0"):
        make_schedule({**spec, "decay": 0})
    with pytest.raises(ValueError, match="in \\[0, 1\\], got 2"):
        Mix(2.0).coef(0, {})


def after(recipe: Any, steps: int = 2, **options: Any) -> torch.Tensor:
    run = trainer(recipe, 1, steps=steps, minibatches=1, **options)
    list(run.train())
    return weights(run.lm)


def test_chord_between_its_two_ends() -> None:
    """μ = 0 is GRPO, and μ = 1 is imitation of the same demonstrations, to the last digits."""
    chord = {**read("chord"), "rollout": {"use": "with_experts", "size": 4}}
    chord["loss"] = [
        {"use": "among", "members": kind, "loss": loss}
        for kind, loss in (("played", "ppo"), ("expert", "sft"))
    ]
    grpo = {"rollout": {"use": "chains", "size": 4}, "advantage": "grpo", "loss": "ppo"}
    reinforced = after({**chord, "schedule": {"use": "mix", "mu": 0.0}})
    imitated = after({**chord, "schedule": {"use": "mix", "mu": 1.0}})
    close(reinforced, after(grpo), 1e-5)
    close(imitated, after(read("sft")), 1e-5)
    assert (reinforced - imitated).abs().max() > 1e-3


def test_experts_are_in_no_metric_of_the_policy() -> None:
    table = {**read("chord"), "rollout": {"use": "with_experts", "size": 4}}
    (step,) = trainer(table, 1, steps=1).train()
    plain = {**read("grpo"), "rollout": {"use": "chains", "size": 4}}
    (other,) = trainer(plain, 1, steps=1).train()
    for name in ("reward", "em", "episodes", "entropy", "frac_reward_zero_std", "length_cut"):
        assert step[name] == other[name], name
    assert step["trajectories"] == other["trajectories"] + 4


# --- SASR and RED -----------------------------------------------------------------------------
def test_sasrs_odds() -> None:
    assert imitation_odds(1.0, 1.0) == 0.5
    assert imitation_odds(1.0, 2.0, 1.5) == 0.25
    assert imitation_odds(3.0, 7.0, 0.0) == 1  # imitation alone
    assert imitation_odds(0.0, 1.0) == 0  # GRPO alone
    assert imitation_odds(0.0, 0.0) == 0


def test_sasr_imitates_first_and_then_by_its_odds() -> None:
    schedule = ByGradient(warmup=2, gamma=1.0)
    norm = 4.0
    found = []
    for step in range(2000):
        coef = schedule.coef(step, {"loss": 0.0, "grad_norm": norm} if step else {})
        assert sorted(coef.values()) == [0, 1]
        found.append(coef["sft"])
        norm = 1.0 if coef["sft"] else 100.0  # of reinforcement: not to be looked at
    assert found[:2] == [1, 1]
    assert schedule.warm == [1.0, 1.0]
    assert np.mean(found[2:]) == pytest.approx(0.5, abs=0.04)
    with pytest.raises(ValueError, match="warmup is at least 1"):
        ByGradient(warmup=0)


def test_sasr_at_its_two_ends_is_imitation_and_grpo() -> None:
    sasr = {**read("sasr"), "rollout": {"use": "with_experts", "size": 4}}

    def kinds(gamma: float) -> list[float]:
        table = {**sasr, "schedule": {"use": "by_gradient", "warmup": 1, "gamma": gamma}}
        return [m["coef/sft"] for m in trainer(table, 1, steps=4, tasks=2).train()]

    assert kinds(0.0) == [1, 1, 1, 1]
    assert kinds(1e9) == [1, 0, 0, 0]


def test_red_weighs_imitation_by_two_entropies() -> None:
    schedule = ByEntropies(weight=0.1)

    def weight(expert: float, own: float) -> float:
        return schedule.coef(1, {"sft/entropy": expert, "entropy": own})["sft"]

    assert schedule.coef(0, {}) == {"sft": 0.1}
    assert weight(1.0, 2.0) == pytest.approx(0.1)  # the first values
    assert weight(1.0, 1.0) == pytest.approx(0.2)  # the policy has narrowed by half
    assert weight(0.8, 1.0) == pytest.approx(0.16)  # the expert's tokens are known better
    assert weight(0.5, 2.0) == pytest.approx(0.05)
    assert weight(1.0, 1e-3) == 1.0  # at most
    assert schedule.coef(9, {"entropy": 0.0})["sft"] == 1.0  # nothing was measured
    (one, two) = trainer(read("red"), 1, steps=2, tasks=2).train()
    assert one["sft/entropy"] > 0
    assert two["coef/sft"] == pytest.approx(0.1)


# --- stored members ---------------------------------------------------------------------------
def scored_group(seed: int = 0, size: int = 3, task: Task = TASKS[0], name: str = "0.0") -> Scored:
    """A played group of colours, scored by its returns, with a reward of turns."""
    lm, policy = player(seed)
    plan = TaskPlan(task, name, seed)
    (group,) = make("rollout", {"use": "chains", "size": size}).collect(
        [plan], Workers(policy, setting(), lm)
    )
    got = np.array([float(sum(t.reward for t in m.episode.turns)) for m in group.members])
    by_turn = np.full((size, 2), 0.25)
    by_turn[0, 1] = np.nan
    group = replace(group, plan=plan._replace(params={"noise": 0.5}))
    return Scored(group, {"return": got, "turn_x": by_turn}, Rewards(got, by_turn))


def test_a_stored_member_survives_a_checkpoint() -> None:
    """Text, tokens, log-probabilities and rewards; through JSON."""
    scored = scored_group()
    kept = [Stored.of(scored, i, 7) for i in range(3)]
    state = json.loads(json.dumps(state_of(kept)))
    back = restored(state, tensors_of(kept))
    for was, now in zip(kept, back, strict=True):
        assert now.plan == was.plan
        assert now.step == 7
        assert now.member.purpose == "replayed"
        assert [t.text for t in now.member.episode.turns] == [
            t.text for t in was.member.episode.turns
        ]
        assert now.total == was.total
        np.testing.assert_equal(now.signals, was.signals)
        for a, b in zip(was.member.rows, now.member.rows, strict=True):
            assert (a.trajectory_id, a.turn_uids) == (b.trajectory_id, b.turn_uids)
            for name in ("ids", "sampled", "loss_mask", "logp", "version", "turn_of_token"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    batch = Batch.of([s.alone() for s in back])
    again = Batch.of([s.alone() for s in kept])
    assert batch is not None
    assert again is not None
    close(batch.sampled_logp, again.sampled_logp, 0)
    assert batch.replayed.all()


def test_a_stored_member_takes_anothers_place() -> None:
    scored, other = scored_group(), scored_group(1, name="1.0")
    made = with_member(other, Stored.of(scored, 1, 0), 2)
    assert made.group.members[:2] == other.group.members[:2]
    assert made.group.members[2].episode is scored.group.members[1].episode
    assert made.rewards.total[2] == scored.rewards.total[1]
    np.testing.assert_array_equal(made.signals["turn_x"][2], scored.signals["turn_x"][1])
    np.testing.assert_array_equal(made.rewards.outcome[:2], other.rewards.outcome[:2])
    batch = Batch.of([made])
    assert batch is not None
    assert batch.replayed.tolist() == [False, False, True]


# --- Fathom's RAPO ----------------------------------------------------------------------------
def test_solve_rates_and_the_scale_of_telling_groups() -> None:
    """8 groups of which 2 differ: 4 times."""
    assert solve_rate([1.0, 0.1, 0.1, 0.1]) == 0.25  # well-formed answers are no successes
    assert solve_rate([1.0, float("nan")]) == 1
    reward = torch.tensor([[1.0, 0], [0.0, 1]] + [[0.0, 0]] * 3 + [[1.0, 1]] * 3).flatten()
    group = torch.arange(8).repeat_interleave(2)
    assert group_scale(reward, group) == 4
    assert group_scale(torch.zeros(4), torch.tensor([0, 0, 1, 1])) == 1
    batch = sample_batch(0)
    plain = make("advantage", "grpo").estimate(batch, {}).adv
    scaled = make("advantage", "group_scaled").estimate(batch, {}).adv
    close(scaled, plain * group_scale(batch.reward, batch.group))


def result(task: Task, rewards: list[float]) -> Scored:
    group = group_of(len(rewards))
    values = np.array(rewards)
    plan = TaskPlan(task, f"{task.id}.x", 3)
    return Scored(Group(plan, group.members), {"return": values}, Rewards(values))


def test_solved_tasks_are_pruned_at_the_end_of_the_epoch() -> None:
    """Solve rates of .8, .9 and 1: kept, pruned, pruned."""
    tasks = [Task(f"t{i}", "?", ("a",)) for i in range(3)]
    data = FathomRAPO()
    first = [data.plan(tasks, 1, step, 0)[0].task for step in range(3)]
    assert {t.id for t in first} == {"t0", "t1", "t2"}
    for task, won in zip(tasks, (8, 9, 10), strict=True):
        data.observe(result(task, [1.0] * won + [0.0] * (10 - won)))
    assert data.solved == {"t1", "t2"}
    later = [data.plan(tasks, 1, step, 0)[0].task.id for step in range(3, 6)]
    assert later == ["t0"] * 3
    assert data.pruned == {"t1", "t2"}
    data.observe(result(tasks[0], [1.0] * 10))
    with pytest.warns(UserWarning, match="all 3 tasks are solved"):
        again = data.plan(tasks, 3, 6, 0)
    assert {p.task.id for p in again} == {"t0", "t1", "t2"}


def test_a_failed_group_gets_the_latest_success() -> None:
    data = FathomRAPO()
    task, other = (Task(f"t{i}", "?", ("a",)) for i in range(2))
    lost = result(task, [0.0, 0.1, 0.1])
    assert data.admit(lost) is lost  # nothing is stored yet
    for won in ([1.0, 0.0], [0.0, 0.9, 0.8]):
        data.observe(result(task, won))
        assert data.admit(won_group := result(task, won)) is won_group
    made = data.admit(lost)
    assert made is not None
    values = sorted(made.rewards.total)
    assert values == [*sorted(np.delete(lost.rewards.total, _place(lost, made))), 0.8]
    assert [m.purpose for m in made.group.members].count("replayed") == 1
    assert data.admit(foreign := result(other, [0.0, 0.0])) is foreign
    off = FathomRAPO(prune=2, inject=False)
    off.observe(result(task, [1.0]))
    assert off.admit(lost) is lost
    assert not off.solved


def _place(before: Scored, after: Scored) -> int:
    pairs = zip(before.group.members, after.group.members, strict=True)
    return next(i for i, (a, b) in enumerate(pairs) if a is not b)


@pytest.mark.parametrize("name", ["fathom_rapo", "spear"])
def test_a_killed_training_with_a_store_goes_on_as_if_it_had_not_been(
    name: str, tmp_path: Path
) -> None:
    table = dict(read(name))
    table["rollout"] = {"use": "chains", "size": 2}  # groups of two fail often
    if name == "spear":
        table["data"] = {"use": "self_imitation", "size": 2, "ready": 0.5}

    def run(steps: int, out: Path) -> tuple[list[dict[str, float]], Tensor]:
        made = trainer(table, 2, steps=steps, tasks=4, save_every=1, out=out)
        curve = [{k: v for k, v in m.items() if not k.endswith("_s")} for m in made.train()]
        return curve, weights(made.lm)

    whole, end = run(6, tmp_path / "whole")
    begun, _ = run(3, tmp_path / "cut")
    rest, resumed = run(6, tmp_path / "cut")
    assert begun + rest == whole
    assert torch.equal(end, resumed)
    if name == "spear":
        assert max(m["groups_replayed"] for m in rest) > 0


# --- SPEAR ------------------------------------------------------------------------------------
def test_spears_two_schedules() -> None:
    """The replay's weight rises 0, ½, 1, the tools' falls 1, ½, 0, over 200 steps."""
    schedule = Recipe.of("spear").schedule
    for step, up in ((0, 0.0), (100, 0.5), (200, 1.0), (5000, 1.0)):
        coef = schedule.coef(step, {})
        assert coef["replay"] == pytest.approx(up)
        assert coef["w_tool_use"] == pytest.approx(1 - up)


def test_the_bonus_for_tools_is_capped() -> None:
    scored = scored_group()
    (found,) = ToolBonus(each=0.1).measure([scored.group], None)  # type: ignore[arg-type]
    (much,) = ToolBonus(each=2.0).measure([scored.group], None)  # type: ignore[arg-type]
    searches = [m.episode.queries for m in scored.group.members]
    np.testing.assert_allclose(found["tool_use"], 0.1 * np.array(searches))
    assert set(much["tool_use"]) == {1.0}


def test_what_spear_stores_and_replays() -> None:
    """Members above their group's mean that searched; a power of two of those above the median of
    the means, once more than ready · size are stored, for max_age steps."""
    assert [power_of_two(n) for n in (1, 2, 3, 5, 8, 31)] == [1, 2, 2, 4, 8, 16]
    data = ReplayedSuccesses(size=3, ready=1.0, max_age=2)

    def show(step: int, rewards: list[float]) -> None:
        data.plan(TASKS, 1, step, 0)
        played = scored_group(size=len(rewards))
        values = np.array(rewards)
        data.observe(Scored(played.group, {}, Rewards(values)))

    show(0, [1.0, 1.0, 0.0, 0.0])  # mean ½: two stored
    show(0, [0.1, 0.0, 0.0, 0.0])  # mean .025: one stored, below the median
    assert data.replay(2, 0, 0) == []  # all of this very step
    assert data.replay(2, 1, 0) == []  # three are not more than three
    show(1, [1.0, 0.0])
    show(1, [1.0, 1.0])  # nothing above the mean
    # means ½, .025, ½, 1: median ½; of four stored ones three are above it, two are replayed
    again = data.replay(2, 2, 0)
    assert [s.rewards.total.tolist() for s in again] == [[1.0], [1.0]]
    assert {m.purpose for s in again for m in s.group.members} == {"replayed"}
    assert data.replay(2, 3, 0) == []  # those of step 0 are too old
    closed = ReplayedSuccesses()
    closed.plan(TASKS, 1, 0, 0)
    closed.observe(result(TASKS[0], [1.0, 0.0]))  # sample episodes do not search
    assert closed.state_dict()["stored"] == []


def test_replayed_members_are_compared_with_the_median_of_groups() -> None:
    """Means ½, 0, ¼: R - ¼, and what is no better is not trained on."""
    batch = sample_batch(0).take([0, 1, 2, 3, 4, 5, 6, 7])
    batch = replace(
        batch,
        reward=torch.tensor([1.0, 0, 0, 0, 0.5, 0, 1.0, 0.25]),
        group=torch.tensor([0, 0, 1, 1, 2, 2, 3, 4]),
        expert=torch.zeros(8).bool(),
        replayed=torch.arange(8) >= 6,
    )
    made = make("advantage", "self_imitation").estimate(batch, {})
    wide = made.adv if made.adv.ndim == 2 else made.adv[:, None] * batch.mask
    first = batch.mask.long().argmax(1)
    close(wide.gather(1, first[:, None])[:, 0], [0.5, -0.5, 0, 0, 0.25, -0.25, 0.75, 0])
    assert made.mask is not None
    assert made.mask.all(1).tolist() == [True] * 7 + [False]


def test_a_replayed_ratio_is_to_the_weights_that_drew_it() -> None:
    """ρ = 2 with A > 0 is clipped: no gradient. To the step's start it is 1."""
    batch = sample_batch(0).take([0, 1])
    now = batch.sampled_logp
    batch = replace(
        batch, sampled_logp=now - np.log(2), old_logp=now, credit=Estimate(torch.ones(2)),
        replayed=torch.tensor([False, True]), expert=torch.zeros(2).bool(),
    )  # fmt: skip

    def slope(ratio: str) -> Tensor:
        loss = make("loss", {"use": "among", "members": "replayed", "loss": "ppo", "ratio": ratio})
        logp = now.clone().requires_grad_()
        part = replace(batch, notes=dict(loss.prepare(batch, None, {})))
        return torch.autograd.grad(loss(Output(logp), part, part.totals, {})[0], logp)[0]

    assert not slope("sampled").any()
    assert slope("old")[1].any()


# --- KEPO -------------------------------------------------------------------------------------
def test_without_a_success_kepo_distils_nothing() -> None:
    batch = replace(sample_batch(0), reward=torch.zeros(15))
    made = make("advantage", Recipe.of("kepo").table["advantage"]).estimate(batch, {})
    assert not made.adv.any()
    won = replace(batch, reward=torch.ones(15))
    some = make("advantage", Recipe.of("kepo").table["advantage"]).estimate(won, {}).adv
    gap = won.need("old_logp") - won.need("teacher_logp")
    close(some, torch.where(won.mask, -0.05 * gap, 0.0))


# --- forward KL -------------------------------------------------------------------------------
def test_the_forward_kl_enumerated() -> None:
    """Of three tokens: the expected gradient on logits is π - π_ref, with a factor f on what the
    reference has it is Σ f π_ref (π - e_v); at equality it is 0, token by token."""
    logits = torch.tensor([0.3, -0.2, 1.0], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    pi = logits.softmax(0)

    def expected(factors: Tensor) -> Tensor:
        total = torch.zeros(3, dtype=torch.float64)
        for v in range(3):
            logp = logits.log_softmax(0)[v].view(1, 1)
            one, notes = torch.ones(1, 1).bool(), {"reference_weight": factors[v].view(1)}
            loss, _ = forward_kl_loss(logp, ref[v].log().view(1, 1), one, notes=notes)
            total += pi[v].detach() * torch.autograd.grad(loss, logits)[0]
        return total

    close(expected(torch.ones(3, dtype=torch.float64)), (pi - ref).detach(), 1e-9)
    f = torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
    cross = -(f * ref * logits.log_softmax(0)).sum()
    close(expected(f), torch.autograd.grad(cross, logits)[0], 1e-9)
    logp = torch.tensor([[-0.5, -2.0]], requires_grad=True)
    notes = {"reference_weight": torch.ones(1)}
    loss, stats = forward_kl_loss(logp, logp.detach(), torch.ones(1, 2).bool(), notes=notes)
    assert not torch.autograd.grad(loss, logp)[0].any()
    assert stats["kl"] == 0


def test_mass_that_the_reference_has_must_not_be_missing() -> None:
    """π_ref (½, ½) and π (.99, .01): the forward KL is 1.6145, more than the reverse's .6371, and
    grows without bound as the second token's probability falls."""

    def forward(p: float) -> float:
        pi = torch.tensor([1 - p, p], dtype=torch.float64)
        mean = 0.0
        for v in range(2):
            logp = pi[v].log().view(1, 1)
            half = torch.full((1, 1), 0.5, dtype=torch.float64).log()
            notes, one = {"reference_weight": torch.ones(1)}, torch.ones(1, 1).bool()
            _, stats = forward_kl_loss(logp, half, one, cap=1e9, notes=notes)
            mean += float(pi[v]) * stats["kl"]
        return mean

    assert forward(0.01) == pytest.approx(1.6145, abs=1e-4)
    assert forward(1e-4) > 3.9
    assert forward(0.5) == pytest.approx(0)


def test_rewarded_trajectories_weigh_more_in_the_reference() -> None:
    """exp(R): rewards 1 and 0 weigh 1.4621 and .5379, whose mean is 1; τ = ∞ is the plain KL."""
    batch = replace(sample_batch(0).take([0, 1]), reward=torch.tensor([1.0, 0.0]))
    note = make("loss", "forward_kl").prepare(batch, None, {})["reference_weight"]
    close(note, [1.4621, 0.5379])
    flat = make("loss", {"use": "forward_kl", "tau": None}).prepare(batch, None, {})
    close(flat["reference_weight"], [1, 1])


# --- RaPO's retention -------------------------------------------------------------------------
def test_retention_orders_members_and_remembers_its_scale() -> None:
    """Equal KL: GRPO's order. Equal rewards: the one that moved less is better."""
    batch = sample_batch(0).take([0, 1, 2, 3])
    same = replace(batch, ref_logp=batch.need("old_logp"), group=torch.zeros(4).long(),
                   reward=torch.tensor([1.0, 0.3, 0, 0]))  # fmt: skip
    close(retention(torch.tensor([0.0, 0.1, 0.2])), [1, 0.3679, 0.1353])
    adv = Retention().estimate(same, {}).adv
    grpo = make("advantage", "grpo").estimate(same, {}).adv
    assert adv.argsort(stable=True).tolist() == grpo.argsort(stable=True).tolist()
    assert float(adv.mean()) == pytest.approx(0, abs=1e-5)
    moved = torch.tensor([0.1, 0.2, 0.3, 0.4])[:, None]
    level = replace(same, reward=torch.ones(4), ref_logp=same.need("old_logp") - moved)
    assert Retention().estimate(level, {}).adv.argsort(descending=True).tolist() == [0, 1, 2, 3]
    # μ = ½, σ = ½ after the first task; the next one, of all failures, moves it by a tenth
    kept = Retention(weight=0.0)
    half = replace(same, reward=torch.tensor([1.0, 1, 0, 0]))
    close(kept.estimate(half, {}).adv, [1, 1, -1, -1])
    assert kept.scale == pytest.approx((0.5, 0.5))
    close(kept.estimate(replace(same, reward=torch.zeros(4)), {}).adv, [-1] * 4)
    assert kept.scale == pytest.approx((0.45, 0.45))


# --- C3PO -------------------------------------------------------------------------------------
def test_a_step_has_no_more_tokens_than_its_budget() -> None:
    batch = sample_batch(0)
    whole = int(batch.length.sum())
    for tokens in (1, 10, 25, whole, 1000):
        spec = {"use": "token_budget", "tokens": tokens}
        made = make("advantage", spec).estimate(batch, {})
        assert made.mask is not None
        kept = made.mask & batch.mask
        taken = int(kept.sum())
        longest = int(batch.length.max())
        assert 0 < taken <= max(tokens, longest)
        if tokens < whole:
            assert taken > tokens - longest or tokens < longest
        else:
            assert taken == whole
        close(made.adv, make("advantage", "grpo").estimate(batch, {}).adv)  # of all members
    estimator = make("advantage", {"use": "token_budget", "tokens": 10})
    one, two = (estimator.estimate(batch, {}).mask for _ in range(2))
    assert not torch.equal(one, two)  # another choice at the next step
