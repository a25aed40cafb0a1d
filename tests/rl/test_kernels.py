"""Worked numbers of the kernels, and the shapes they refuse."""

import math

import pytest
import torch

from searchgym.rl.ops.groups import RewardGroups
from searchgym.rl.ops.ratios import (
    adapted_kl_coefficient,
    clipped_surrogate,
    kl,
    mean_ratio,
    token_ratio,
    truncated_weight,
)
from searchgym.rl.ops.tokens import (
    aggregate_tokens,
    at_last_token,
    masked,
    masked_mean,
    moments,
    spread,
    whiten,
)
from searchgym.rl.rewards import overlong_penalty
from searchgym_agents.methods.clip_cov import clip_cov_weight, covariance, kl_cov_tokens
from searchgym_agents.methods.kimi import length_reward

NAN = float("nan")
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
    assert float(aggregate_tokens(VALUES, MASK.bool(), how, norm=norm)) == pytest.approx(expected)


def test_fully_masked_sequences_do_not_count():
    mask = torch.tensor([[0.0, 0, 0, 0], [1, 1, 1, 1]])
    assert float(aggregate_tokens(VALUES, mask, "seq-mean-token-sum")) == pytest.approx(2.0)
    assert float(aggregate_tokens(VALUES, mask, "seq-mean-token-mean")) == pytest.approx(0.5)
    assert float(aggregate_tokens(VALUES, torch.zeros(2, 4), "token-mean")) == 0.0


def test_aggregation_refuses_what_it_cannot_mean():
    with pytest.raises(ValueError, match="token-mean, seq-mean"):
        aggregate_tokens(VALUES, MASK, "mean")
    with pytest.raises(ValueError, match="norm divides a loss and must be positive, got 0"):
        aggregate_tokens(VALUES, MASK, "seq-mean-token-sum-norm", norm=0)
    with pytest.raises(ValueError, match=r"expected equal shapes \(B, T\), got values \(2, 4\)"):
        aggregate_tokens(VALUES, MASK[:, 0], "token-mean")


@pytest.mark.parametrize(
    ("ratio", "adv", "dual", "loss", "clipped"),
    [
        (1.5, 1.0, None, -1.2, True),
        (1.5, -1.0, None, 1.5, False),
        (0.5, -1.0, None, 0.8, True),
        (0.5, 1.0, None, -0.5, False),
        (4.0, -1.0, 3.0, 3.0, True),
        (4.0, -1.0, None, 4.0, False),
        (2.5, -1.0, 3.0, 2.5, False),
        (1.0, 2.0, None, -2.0, False),
    ],
)
def test_clipped_surrogate(ratio, adv, dual, loss, clipped):
    ratio = torch.tensor([ratio], requires_grad=True)
    got, flag = clipped_surrogate(ratio, torch.tensor([adv]), dual=dual)
    got.sum().backward()
    assert float(got.detach()) == pytest.approx(loss, abs=1e-6)
    assert flag.item() == clipped
    assert (ratio.grad.item() == 0) == clipped


def test_a_clip_of_its_own_for_each_token():
    ratio, adv = torch.tensor([1.5, 1.5]), torch.ones(2)
    loss, clipped = clipped_surrogate(ratio, adv, high=torch.tensor([0.2, 0.6]))
    torch.testing.assert_close(loss, torch.tensor([-1.2, -1.5]))
    assert clipped.tolist() == [True, False]
    with pytest.raises(ValueError, match="greater than 1, got 1"):
        clipped_surrogate(ratio, adv, dual=1.0)


def test_kl_estimators():
    a, b = torch.tensor([-1.0]), torch.tensor([-1.5])
    worked = {"k1": 0.5, "k2": 0.125, "k3": 0.10653, "k3+": 0.10653, "abs": 0.5}
    for how, expected in worked.items():
        assert float(kl(a, b, how)) == pytest.approx(expected, abs=1e-5)
        assert float(kl(a, a, how)) == 0
    d = torch.linspace(-60, 60, 61)
    assert (kl(d, torch.zeros(61), "k3") >= 0).all()
    assert kl(d, torch.zeros(61), "k3").max() == 10
    with pytest.raises(ValueError, match="k1, k2, k3"):
        kl(a, b, "k4")
    with pytest.raises(ValueError, match="expected equal shapes"):
        kl(a, b[0], "k1")


