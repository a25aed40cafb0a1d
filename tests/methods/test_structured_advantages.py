"""Worked numbers of methods that know more of a trajectory than its reward: how often it searched,
where its turns began, what each turn earned."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from searchgym.errors import CardError
from searchgym.rl import dr_grpo_advantages, grpo_advantages, turn_ends
from tests.rl.kernels import estimate, grpo_steps, stratified

R = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
ONE = torch.zeros(5)
STRATA = torch.tensor([1.0, 1.0, 2.0, 2.0, 2.0])


def close(got: Tensor, want: Any, atol: float = 1e-4) -> None:
    torch.testing.assert_close(got, torch.as_tensor(want, dtype=got.dtype), atol=atol, rtol=0)


# --- Stratified GRPO --------------------------------------------------------------------------
def test_stratified_worked() -> None:
    inside = stratified(R, ONE, STRATA, alpha=1.0, eps=0)
    close(inside, [1, -1, 0.7071, 0.7071, -1.4142])
    close(
        grpo_advantages(R, ONE, std="population", eps=0), [0.8165, -1.2247, 0.8165, 0.8165, -1.2247]
    )
    mixed = stratified(R, ONE, STRATA, alpha=0.5, eps=0)
    close(mixed, [0.9082, -1.1124, 0.7618, 0.7618, -1.3195], atol=2e-4)


def test_stratified_is_standard_in_each_stratum_and_overall() -> None:
    inside = stratified(R, ONE, STRATA, alpha=1.0, eps=0)
    for part in (inside[:2], inside[2:], inside):
        close(part.mean(), 0.0, 1e-6)
        close(part.var(correction=0), 1.0, 1e-5)


def test_stratified_is_grpo_without_strata() -> None:
    whole = grpo_advantages(R, ONE, std="population")
    close(stratified(R, ONE, torch.ones(5), alpha=0.7), whole, 1e-6)
    close(stratified(R, ONE, STRATA, alpha=0.0), whole, 1e-6)


def test_strata_of_other_groups_are_others() -> None:
    other = torch.tensor([0.0, 1, 0.5, 0.1, 0.9])
    got = stratified(torch.cat([R, other]), torch.cat([ONE, ONE + 1]), torch.cat([STRATA, STRATA]))
    apart = [stratified(r, ONE, STRATA) for r in (R, other)]
    close(got, torch.cat(apart), 1e-6)


def test_stratified_removes_what_strata_differ_by() -> None:
    """A_G - A_S is a constant in each stratum, and their variances differ by that of the means."""
    whole, inside = dr_grpo_advantages(R, ONE), dr_grpo_advantages(R, STRATA)
    apart = whole - inside
    assert apart[:2].unique().numel() == 1
    close(apart[2:], apart[2].expand(3), 1e-6)
    close(whole.var(correction=0) - inside.var(correction=0), 0.006667, 1e-6)


def test_a_stratum_of_one_compares_with_the_group_alone() -> None:
    alone = torch.tensor([1.0, 2, 2, 2, 2])
    got = stratified(R, ONE, alone, alpha=0.5)
    close(got[0], 0.5 * grpo_advantages(R, ONE, std="population")[0], 1e-6)
    with pytest.raises(CardError, match="alpha"):
        stratified(R, ONE, alone, alpha=1.5)


@pytest.mark.parametrize(("scale", "shift"), [(3.0, -2.0), (0.1, 7.0)])
def test_stratified_does_not_see_scale_or_shift(scale: float, shift: float) -> None:
    got = stratified(scale * R + shift, ONE, STRATA, eps=0)
    close(got, stratified(R, ONE, STRATA, eps=0), 1e-4)


# --- GiGPO ------------------------------------------------------------------------------------
TWO = torch.ones(2, 2)
TURNS = torch.tensor([[0, 1], [0, 1]])
PAID = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
TOTAL = PAID.sum(1)
PAIR = torch.zeros(2)


def gigpo(
    total: Tensor, paid: Tensor, anchor: Tensor, group: Tensor = PAIR, turn: Tensor = TURNS,
    mask: Tensor = TWO, **options: Any,
) -> Tensor:  # fmt: skip
    given = {"reward": total, "turn_reward": paid, "signals": {"anchor": anchor}}
    return estimate("gigpo", mask, **given, group=group, turn=turn, **options).adv


def test_gigpo_worked() -> None:
    """The same first state, different second ones."""
    anchor = torch.tensor([[0, 1], [0, 2]])
    got = gigpo(TOTAL, PAID, anchor)
    close(got, [[0.975, 0.5], [-0.975, -0.5]])


def test_gigpo_without_common_states_compares_episodes() -> None:
    got = gigpo(TOTAL, PAID, torch.tensor([[0, 1], [2, 3]]))
    close(got, [[0.5, 0.5], [-0.5, -0.5]])
    none = gigpo(TOTAL, PAID, torch.zeros(2, 2), weight=0.0)
    close(none, [[0.5, 0.5], [-0.5, -0.5]])


def test_gigpo_counts_each_trajectory_once() -> None:
    """One of three turns, one of one: the mean of episodes is .5, not .25 or .75."""
    turn = torch.tensor([[0, 1, 2], [0, 0, 0]])
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    paid = torch.tensor([[0.0, 0, 1], [0, 0, 0]])
    got = gigpo(paid.sum(1), paid, torch.arange(6).view(2, 3), PAIR, turn, mask)
    close(got, [[0.5, 0.5, 0.5], [-0.5, 0, 0]])


def test_gigpo_states_of_other_groups_are_others() -> None:
    anchor = torch.zeros(2, 2, dtype=torch.long)  # the same number in both groups
    anchor[:, 1] = 1
    got = gigpo(TOTAL, PAID, anchor, torch.tensor([0, 1]))
    close(got, torch.zeros(2, 2))


def test_gigpo_in_standard_deviations_and_with_unscorable_ones() -> None:
    anchor = torch.tensor([[0, 1], [0, 2], [0, 3]])
    total, paid = torch.tensor([1.0, 0, float("nan")]), torch.cat([PAID, PAID[:1]])
    turn, mask, group = TURNS[:1].expand(3, 2), torch.ones(3, 2), torch.zeros(3)
    got = gigpo(total, paid, anchor, group, turn, mask, norm="mean_std")
    close(got, [[1.4142, 0.7071], [-1.4142, -0.7071], [0, 0]])


# --- GRPO on steps: IGPO ----------------------------------------------------------------------
def test_igpo_worked() -> None:
    """p = (.1, .3, .2) and R = 1 beside a trajectory of two turns that learnt nothing, R = 0."""
    reward = torch.tensor([[0.2, -0.1, 1.0], [0.0, 0.0, 0.0]])
    turn = torch.tensor([[0, 1, 2], [0, 1, 1]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    ends = turn_ends(turn, mask)
    z = grpo_advantages(reward[ends], torch.zeros(5), eps=0)
    close(z, [-0.0445, -0.7120, 1.7355, -0.4895, -0.4895])
    got = grpo_steps(reward, turn, PAIR, mask, eps=0)
    close(got, [[0.9790, 1.0235, 1.7355], [-0.9790, -0.4895, 0]])
    later = grpo_steps(reward, turn, PAIR, mask, eps=0, gamma=0.5)
    close(later[0], [-0.0445 + 0.5 * (-0.712 + 0.5 * 1.7355), -0.712 + 0.5 * 1.7355, 1.7355])


def test_a_discount_per_step_does_not_count_tokens() -> None:
    """The same steps written with one token each, or with three and search results between."""
    short = torch.tensor([[0.5, 1.0], [0.0, 0.0]])
    turn, mask = TURNS, TWO
    want = grpo_steps(short, turn, PAIR, mask, gamma=0.7)
    places = [2, 6]
    long_turn = torch.tensor([[0, 0, 0, 0, 1, 1, 1]] * 2)
    long_mask = torch.tensor([[1, 1, 1, 0, 1, 1, 1]] * 2)
    reward = torch.zeros(2, 7)
    reward[:, places] = short
    got = grpo_steps(reward, long_turn, PAIR, long_mask, gamma=0.7)
    close(got[:, :3], want[:, :1].expand(2, 3), 1e-6)
    close(got[:, 4:], want[:, 1:].expand(2, 3), 1e-6)
    close(got[:, 3], torch.zeros(2), 0)


def test_one_turn_each_is_grpo() -> None:
    mask = torch.ones(5, 1)
    got = grpo_steps(R[:, None], torch.zeros(5, 1).long(), ONE, mask)
    close(got[:, 0], grpo_advantages(R, ONE), 1e-6)


def test_a_group_of_failures_learns_from_what_it_found() -> None:
    reward = torch.tensor([[0.4, 0.0], [0.0, 0.0]])  # both wrong; the first one found something
    got = grpo_steps(reward, TURNS, PAIR, TWO)
    assert got[0, 0] > got[1, 0]
    assert float(got.abs().max()) > 0.5
