"""Worked numbers for advantages, losses and KL estimators."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.rl.advantage import enumerated_advantages, group_advantages
from searchgym.rl.loss import aggregate_tokens, kl, policy_loss


def test_group_advantages_worked_numbers():
    r, g = torch.tensor([1.0, 0, 0, 0]), torch.zeros(4, dtype=torch.long)
    close = {"atol": 1e-4, "rtol": 0}
    sample = group_advantages(r, g, eps=0)
    torch.testing.assert_close(sample, torch.tensor([1.5, -0.5, -0.5, -0.5]), **close)
    population = group_advantages(r, g, std="population", eps=0)
    torch.testing.assert_close(
        population, torch.tensor([1.7321, -0.5774, -0.5774, -0.5774]), **close
    )
    plain = group_advantages(r, g, scale="none")
    torch.testing.assert_close(plain, torch.tensor([0.75, -0.25, -0.25, -0.25]), **close)


def test_singleton_and_equal_groups_get_exactly_zero():
    r = torch.tensor([0.3, 0.7, 0.1, 0.1, 0.1])
    g = torch.tensor([5, 2, 9, 9, 9])
    for scale in ("std", "none"):
        assert group_advantages(r, g, scale=scale, eps=0).tolist() == [0.0] * 5


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-5, 5, width=32)), min_size=1, max_size=20))
def test_advantages_do_not_depend_on_order_and_sum_to_zero(rows):
    g = torch.tensor([a for a, _ in rows])
    r = torch.tensor([b for _, b in rows], dtype=torch.float64)
    adv = group_advantages(r, g, scale="none")
    for name in g.unique():
        assert abs(float(adv[g == name].sum())) < 1e-6
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    again = group_advantages(r[order], g[order], scale="none")
    torch.testing.assert_close(again, adv[order])


def test_scaling_rewards_changes_only_unscaled_advantages():
    r, g = torch.tensor([1.0, 0.2, 0.4, 0.9]), torch.tensor([0, 0, 1, 1])
    scaled = group_advantages(3 * r + 2, g, eps=0)
    torch.testing.assert_close(scaled, group_advantages(r, g, eps=0), atol=1e-5, rtol=0)
    doubled = group_advantages(2 * r, g, scale="none")
    torch.testing.assert_close(doubled, 2 * group_advantages(r, g, scale="none"))


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match="1-D"):
        group_advantages(torch.zeros(3), torch.zeros(2))


VALUES = torch.tensor([[1.0, 1, 9, 9], [0.5, 0.5, 0.5, 0.5]])
MASK = torch.tensor([[1.0, 1, 0, 0], [1, 1, 1, 1]])


@pytest.mark.parametrize(
    ("how", "norm", "expected"),
    [
        ("token-mean", None, 4 / 6),
        ("seq-mean-token-mean", None, 0.75),
        ("seq-mean-token-sum", None, 2.0),
        ("seq-mean-token-sum-norm", 8.0, 0.5),
        ("seq-mean-token-sum-norm", None, 1.0),
    ],
)
def test_aggregation(how, norm, expected):
    assert float(aggregate_tokens(VALUES, MASK, how, norm=norm)) == pytest.approx(expected)


def test_fully_masked_sequences_do_not_count():
    mask = torch.tensor([[0.0, 0, 0, 0], [1, 1, 1, 1]])
    assert float(aggregate_tokens(VALUES, mask, "seq-mean-token-sum")) == pytest.approx(2.0)
    assert float(aggregate_tokens(VALUES, torch.zeros(2, 4), "token-mean")) == 0.0


@pytest.mark.parametrize(
    ("ratio", "adv", "dual", "loss", "flat"),
    [
        (1.5, 1.0, None, -1.2, True),
        (1.5, -1.0, None, 1.5, False),
        (0.5, -1.0, None, 0.8, True),
        (4.0, -1.0, 3.0, 3.0, True),
        (1.0, 2.0, None, -2.0, False),
    ],
)
def test_clipped_surrogate(ratio, adv, dual, loss, flat):
    logp = torch.tensor([[math.log(ratio)]], requires_grad=True)
    got, _ = policy_loss(
        logp, torch.zeros(1, 1), torch.tensor([adv]), torch.ones(1, 1), dual_clip=dual
    )
    got.backward()
    assert float(got.detach()) == pytest.approx(loss, abs=1e-6)
    assert (float(logp.grad) == 0) == flat


def test_on_policy_gradient_is_reinforce():
    logp = torch.tensor([[-1.0, -2.0], [-0.5, -3.0]], requires_grad=True)
    adv = torch.tensor([0.7, -0.4])
    loss, stats = policy_loss(
        logp, logp.detach(), adv, torch.ones(2, 2), aggregate="seq-mean-token-sum"
    )
    loss.backward()
    torch.testing.assert_close(logp.grad, -adv[:, None].expand(2, 2) / 2)
    assert stats["ratio"] == pytest.approx(1)
    assert stats["clipped"] == 0


@pytest.mark.parametrize("how", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_masked_tokens_get_exactly_zero_gradient_even_if_not_finite(how):
    logp = torch.tensor([[-1.0, float("nan"), -2.0], [-1.0, -torch.inf, -0.1]], requires_grad=True)
    mask = torch.tensor([[1.0, 0, 1], [1, 0, 0]])
    loss, _ = policy_loss(logp, torch.zeros(2, 3), torch.tensor([1.0, -1.0]), mask, aggregate=how)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logp.grad).all()
    assert logp.grad[mask == 0].tolist() == [0.0] * 3


@pytest.mark.parametrize("how", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_splitting_a_batch_changes_nothing_with_global_counts(how):
    gen = torch.Generator().manual_seed(3)
    logp, old = torch.randn(6, 4, generator=gen), torch.randn(6, 4, generator=gen)
    adv = torch.randn(6, generator=gen)
    mask = (torch.rand(6, 4, generator=gen) > 0.3).float()
    counts = {"tokens": float(mask.sum()), "sequences": float((mask.sum(1) > 0).sum())}
    whole = policy_loss(logp, old, adv, mask, aggregate=how)[0]
    parts = [
        policy_loss(logp[s], old[s], adv[s], mask[s], aggregate=how, **counts)[0]
        for s in (slice(0, 1), slice(1, 4), slice(4, 6))
    ]
    torch.testing.assert_close(sum(parts), whole)


def test_kl_estimators():
    a, b = torch.tensor([-1.0]), torch.tensor([-1.5])
    assert float(kl(a, b, "k1")) == pytest.approx(0.5)
    assert float(kl(a, b, "k2")) == pytest.approx(0.125)
    assert float(kl(a, b, "k3")) == pytest.approx(0.10653, abs=1e-5)
    for how in ("k1", "k2", "k3"):
        assert float(kl(a, a, how)) == 0
    d = torch.linspace(-15, 15, 61)
    assert (kl(d, torch.zeros(61), "k3") >= 0).all()
    with pytest.raises(ValueError, match="k1, k2, k3"):
        kl(a, b, "k4")


def test_enumerated_advantages_worked_numbers():
    """Two actions worth 1 and 0 at odds .25 and .75: V = .25, best = 1."""
    logp = torch.tensor([0.25, 0.75]).log()
    got = enumerated_advantages(torch.tensor([1.0, 0.0]), logp, torch.tensor([0, 0]), 1)
    expected = torch.tensor([0.25 * 0.75, -0.75 * 0.25]) / 0.251
    assert torch.allclose(got, expected)
    assert got.sum().abs() < 1e-6


def test_enumerated_advantages_are_the_gradient_of_best_log_value():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, generator=generator, requires_grad=True)
    group = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    worth = torch.tensor([0.2, 0.0, 0.9, 0.0, 0.4, 0.1, 1.3])
    logp = torch.cat([logits[:3].log_softmax(0), logits[3:].log_softmax(0)])
    value = torch.zeros(2).index_add(0, group, logp.exp() * worth)
    best = torch.tensor([0.9, 1.0])
    (best * (value + 1e-3).log()).sum().backward()
    adv = enumerated_advantages(worth, logp, group, 2)
    by_hand = adv - torch.zeros(2).index_add(0, group, adv)[group] * logp.detach().exp()
    assert torch.allclose(logits.grad, by_hand, atol=2e-3)


def test_a_group_worth_nothing_teaches_nothing():
    logp = torch.tensor([0.5, 0.5]).log()
    got = enumerated_advantages(torch.zeros(2), logp, torch.tensor([0, 0]), 1)
    assert torch.equal(got, torch.zeros(2))
    with pytest.raises(ValueError, match="must be equal"):
        enumerated_advantages(torch.zeros(3), logp, torch.tensor([0, 0]), 1)
