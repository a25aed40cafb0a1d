"""Losses: worked numbers, gradients, and what they become of one another in special cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.errors import CardError
from searchgym.rl.critics import value_loss
from searchgym.rl.losses.likelihood import dpo_loss, outcome_pairs
from searchgym.rl.ops.ratios import truncated_weight
from searchgym.rl.slots.batch import Batch, Output
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.samples import sample_batch
from searchgym_agents.methods.m2po import m2po_keep
from searchgym_agents.methods.m2po_areal import m2po_areal_keep
from tests.rl.kernels import (
    cispo_loss,
    decoupled_loss,
    entropy_loss,
    gspo_loss,
    kimi_loss,
    kl_cov_loss,
    kl_loss,
    m2po_loss,
    opmd_loss,
    ppo_loss,
    reinforce_loss,
    sft_loss,
    topr_loss,
)

NAN = float("nan")
ONE = torch.ones(1, 1)
LOGP = torch.tensor([[-1.0, -2.0, NAN], [-0.5, -3.0, -0.1]])
MASK = torch.tensor([[1.0, 1, 0], [1, 1, 1]])
ADV = torch.tensor([0.7, -0.4])


def gradient(loss, *args, **options):
    """(value, statistics, gradient with respect to the first argument)."""
    x = args[0].detach().clone().requires_grad_()
    value, stats = loss(x, *args[1:], **options)
    value.backward()
    assert torch.isfinite(x.grad).all()
    return float(value.detach()), stats, x.grad


def test_on_policy_gradients_coincide():
    """At ratio 1 PPO, CISPO and TOPR are REINFORCE; so is GSPO per sequence."""
    how = {"aggregate": "seq-mean-token-sum"}
    expected = gradient(reinforce_loss, LOGP, ADV, MASK, **how)[2]
    torch.testing.assert_close(expected, -ADV[:, None] * MASK / 2)
    off = {"clip_high": 0.2}
    rewards = {"reward": torch.tensor([1.0, 0.0])}
    for loss, options in (
        (ppo_loss, {}), (cispo_loss, off), (topr_loss, rewards),
        (gspo_loss, {}),
    ):  # fmt: skip
        _, stats, grad = gradient(loss, LOGP, LOGP, ADV, MASK, **options, **how)
        torch.testing.assert_close(grad, expected)
        assert stats["ratio"] == pytest.approx(1)
        assert stats.get("clipped", 0) == 0
    assert gradient(ppo_loss, LOGP, LOGP, ADV, MASK)[1]["kl_old"] == 0


def test_a_far_ratio_gives_no_infinity():
    value, _, grad = gradient(ppo_loss, -1000 * ONE, 1000 * ONE, -ONE, ONE)
    assert math.isfinite(value)
    value, _, grad = gradient(ppo_loss, 1000 * ONE, -1000 * ONE, -ONE, ONE)
    assert value == pytest.approx(math.exp(20))
    assert grad.item() == 0


def test_clip_scale():
    logp = torch.tensor([[1.5, 1.5, 1.5]]).log()
    scale = torch.tensor([[1.0, 3.0, 1.0]])
    value, stats, grad = gradient(
        ppo_loss, logp, torch.zeros(1, 3), torch.ones(1), torch.ones(1, 3), clip_scale=scale
    )
    assert value == pytest.approx(-(1.2 + 1.5 + 1.2) / 3)
    assert (grad != 0).tolist() == [[False, True, False]]
    assert stats["clipped"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("how", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_splitting_a_batch_changes_nothing_with_global_counts(how):
    draw = torch.Generator().manual_seed(3)
    logp, old = torch.randn(6, 4, generator=draw), torch.randn(6, 4, generator=draw)
    adv = torch.randn(6, generator=draw)
    mask = (torch.rand(6, 4, generator=draw) > 0.3).float()
    counts = {"tokens": float(mask.sum()), "sequences": float((mask.sum(1) > 0).sum())}
    parts = (slice(0, 1), slice(1, 4), slice(4, 6))
    for loss in (ppo_loss, gspo_loss):
        whole = loss(logp, old, adv, mask, aggregate=how)[0]
        split = [loss(logp[s], old[s], adv[s], mask[s], aggregate=how, **counts)[0] for s in parts]
        torch.testing.assert_close(sum(split), whole)
    whole = kimi_loss(logp, old, adv, mask)[0]
    split = [kimi_loss(logp[s], old[s], adv[s], mask[s], **counts)[0] for s in parts]
    torch.testing.assert_close(sum(split), whole)


def test_gspo_of_one_token_is_ppo():
    draw = torch.Generator().manual_seed(0)
    logp, old = torch.randn(9, 1, generator=draw), torch.randn(9, 1, generator=draw)
    adv, mask = torch.randn(9, generator=draw), torch.ones(9, 1)
    clip = {"clip_low": 0.2, "clip_high": 0.28}
    ours = gradient(gspo_loss, logp, old, adv, mask, **clip)
    ppo = gradient(ppo_loss, logp, old, adv, mask, **clip, aggregate="seq-mean-token-mean")
    assert ours[0] == pytest.approx(ppo[0])
    torch.testing.assert_close(ours[2], ppo[2])
    assert ours[1]["clipped"] == ppo[1]["clipped"] > 0


def test_gspo_clips_all_of_a_sequence_or_nothing():
    logp = torch.tensor([[0.3, -0.1, NAN, 0.1, 0.1], [0.0, 0.001, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 1, 0, 1, 1], [1, 1, 1, 1, 1]])
    value, stats, grad = gradient(gspo_loss, logp, torch.zeros(2, 5), torch.ones(2), mask)
    assert (grad != 0).tolist() == [[False] * 5, [True] * 5]
    assert stats["clipped"] == pytest.approx(4 / 9)
    assert value == pytest.approx(-(1.0004 + math.exp(0.0002)) / 2, abs=1e-6)
    wide = gradient(gspo_loss, logp, torch.zeros(2, 5), torch.ones(2), mask, clip_high=1.0)
    assert wide[0] == pytest.approx(-(1.10517 + math.exp(0.0002)) / 2, abs=1e-5)
    # the gradient of the sequence form: s · ∇ mean log π
    torch.testing.assert_close(wide[2][0], -1.10517 / 2 * mask[0] / 4, atol=1e-5, rtol=0)


def test_gspo_with_turns_clips_turns():
    logp = torch.tensor([[0.5, 0.5, 0.0, 0.0]])
    turn = torch.tensor([[0, 0, 1, 1]])
    _, stats, grad = gradient(
        gspo_loss, logp, torch.zeros(1, 4), torch.ones(1), torch.ones(1, 4), turn=turn, turns=True
    )
    assert (grad != 0).tolist() == [[False, False, True, True]]
    assert stats["clipped"] == 0.5


def test_cispo_keeps_the_gradient_of_clipped_tokens():
    logp, zero = torch.tensor([[math.log(5)]]), torch.zeros(1, 1)
    adv = torch.tensor([2.0])
    _, stats, grad = gradient(cispo_loss, logp, zero, adv, ONE, clip_high=0.3)
    assert grad.item() == pytest.approx(-1.3 * 2)
    assert stats["clipped"] == 1
    assert gradient(ppo_loss, logp, zero, adv, ONE)[2].item() == 0
    small = gradient(cispo_loss, -logp, zero, adv, ONE, clip_high=0.3)[2].item()
    assert small == pytest.approx(-0.2 * 2)  # nothing is clipped from below by default
    small = gradient(cispo_loss, -logp, zero, adv, ONE, clip_high=0.1, clip_low=0.1)[2].item()
    assert small == pytest.approx(-0.9 * 2)


def test_truncated_importance_sampling():
    logp, old = torch.tensor([[3.0, 0.5], [3.0, 0.5]]).log(), torch.zeros(2, 2)
    ones = torch.ones(2, 2)
    _, stats, grad = gradient(
        topr_loss, logp, old, torch.tensor([1.0, -2.0]), ones, reward=torch.tensor([1.0, 0.0])
    )
    torch.testing.assert_close(grad, torch.tensor([[-1, -1], [2, 1]]) / 4)
    assert stats["clipped"] == 0.25


def test_kimi_worked_numbers():
    """R = [1, 0], Δ = [.1, -.2], τ = .1: coefficients [.49, -.48], squared form .23525."""
    logp = torch.tensor([[0.04, 0.06, NAN], [-0.2, NAN, NAN]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    adv = torch.tensor([0.5, -0.5])
    value, stats, grad = gradient(kimi_loss, logp, torch.zeros(2, 3), adv, mask)
    torch.testing.assert_close(grad, torch.tensor([[-0.49, -0.49, 0], [0.48, 0, 0]]) / 2)
    assert stats["squared"] == pytest.approx(0.23525)
    assert stats["log_ratio"] == pytest.approx(-0.05)
    assert value == pytest.approx(0.23525 / 0.2)
    start = gradient(kimi_loss, logp, logp, adv, mask)[2]
    torch.testing.assert_close(start, gradient(reinforce_loss, logp, adv, mask)[2])
    with pytest.raises(ValueError, match=r"expected adv \(B,\) beside"):
        kimi_loss(logp, logp, torch.zeros(2, 3), mask)


def test_opmd_is_reinforce_with_smaller_steps():
    value, _, grad = gradient(opmd_loss, LOGP, ADV, MASK, tau=3.0)
    plain = gradient(reinforce_loss, LOGP, ADV, MASK, aggregate="token-mean")
    assert value == pytest.approx(plain[0] / 4)
    torch.testing.assert_close(grad, plain[2] / 4)


def test_dpo_worked_numbers():
    ref = torch.zeros(3, 2)
    mask = torch.tensor([[1, 1], [1, 0], [0, 1]])
    pairs = torch.tensor([[0, 1]])
    assert gradient(dpo_loss, ref, ref, mask, pairs)[0] == pytest.approx(math.log(2))
    logp = torch.tensor([[1.0, 1.0], [-1.0, NAN], [NAN, 5.0]])
    value, stats, grad = gradient(dpo_loss, logp, ref, mask, pairs)
    assert value == pytest.approx(0.554355, abs=1e-6)
    assert stats == {"accuracy": 1.0, "margin": pytest.approx(0.3)}
    slope = 0.1 / (1 + math.exp(0.3))
    torch.testing.assert_close(grad, slope * torch.tensor([[-1.0, -1], [1, 0], [0, 0]]))
    smooth = gradient(dpo_loss, logp, ref, mask, pairs, label_smoothing=0.1)[0]
    assert smooth == pytest.approx(0.9 * 0.554355 + 0.1 * 0.854355, abs=1e-6)
    both = torch.tensor([[0, 1], [2, 0]])
    whole = gradient(dpo_loss, logp, ref, mask, both)[0]
    parts = [dpo_loss(logp, ref, mask, both[i : i + 1], total=2)[0] for i in (0, 1)]
    assert float(sum(parts)) == pytest.approx(whole)
    assert dpo_loss(logp, ref, mask, pairs[:0])[0] == 0
    with pytest.raises(ValueError, match=r"\(P, 2\), got \(2,\)"):
        dpo_loss(logp, ref, mask, pairs[0])
    with pytest.raises(ValueError, match="label_smoothing"):
        dpo_loss(logp, ref, mask, pairs, label_smoothing=0.5)


def test_pairs_join_successes_and_failures_of_one_group():
    reward = torch.tensor([1.0, 0.0, 0.2, NAN, 0.9, 0.0])
    group = torch.tensor([0, 0, 0, 0, 1, 2])
    assert outcome_pairs(reward, group).tolist() == [[0, 1], [0, 2]]


def test_sft():
    value, _, grad = gradient(sft_loss, LOGP, MASK)
    assert value == pytest.approx((1 + 2 + 0.5 + 3 + 0.1) / 5)
    torch.testing.assert_close(grad, -MASK / 5)


def test_entropy():
    entropy = torch.tensor([[math.log(4), 0.0]])
    value, stats, grad = gradient(entropy_loss, entropy, torch.tensor([[1, 0]]))
    assert value == pytest.approx(-math.log(4))
    assert stats["entropy"] == pytest.approx(math.log(4))
    assert grad.tolist() == [[-1, 0]]


def test_value_loss_is_clipped_like_ppo():
    value, returns = torch.tensor([[1.0, 0.2, NAN]]), torch.tensor([[2.0, 0.0, NAN]])
    old, mask = torch.tensor([[0.0, 0.1, NAN]]), torch.tensor([[1, 1, 0]])
    got, stats, grad = gradient(value_loss, value, returns, old, mask)
    # first: clip(1, ±.5 around 0) = .5, (.5 - 2)² = 2.25 > 1, flat; second: inside, .04
    assert got == pytest.approx((2.25 + 0.04) / 2 / 2)
    torch.testing.assert_close(grad, torch.tensor([[0, 0.1, 0]]))
    assert stats["clipped"] == 0.5
    assert stats["value"] == pytest.approx(0.6)
    with pytest.raises(ValueError, match="clip must be positive"):
        value_loss(value, returns, old, mask, clip=0)


def test_kl_as_a_loss():
    ref = torch.tensor([[-1.5, -2.0, NAN], [-0.5, -3.0, -0.1]])
    value, stats, _ = gradient(kl_loss, LOGP, ref, MASK)
    assert value == pytest.approx(0.10653 / 5, abs=1e-5)
    assert stats["kl"] == pytest.approx(value)
    picked = {"picked": torch.tensor([[1.0, 0, 0], [0, 0, 0]])}
    value, stats, grad = gradient(kl_cov_loss, LOGP, ref, MASK, notes=picked)
    assert value == pytest.approx(0.5 / 5)
    assert grad.tolist() == [[pytest.approx(0.2), 0, 0], [0, 0, 0]]
    assert stats["kl"] == pytest.approx(0.1)
    mean = gradient(kl_loss, LOGP, ref, MASK, how="k1", aggregate="seq-mean-token-mean")[0]
    assert mean == pytest.approx(0.125)


def at(value: float) -> torch.Tensor:
    return torch.tensor([[math.log(value)]])


def test_one_token() -> None:
    """w = 2, ρ = 1.1, A = 1."""
    logp = at(1.1).requires_grad_()
    loss, stats = decoupled_loss(logp, at(1), at(0.5), torch.ones(1), ONE)
    assert loss.item() == pytest.approx(-2.2)
    assert stats["behaviour_weight"] == pytest.approx(2)
    loss.backward()
    assert logp.grad is not None
    assert logp.grad.item() == pytest.approx(-2.2)


def batch(seed: int = 0) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    logp, old, sampled = (-torch.rand(4, 6, generator=draw) - 0.1 for _ in range(3))
    mask = torch.rand(4, 6, generator=draw) < 0.8
    return logp.requires_grad_(), old, sampled, torch.randn(4, generator=draw), mask


def test_where_both_are_the_same_it_is_ppo() -> None:
    logp, old, _, adv, mask = batch()
    mine, _ = decoupled_loss(logp, old, old, adv, mask, clip_low=0.1, clip_high=0.3)
    want, _ = ppo_loss(logp, old, adv, mask, clip_low=0.1, clip_high=0.3)
    assert mine.item() == pytest.approx(want.item())
    torch.testing.assert_close(*(torch.autograd.grad(x, logp)[0] for x in (mine, want)))


def test_above_the_cap_a_token_does_not_count_but_is_counted() -> None:
    """w = 6 and 1: half of the sum is gone, not half of what it is divided by."""
    logp, old = torch.zeros(1, 2, requires_grad=True), torch.zeros(1, 2)
    sampled = torch.tensor([[-math.log(6), 0.0]])
    mask, adv = torch.ones(1, 2), torch.ones(1)
    loss, stats = decoupled_loss(logp, old, sampled, adv, mask, cap=5)
    assert loss.item() == pytest.approx(-0.5)
    assert stats["capped"] == 0.5
    (gradient,) = torch.autograd.grad(loss, logp)
    assert gradient.tolist() == [[0, -0.5]]
    clamped, _ = decoupled_loss(logp, old, sampled, adv, mask, cap=5, action="clamp")
    assert clamped.item() == pytest.approx(-3)


def test_the_weight_has_no_gradient() -> None:
    """By finite differences of the surrogate with w held fixed."""
    logp, old, sampled, adv, mask = batch(1)
    old.requires_grad_()
    loss, _ = decoupled_loss(logp, old, sampled, adv, mask, clip_low=1.0, clip_high=9.0)
    gradient, none = torch.autograd.grad(loss, (logp, old), allow_unused=True)
    assert none is None
    weight = truncated_weight(old, sampled, mask, cap=5)
    assert weight.max() < 5
    step = 1e-3 * torch.ones_like(logp)
    ends = [
        (-weight * adv[:, None] * (x.detach() - old.detach()).exp() * mask).sum() / mask.sum()
        for x in (logp - step, logp + step)
    ]
    assert gradient.sum().item() == pytest.approx(float(ends[1] - ends[0]) / 2e-3, rel=1e-3)


def test_a_sequence_has_one_weight() -> None:
    logp, old, sampled, adv, mask = batch(2)
    how = {"cap": 1e6, "level": "sequence", "clip_low": 1.0, "clip_high": 9.0}
    loss, _ = decoupled_loss(logp, old, sampled, adv, mask, **how)
    product = ((old - sampled) * mask).sum(1).exp()
    surrogate = adv[:, None] * (logp - old).exp() * mask
    torch.testing.assert_close(loss, -(product[:, None] * surrogate).sum() / mask.sum())


@pytest.mark.parametrize("tau", [0.001, 0.01, 0.05, 10.0])
def test_m2po_areal_drops_by_rank(tau: float) -> None:
    _, old, sampled, _, mask = batch(3)
    moved = (old - sampled) ** 2
    keep = m2po_areal_keep(old, sampled, mask, tau=tau)
    assert not (keep & ~mask).any()
    out = mask & ~keep
    assert moved[keep].mean() <= tau or not keep.any()
    if tau == 10:
        assert not out.any()
        return
    assert out.any()
    assert not keep.any() or moved[out].min() >= moved[keep].max()
    least = moved[out].min()
    assert (moved[keep].sum() + least) / (keep.sum() + 1) > tau, "no more than needed"


def algorithm_1(
    r: np.ndarray[Any, Any], adv: np.ndarray[Any, Any], tau: float
) -> np.ndarray[Any, Any]:
    """M2PO's Algorithm 1 with loops: which of a batch's tokens keep their gradient."""
    keep = [True] * len(r)
    while True:
        left = [
            i
            for i in range(len(r))
            if keep[i] and ((adv[i] > 0 and r[i] > 1) or (adv[i] < 0 and r[i] < 1))
        ]  # fmt: skip
        if not left or sum(math.log(r[i]) ** 2 for i in left) / len(left) <= tau:
            return np.array(keep)
        worst = max(left, key=lambda i: math.log(r[i]) ** 2)
        keep[worst] = False


@pytest.mark.parametrize("seed", range(20))
def test_m2po_is_algorithm_1(seed: int) -> None:
    """Mask, loss and gradient against loops over the tokens of a batch with holes."""
    draw = np.random.default_rng(seed)
    logp, sampled = (-draw.random((12, 9)) - 0.1 for _ in range(2))
    mask = draw.random((12, 9)) < 0.8
    adv = draw.choice([-1.2, -0.3, 0.0, 0.7], 12)
    tau = float(draw.choice([0.004, 0.04, 0.2]))
    places = np.argwhere(mask)
    r = np.array([math.exp(logp[i, t] - sampled[i, t]) for i, t in places])
    a = np.array([adv[i] for i, _ in places])
    wanted = algorithm_1(r, a, tau)
    expected_loss = -sum(k * x * y for k, x, y in zip(wanted, r, a, strict=True)) / len(r)
    holes = np.where(mask, sampled, np.nan)
    now = torch.tensor(logp, requires_grad=True)
    tensors = torch.tensor(holes), torch.tensor(adv), torch.tensor(mask)
    keep = m2po_keep(now, *tensors, tau=tau)
    assert keep.numpy()[mask].tolist() == wanted.tolist()
    assert not keep[~tensors[2]].any()
    loss, stats = m2po_loss(now, *tensors, notes={"m2po_keep": keep})
    assert loss.item() == pytest.approx(expected_loss, abs=1e-9)
    assert stats["clipped"] == pytest.approx(1 - wanted.mean())
    loss.backward()
    gradient = np.zeros_like(logp)
    for (i, t), k, x, y in zip(places, wanted, r, a, strict=True):
        gradient[i, t] = -float(k) * x * y / len(r)
    assert now.grad is not None
    assert np.allclose(now.grad.numpy(), gradient, atol=1e-9)


def test_m2po_chooses_among_the_whole_update() -> None:
    """In parts of one trajectory each, the gradient is that of the whole: the choice is made
    before, and once more at the next update."""
    whole = sample_batch(3)
    loss = make("loss", {"use": "m2po", "tau": 0.01})
    now = whole.sampled_logp + 0.3 * torch.randn(
        whole.mask.shape, generator=torch.Generator().manual_seed(1)
    )
    whole.notes |= loss.prepare(whole, Output(now), {})
    left_out = whole.mask & ~whole.note("m2po_keep")
    assert 0 < int(left_out.sum()) < int(whole.mask.sum())

    def gradient(batch: Batch, logp: torch.Tensor) -> torch.Tensor:
        logp = logp.clone().requires_grad_()
        value, _ = loss(Output(logp), batch, whole.totals, {})
        (found,) = torch.autograd.grad(value, logp)
        return found

    parts = [gradient(whole.take([i]), now[[i]]) for i in range(len(whole))]
    assert torch.allclose(torch.cat(parts), gradient(whole, now))
    assert not gradient(whole, now)[left_out].any()


def test_options_are_checked() -> None:
    for wrong in ({"action": "drop"}, {"cap": 0}, {"level": "turn"}):
        with pytest.raises(CardError, match="cap is positive and below"):
            make("loss", {"use": "decoupled", **wrong})
    with pytest.raises(ValueError, match="tau must be positive"):
        m2po_areal_keep(at(1), at(1), ONE, tau=0)
