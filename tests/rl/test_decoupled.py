"""Decoupled PPO and M2PO: worked numbers, special cases, what is left out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.rl.losses.policy_gradient import behaviour_weight, decoupled_loss, ppo_loss
from searchgym.rl.slots.batch import Batch, Output
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.samples import sample_batch
from searchgym_agents.methods.m2po import m2po_keep, m2po_loss
from searchgym_agents.methods.m2po_areal import m2po_areal_keep

ONE = torch.ones(1, 1)


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
    weight = behaviour_weight(old, sampled, mask)
    step = 1e-3 * torch.ones_like(logp)
    ends = [
        (-weight * adv[:, None] * (x.detach() - old.detach()).exp() * mask).sum() / mask.sum()
        for x in (logp - step, logp + step)
    ]
    assert gradient.sum().item() == pytest.approx(float(ends[1] - ends[0]) / 2e-3, rel=1e-3)


def test_a_sequence_has_one_weight() -> None:
    _, old, sampled, _, mask = batch(2)
    weight = behaviour_weight(old, sampled, mask, cap=1e6, level="sequence")
    product = ((old - sampled) * mask).sum(1).exp()
    torch.testing.assert_close(weight, product[:, None] * mask)


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
    loss, stats = m2po_loss(now, *tensors, keep)
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
    with pytest.raises(ValueError, match="unknown action 'drop'"):
        behaviour_weight(at(1), at(1), ONE, action="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cap must be positive"):
        behaviour_weight(at(1), at(1), ONE, cap=0)
    with pytest.raises(ValueError, match="tau must be positive"):
        m2po_areal_keep(at(1), at(1), ONE, tau=0)
