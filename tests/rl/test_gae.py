"""Returns, turns and GAE: worked numbers, and that masked tokens are stepped over."""

import pytest
import torch

from searchgym.rl.ops.tokens import moments
from searchgym.rl.ops.turns import (
    bi_level_gae,
    next_unmasked,
    over_turn,
    reward_to_go,
    token_gae,
    turn_ends,
    turn_gae,
    turn_starts,
)
from tests.rl.kernels import estimate

NAN = float("nan")
MASK = torch.tensor([[1, 1, 0, 1, 1]])
REWARD = torch.tensor([[0.0, 0, NAN, 0, 1]])
VALUE = torch.tensor([[0.5, 0.5, 99, 0.6, 0.7]])


def test_returns_are_carried_through_masked_tokens():
    assert reward_to_go(REWARD, MASK).tolist() == [[1, 1, 0, 1, 1]]
    discounted = reward_to_go(REWARD, MASK, 0.5)
    assert discounted.tolist() == [[0.125, 0.25, 0, 0.5, 1]]  # an observation costs no discount
    nothing = reward_to_go(torch.zeros(2, 0), torch.zeros(2, 0))
    assert nothing.shape == (2, 0)


def test_an_unscorable_reward_must_be_masked():
    with pytest.raises(ValueError, match="not finite"):
        reward_to_go(REWARD, torch.ones(1, 5))


@pytest.mark.parametrize(
    ("lam", "expected"),
    [
        (1.0, [0.5, 0.5, 0, 0.4, 0.3]),
        (0.0, [0, 0.1, 0, 0.1, 0.3]),
        (0.95, [0.44246, 0.46575, 0, 0.385, 0.3]),
    ],
)
def test_token_gae(lam, expected):
    adv, returns = token_gae(REWARD, VALUE, MASK, lam=lam)
    torch.testing.assert_close(adv, torch.tensor([expected]), atol=5e-6, rtol=0)
    torch.testing.assert_close(returns, (adv + VALUE) * MASK)
    other = VALUE.clone()
    other[0, 2] = NAN
    assert torch.equal(token_gae(REWARD, other, MASK, lam=lam)[0], adv)


def test_gae_is_the_return_where_values_are_zero():
    reward = torch.tensor([[1.0, 2.0, 0.0, 3.0]])
    mask = torch.tensor([[1, 1, 0, 1]])
    adv, _ = token_gae(reward, torch.zeros(1, 4), mask, gamma=0.9, lam=1.0)
    torch.testing.assert_close(adv, reward_to_go(reward, mask, 0.9))


TURN = torch.tensor([[0, 0, -7, 1, 4, 4]])
TURN_MASK = torch.tensor([[1, 1, 0, 1, 1, 1]])


def test_turns_that_abut_are_told_apart():
    assert turn_ends(TURN, TURN_MASK).tolist() == [[False, True, False, True, False, True]]
    assert turn_starts(TURN, TURN_MASK).tolist() == [[True, False, False, True, True, False]]
    x = torch.tensor([[1.0, 2, NAN, 3, 4, 5]])
    assert over_turn(x, TURN, TURN_MASK).tolist() == [[3, 3, 0, 3, 9, 9]]
    assert next_unmasked(x, TURN_MASK, end=-1).tolist() == [[2, 3, 3, 4, 5, -1]]
    with pytest.raises(ValueError, match="decrease"):
        turn_ends(torch.tensor([[1, 0]]), torch.ones(1, 2))
    nothing = torch.zeros(1, 6)
    assert not turn_ends(TURN, nothing).any()
    assert not turn_starts(TURN, nothing).any()