def test_only_k2_has_the_gradient_of_the_kl():
    """Over all four tokens, weighted with their odds: ∇KL, and what each estimator has instead."""
    logits = torch.tensor([0.3, -0.2, 1.0, 0.1], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([1.0, 0.4, -0.3, 0.0], dtype=torch.float64).log_softmax(0)
    logp = logits.log_softmax(0)
    odds = logp.exp().detach()
    true = torch.autograd.grad((logp.exp() * (logp - ref)).sum(), logits, retain_graph=True)[0]

    def gradient(how):
        return torch.autograd.grad((odds * kl(logp, ref, how)).sum(), logits, retain_graph=True)[0]

    torch.testing.assert_close(gradient("k2"), true)
    torch.testing.assert_close(gradient("k3+"), true)
    torch.testing.assert_close(gradient("k1"), torch.zeros_like(true))
    assert not torch.allclose(gradient("k3"), true, atol=1e-2)
    for how in ("k1", "k3"):  # unbiased as values
        value = (odds * kl(logp, ref, how)).sum()
        torch.testing.assert_close(value, (odds * (logp - ref)).sum())


def test_adaptive_kl_coefficient():
    adapt = adapted_kl_coefficient
    assert adapt(0.001, 0.1, 10_000) == 0.001
    assert adapt(0.001, 9.0, 10_000) == pytest.approx(0.0012)
    assert adapt(0.001, 0.0, 10_000) == pytest.approx(0.0008)
    assert adapt(0.001, 0.11, 5_000) == pytest.approx(0.001 * (1 + 0.1 * 0.5))
    with pytest.raises(ValueError, match="target > 0"):
        adapt(0.001, 0.1, 10, target=0)


def test_masking_and_spreading():
    x = torch.tensor([[1.0, NAN], [math.inf, 2.0]])
    mask = torch.tensor([[1, 0], [0, 1]])
    assert masked(x, mask).tolist() == [[1, 0], [0, 2]]
    assert masked_mean(x, mask) == 1.5
    assert masked_mean(x, torch.zeros(2, 2)) == 0
    assert spread(torch.tensor([3.0, 4.0]), mask).tolist() == [[3, 0], [0, 4]]
    for wrong in (torch.zeros(3), torch.zeros(2, 1), torch.zeros(1, 2)):
        with pytest.raises(ValueError, match="beside a"):
            spread(wrong, mask)
    last = at_last_token(
        torch.tensor([5.0, 6.0, 7.0]), torch.tensor([[1, 1, 0], [1, 0, 1], [0] * 3])
    )
    assert last.tolist() == [[0, 5, 0], [0, 0, 6], [0, 0, 0]]


def test_whitening():
    x = torch.tensor([[1.0, 2.0, NAN], [3.0, 6.0, 100.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    mean, var = moments(x, mask)
    assert float(mean) == 3
    assert float(var) == pytest.approx(14 / 3)  # sample variance
    white = whiten(x, mask)
    assert white[0, 2] == white[1, 2] == 0
    new = moments(white, mask)
    assert float(new[0]) == pytest.approx(0, abs=1e-6)
    assert float(new[1]) == pytest.approx(1, abs=1e-6)
    parts = [whiten(x[i : i + 1], mask[i : i + 1], mean=mean, var=var) for i in (0, 1)]
    torch.testing.assert_close(torch.cat(parts), white)
    assert whiten(torch.full((2, 3), 0.1), mask).tolist() == [[0] * 3] * 2
    assert whiten(x, torch.zeros(2, 3)).tolist() == [[0] * 3] * 2
    with pytest.raises(ValueError, match="both mean and var"):
        whiten(x, mask, mean=mean)


def test_ratios():
    logp = torch.tensor([[0.3, -0.1, NAN, 0.1, 0.1]], requires_grad=True)
    mask, old = torch.tensor([[1, 1, 0, 1, 1]]), torch.zeros(1, 5)
    sequence = mean_ratio(logp, old, mask)
    expected = torch.tensor([[1.10517, 1.10517, 1, 1.10517, 1.10517]])
    torch.testing.assert_close(sequence, expected, atol=1e-5, rtol=0)
    sequence[0, 0].backward()
    torch.testing.assert_close(logp.grad, torch.tensor([[1.10517, 0, 0, 0, 0]]))
    turns = mean_ratio(logp, old, mask, torch.tensor([[0, 0, 0, 3, 3]])).log().detach()
    torch.testing.assert_close(turns, torch.tensor([[0.1, 0.1, 0, 0.1, 0.1]]))
    turns = mean_ratio(logp, old, mask, torch.tensor([[0, 1, 1, 1, 3]])).log().detach()
    torch.testing.assert_close(turns, torch.tensor([[0.3, 0, 0, 0, 0.1]]))
    far = torch.tensor([[1e4, -1e4]])
    assert torch.isfinite(token_ratio(far, torch.zeros(1, 2), torch.ones(1, 2))).all()


def test_truncated_weights():
    new, old = torch.tensor([[2.0, 3.0, 1.0]]).log(), torch.ones(1, 3).log()
    mask = torch.tensor([[1, 1, 0]])
    assert truncated_weight(new, old, mask).tolist()[0] == pytest.approx([2, 2, 0])
    assert truncated_weight(new, old, mask, cap=2.5).tolist()[0] == pytest.approx([2, 2.5, 0])
    whole = truncated_weight(new, old, mask, cap=10, level="sequence").tolist()[0]
    assert whole == pytest.approx([6, 6, 0])
    assert truncated_weight(old, old, mask, level="sequence").tolist() == [[1, 1, 0]]
    assert not truncated_weight(new.requires_grad_(), old, mask).requires_grad
    with pytest.raises(ValueError, match="token, sequence"):
        truncated_weight(new, old, mask, level="turn")


def test_group_statistics():
    reward = torch.tensor([1.0, 0.5, NAN, 0.0, NAN])
    groups = RewardGroups(reward, torch.tensor([7, 2, 7, 7, -1]))
    assert groups.count.tolist() == [0, 1, 2]
    assert groups.mean.tolist() == [0, 0.5, 0.5]
    assert groups.differs.tolist() == [True, False, False, True, False]
    assert groups.std("sample").tolist() == pytest.approx([0, 0, math.sqrt(0.5)])
    assert groups.std("population").tolist() == pytest.approx([0, 0, 0.5])
    with pytest.raises(ValueError, match="sample, population"):
        groups.std("both")
    with pytest.raises(ValueError, match="infinite"):
        RewardGroups(torch.tensor([math.inf]), torch.tensor([0]))
    with pytest.raises(ValueError, match=r"reward \(3,\), group \(2,\)"):
        RewardGroups(torch.zeros(3), torch.zeros(2))


def test_covariance():
    adv = torch.tensor([[1.0, -1.0, 50.0], [2.0, -2.0, 0.0]])
    logp = torch.tensor([[-1.0, -3.0, NAN], [-2.0, -6.0, 0.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    # means 0 and -3
    assert covariance(adv, logp, mask).tolist() == [[2, 0, 0], [2, 6, 0]]


def test_clip_cov_silences_a_few_tokens_between_the_bounds():
    draw = torch.Generator().manual_seed(0)
    adv, logp = torch.randn(30, 40, generator=draw) * 3, torch.randn(30, 40, generator=draw) * 2
    mask = (torch.rand(30, 40, generator=draw) > 0.2).int()
    clipped = torch.rand(30, 40, generator=draw) > 0.5
    seed = torch.Generator().manual_seed(1)
    weight = clip_cov_weight(adv, logp, mask, clipped, generator=seed, share=0.05)
    silent, cov = weight == 0, covariance(adv, logp, mask)
    assert int(silent.sum()) == int(0.05 * int(mask.sum()))
    assert (mask[silent] == 1).all()
    assert not clipped[silent].any()
    assert (cov[silent] > 1).all()
    assert (cov[silent] < 5).all()
    assert ((weight == 0) | (weight == 1)).all()
    again = clip_cov_weight(
        adv, logp, mask, clipped, generator=torch.Generator().manual_seed(1), share=0.05
    )
    assert torch.equal(weight, again)
    one = clip_cov_weight(adv, logp, mask, clipped, generator=seed, share=1e-9)
    assert int((one == 0).sum()) == 1
    none = clip_cov_weight(adv, logp, mask, clipped, generator=seed, low=1e6, high=1e7)
    assert (none == 1).all()


def test_kl_cov_chooses_the_highest():
    adv = torch.tensor([[1.0, -1.0, 90.0], [2.0, -2.0, 0.0]])
    logp = torch.tensor([[-1.0, -3.0, 80.0], [-2.0, -6.0, 0.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    assert kl_cov_tokens(adv, logp, mask).tolist() == [[0, 0, 0], [0, 1, 0]]
    assert kl_cov_tokens(adv, logp, mask, share=1.0).tolist() == [[1, 1, 0], [1, 1, 0]]
    assert kl_cov_tokens(adv, logp, torch.zeros(2, 3)).sum() == 0


def test_overlong_penalty():
    length = torch.tensor([10, 16_384, 18_432, 20_480, 30_000])
    assert overlong_penalty(length).tolist() == [0, 0, -0.5, -1, -1]
    assert overlong_penalty(length, penalty=0.5).tolist() == [0, 0, -0.25, -0.5, -0.5]
    with pytest.raises(ValueError, match="buffer <= longest"):
        overlong_penalty(length, longest=10)


def test_length_reward():
    length, group = torch.tensor([100, 200, 300]), torch.zeros(3)
    assert length_reward(length, torch.tensor([1, 1, 0]), group).tolist() == [0.5, 0, -0.5]
    assert length_reward(length, torch.tensor([0, 1, 1]), group).tolist() == [0, 0, -0.5]
    equal = length_reward(torch.tensor([5, 5, 7]), torch.ones(3), torch.tensor([0, 0, 1]))
    assert equal.tolist() == [0, 0, 0]
