"""Advantages of groups and batches: worked numbers, invariances, what cannot be compared gets 0."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from searchgym.rl.advantages.group_relative import (
    dr_grpo_advantages,
    grpo_advantages,
    rloo_advantages,
)
from searchgym.rl.advantages.reinforce import RunningMean
from searchgym.rl.ops.tokens import at_last_token, moments, whiten
from searchgym.rl.ops.turns import reward_to_go
from searchgym_agents.methods.opo import opo_advantages
from tests.rl.kernels import estimate, grpo_steps

NAN = float("nan")
ONE_WINNER = torch.tensor([1.0, 0, 0, 0])
TOGETHER = torch.zeros(4, dtype=torch.long)


GROUP_METHODS = {
    "grpo": lambda r, g: grpo_advantages(r, g, eps=0),
    "grpo-population": lambda r, g: grpo_advantages(r, g, std="population", eps=0),
    "dr_grpo": dr_grpo_advantages,
    "rloo": rloo_advantages,
    "opo": lambda r, g: opo_advantages(r, g, torch.ones(len(r))),
}
CENTRED = ("grpo", "grpo-population", "dr_grpo", "rloo", "opo")


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("grpo", [1.5, -0.5, -0.5, -0.5]),
        ("grpo-population", [1.73205, -0.57735, -0.57735, -0.57735]),
        ("dr_grpo", [0.75, -0.25, -0.25, -0.25]),
        ("rloo", [1, -1 / 3, -1 / 3, -1 / 3]),
    ],
)
def test_worked_numbers(method, expected):
    got = GROUP_METHODS[method](ONE_WINNER, TOGETHER)
    expected = torch.tensor(expected, dtype=torch.float32)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    whole_numbers = GROUP_METHODS[method](ONE_WINNER.long(), TOGETHER)
    assert torch.equal(whole_numbers, got)


def test_rloo_is_the_reward_minus_the_mean_of_the_others():
    reward, group = torch.tensor([0.3, 5, 0.9, 7, 0.1, 6]), torch.tensor([0, 1, 0, 1, 0, 1])
    others = torch.tensor([0.5, 6.5, 0.2, 5.5, 0.6, 6])
    torch.testing.assert_close(rloo_advantages(reward, group), reward - others)


def test_opo_weighs_by_length():
    got = opo_advantages(ONE_WINNER, TOGETHER, torch.tensor([10, 30, 30, 30]))
    torch.testing.assert_close(got, torch.tensor([0.9, -0.1, -0.1, -0.1]))
    got = opo_advantages(ONE_WINNER, TOGETHER, torch.tensor([0, 30, 30, 30]))
    assert got.tolist() == [0, 0, 0, 0]  # the winner has no token
    assert opo_advantages(ONE_WINNER, TOGETHER, torch.zeros(4)).tolist() == [0] * 4


@pytest.mark.parametrize("method", GROUP_METHODS)
def test_nothing_to_compare_gets_exactly_zero(method):
    """Groups of one, of equal rewards, with one scorable member, with none."""
    reward = torch.tensor([0.3, 0.1, 0.1, 0.1, 0.7, NAN, NAN, NAN])
    group = torch.tensor([5, 9, 9, 9, 2, 2, 3, 3])
    assert GROUP_METHODS[method](reward, group).tolist() == [0.0] * 8


@pytest.mark.parametrize("method", GROUP_METHODS)
def test_what_cannot_be_scored_is_as_if_it_were_not_there(method):
    reward, group = torch.tensor([1.0, NAN, 0.2, 0.5, NAN]), torch.tensor([0, 0, 0, 0, 7])
    got = GROUP_METHODS[method](reward, group)
    known = ~torch.isnan(reward)
    torch.testing.assert_close(got[known], GROUP_METHODS[method](reward[known], group[known]))
    assert got[~known].tolist() == [0, 0]
    assert got.abs().max() > 0


batches = st.lists(st.tuples(st.integers(0, 3), st.integers(-40, 40)), min_size=1, max_size=16).map(
    lambda rows: (
        torch.tensor([r / 8 for _, r in rows], dtype=torch.float64),
        torch.tensor([g for g, _ in rows]),
    )
)
"""(reward, group): a few groups, rewards that tie now and then."""


@given(batches, st.sampled_from(sorted(GROUP_METHODS)), st.randoms(use_true_random=False))
def test_order_and_names_of_groups_do_not_matter(batch, method, random):
    (reward, group), compute = batch, GROUP_METHODS[method]
    adv = compute(reward, group)
    assert torch.isfinite(adv).all()
    order = list(range(len(reward)))
    random.shuffle(order)
    torch.testing.assert_close(compute(reward[order], group[order]), adv[order])
    torch.testing.assert_close(compute(reward, 100 - 7 * group), adv)


@given(batches, st.sampled_from(CENTRED))
def test_centred_methods_sum_to_zero_in_every_group(batch, method):
    reward, group = batch
    adv = GROUP_METHODS[method](reward, group)
    for name in group.unique():
        assert abs(float(adv[group == name].sum())) < 1e-9


@given(batches, st.sampled_from([0.25, 3.0, 10.0]), st.sampled_from([-2.0, 0.5]))
def test_scaling_and_shifting_rewards(batch, a, b):
    reward, group = batch
    moved = a * reward + b
    for name in ("grpo", "grpo-population"):
        same = GROUP_METHODS[name](reward, group)
        torch.testing.assert_close(GROUP_METHODS[name](moved, group), same, atol=1e-7, rtol=1e-7)
    for name in ("dr_grpo", "rloo", "opo"):
        scaled = a * GROUP_METHODS[name](reward, group)
        torch.testing.assert_close(GROUP_METHODS[name](moved, group), scaled)


@settings(deadline=None, max_examples=30)
@given(batches)
def test_rloo_is_dr_grpo_times_g_over_g_minus_one(batch):
    reward, group = batch
    count = (group[:, None] == group[None, :]).sum(1)
    assume((count > 1).any())
    dr, rloo = dr_grpo_advantages(reward, group), rloo_advantages(reward, group)
    torch.testing.assert_close(rloo * (count - 1), dr * count)
    grpo = grpo_advantages(reward, group, std="population", eps=0)
    members = grpo[group == group[0]]
    if members.abs().max() > 0:
        assert float(members.square().mean()) == pytest.approx(1)


@pytest.mark.parametrize("method", GROUP_METHODS)
def test_group_advantages_are_detached(method):
    reward = torch.rand(4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert not GROUP_METHODS[method](reward, TOGETHER).requires_grad


@pytest.mark.parametrize("method", GROUP_METHODS)
def test_bad_shapes_are_named(method):
    with pytest.raises(ValueError, match=r"\(B,\), got reward \(3,\), group \(2,\)"):
        GROUP_METHODS[method](torch.zeros(3), torch.zeros(2))
    with pytest.raises(ValueError, match=r"\(B,\), got reward \(3, 1\)"):
        GROUP_METHODS[method](torch.zeros(3, 1), torch.zeros(3, 1))


MASK = torch.tensor([[1, 1, 0, 1], [1, 0, 0, 0]])
STEPS = torch.tensor([[0.0, 1, NAN, 2], [4, NAN, NAN, NAN]])


def test_reinforce():
    how = {"use": "reinforce", "baseline": 0.25}
    got = estimate(how, MASK, reward=torch.tensor([1.0, NAN]))
    assert got.adv.tolist() == [0.75, 0]


def test_a_running_mean_knows_only_the_past():
    mean = RunningMean()
    assert mean.value == 0
    mean.update(torch.tensor([1.0, 0, NAN]))
    mean.update(torch.tensor([NAN]))
    mean.update(torch.tensor([[1.0, 1], [1, 1]]))
    assert mean.value == pytest.approx(5 / 6)
    fast = RunningMean(momentum=0.5)
    for value in (4.0, 2.0, 0.0):
        fast.update(torch.tensor([value]))
    assert fast.value == pytest.approx(1.5)
    copy = RunningMean(momentum=0.5)
    copy.load_state_dict(fast.state_dict())
    assert copy == fast
    with pytest.raises(ValueError, match="momentum"):
        RunningMean(momentum=1.0)
    with pytest.raises(ValueError, match="infinite"):
        mean.update(torch.tensor([math.inf]))


def test_reinforce_pp():
    kl = torch.tensor([[0.5, -1, NAN, 0], [1, NAN, NAN, NAN]])
    how = {"old_logp": kl, "ref_logp": torch.zeros(2, 4), "beta": 0.1}
    got = estimate("reinforce_pp", MASK, turn_reward=STEPS, **how).adv
    shaped = torch.tensor([[-0.05, 1.1, 0, 2], [3.9, 0, 0, 0]])
    torch.testing.assert_close(got, whiten(reward_to_go(shaped, MASK), MASK))
    assert float(moments(got, MASK)[1]) == pytest.approx(1, abs=1e-5)
    once, tripled = (estimate("reinforce_pp", MASK, turn_reward=k * STEPS).adv for k in (1, 3))
    torch.testing.assert_close(tripled, once)


def test_reinforce_pp_baseline():
    reward, group = torch.tensor([1.0, 0, 0.5, NAN]), torch.tensor([0, 0, 1, 1])
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    got = estimate("reinforce_pp_baseline", mask, reward=reward, group=group).adv
    plain = torch.tensor([[0.5, 0.5, 0.5], [-0.5, 0, 0], [0, 0, 0], [0, 0, 0]])
    counted = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]])
    torch.testing.assert_close(got, whiten(plain, counted))
    assert got[3].tolist() == [0, 0, 0]
    equal = estimate("reinforce_pp_baseline", mask, reward=torch.ones(4), group=group).adv
    assert equal.abs().sum() == 0


def test_remax():
    paid = torch.tensor([1.0, 0.5])
    got = estimate("remax", MASK, reward=paid, baseline=torch.tensor([0.4, NAN])).adv
    torch.testing.assert_close(got, torch.tensor([[0.6, 0.6, 0, 0.6], [0, 0, 0, 0]]))
    shaped = at_last_token(paid, MASK) - 0.1 * MASK  # a penalty of .1 on each of three tokens
    got = estimate("remax", MASK, turn_reward=shaped, baseline=torch.tensor([0.4, 0.0])).adv
    torch.testing.assert_close(got, torch.tensor([[0.3, 0.4, 0, 0.5], [0.4, 0, 0, 0]]))


def test_process_rewards_are_normalised_together_and_summed():
    turn = torch.tensor([[0, 0, 1, 1], [0, 1, 2, 3]])
    group = torch.zeros(2)
    z = (torch.tensor([1.0, 2, 4]) - 7 / 3) / torch.tensor([1.0, 2, 4]).std()
    got = grpo_steps(STEPS, turn, group, MASK, eps=0)
    expected = torch.tensor([[z[0] + z[1], z[0] + z[1], 0, z[1]], [z[2], 0, 0, 0]])
    torch.testing.assert_close(got, expected)
    # one step per trajectory, at its end: GRPO
    outcome = torch.tensor([1.0, 0.3])
    last = at_last_token(outcome, MASK)
    one = grpo_steps(last, turn * 0, group, MASK)
    torch.testing.assert_close(one[:, 0], grpo_advantages(outcome, group))


def test_distillation():
    student = torch.tensor([[-1.0, -2, NAN, -0.5], [-1, NAN, NAN, NAN]])
    teacher = torch.tensor([[-1.5, -1, NAN, -0.5], [-3, NAN, NAN, NAN]])
    both = {"old_logp": student, "teacher_logp": teacher}
    alone = estimate("distillation", MASK, **both).adv
    torch.testing.assert_close(alone, torch.tensor([[-0.5, 1, 0, 0], [-2, 0, 0, 0]]))
    over = {"base": {"use": "reinforce", "baseline": 0.0}, "reward": torch.tensor([1.0, -1.0])}
    same = estimate("distillation", MASK, **{**both, "teacher_logp": student}, **over).adv
    assert same.tolist() == [[1, 1, 0, 1], [-1, 0, 0, 0]]
    failed = estimate("distillation", MASK, **both, **over, weight=0.05, gate="failed").adv
    torch.testing.assert_close(failed, torch.tensor([[1, 1, 0, 1], [-1.1, 0, 0, 0]]))