@pytest.mark.parametrize(("lam", "expected"), [(1.0, [0.7, 0.5, 0.4]), (0.95, [0.656, 0.48, 0.4])])
def test_turn_gae(lam, expected):
    """Three turns of 2, 1 and 2 tokens with an observation between; only first values matter."""
    value = torch.tensor([[0.3, 7.0, NAN, 0.5, 0.6, 9.0]])
    reward = torch.tensor([[0.0, 0, NAN, 0, 0, 1]])
    adv, returns = turn_gae(reward, value, TURN, TURN_MASK, lam=lam)
    a, b, c = expected
    torch.testing.assert_close(adv, torch.tensor([[a, a, 0, b, c, c]]), atol=5e-5, rtol=0)
    starts = turn_starts(TURN, TURN_MASK)
    torch.testing.assert_close(returns, torch.where(starts, adv + value, 0.0))
    assert not torch.isnan(returns).any()
    moved = value.clone()
    moved[0, 1] = moved[0, 5] = -50.0
    torch.testing.assert_close(turn_gae(reward, moved, TURN, TURN_MASK, lam=lam)[0], adv)


def test_turn_gae_of_one_token_turns_is_token_gae():
    turns = torch.arange(5)[None]
    for ours, tokens in zip(
        turn_gae(REWARD, VALUE, turns, MASK, gamma=0.9, lam=0.8),
        token_gae(REWARD, VALUE, MASK, gamma=0.9, lam=0.8),
        strict=True,
    ):
        torch.testing.assert_close(ours, tokens)


def test_bi_level_gae_by_hand():
    """Two turns of two tokens; γ_turn .5, λ 1, γ 1; values .1 .2 | .3 .4; reward 1 at the end.

    Between turns: A₂ = 1 - .4 = .6, A₁ = 0 + .5·.4 - .2 + .5·.6 = .3, returns .5 and 1.
    Within: ends A = return - V = .3 and .6; firsts: V_next - V + A_next = .1 + .3 and .1 + .6.
    """
    mask, turn = torch.tensor([[1, 1, 0, 1, 1]]), torch.tensor([[0, 0, 9, 1, 1]])
    value = torch.tensor([[0.1, 0.2, NAN, 0.3, 0.4]])
    adv, returns = bi_level_gae(REWARD, value, turn, mask, turn_gamma=0.5)
    torch.testing.assert_close(adv, torch.tensor([[0.4, 0.3, 0, 0.7, 0.6]]))
    torch.testing.assert_close(returns, torch.tensor([[0.5, 0.5, 0, 1, 1]]))


def test_a_turn_without_reward_does_not_merge():
    """γ_turn counts turns, so a middle turn without reward costs the first one a discount."""
    mask, turn = torch.ones(1, 3), torch.arange(3)[None]
    reward = torch.tensor([[0.0, 0, 1]])
    adv, _ = bi_level_gae(reward, torch.zeros(1, 3), turn, mask, turn_gamma=0.5)
    assert adv.tolist() == [[0.25, 0.5, 1]]


def test_bi_level_gae_with_one_turn_is_token_gae():
    turn = torch.zeros(1, 5, dtype=torch.long)
    one = bi_level_gae(REWARD, VALUE, turn, MASK, gamma=0.9, lam=0.8)
    for ours, tokens in zip(one, token_gae(REWARD, VALUE, MASK, gamma=0.9, lam=0.8), strict=True):
        torch.testing.assert_close(ours, tokens)


@pytest.mark.parametrize("method", ["token", "turn", "bi-level"])
def test_ppo_advantages_are_whitened(method):
    draw = torch.Generator().manual_seed(0)
    reward, value = torch.randn(4, 6, generator=draw), torch.randn(4, 6, generator=draw)
    mask, turn = TURN_MASK.expand(4, 6), TURN.expand(4, 6)
    given = {"turn_reward": reward, "value": value, "turn": turn}
    made = estimate("ppo", mask, **given, level=method, lam=0.95)
    adv, returns = made.adv, made.returns
    mean, var = moments(adv, mask)
    assert float(mean) == pytest.approx(0, abs=1e-5)
    assert float(var) == pytest.approx(1, abs=1e-5)
    assert adv[mask == 0].abs().sum() == 0
    assert returns[mask == 0].abs().sum() == 0
    assert returns.abs().sum() > 1
