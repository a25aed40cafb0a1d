"""Every loss and every per-token advantage, on random batches: what is masked is not there.

Four changes of a batch that must change nothing: other numbers at masked places (NaN and infinity
included), a masked column put in anywhere, a fully masked trajectory added, trajectories reordered.
"""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.rl.critics import value_loss
from searchgym.rl.losses.likelihood import dpo_loss
from searchgym.rl.ops.turns import turn_starts
from tests.rl.kernels import (
    cispo_loss,
    decoupled_loss,
    entropy_loss,
    estimate,
    grpo_steps,
    gspo_loss,
    kimi_loss,
    kl_loss,
    opmd_loss,
    ppo_loss,
    reinforce_loss,
    sft_loss,
    topr_loss,
)


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    """(B, T) what is trained: log-probabilities, values or entropies."""
    old: torch.Tensor
    adv: torch.Tensor
    reward: torch.Tensor
    value: torch.Tensor
    scale: torch.Tensor
    square: torch.Tensor
    turn: torch.Tensor
    mask: torch.Tensor
    outcome: torch.Tensor
    """(B,)"""
    group: torch.Tensor
    pairs: torch.Tensor
    """(P, 2)"""

    def change(self, tokens, rows=None):
        """A batch with ``tokens`` applied to (B, T) tensors, ``rows`` to (B,) ones."""
        new = {}
        for f in dataclasses.fields(self):
            old = getattr(self, f.name)
            if f.name == "pairs":
                new[f.name] = old
            elif old.ndim == 2:
                new[f.name] = tokens(f.name, old)
            else:
                new[f.name] = old if rows is None else rows(f.name, old)
        return Batch(**new)


@st.composite
def batches(draw):
    rows, width = draw(st.integers(1, 5)), draw(st.integers(1, 7))
    random = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))

    def normal(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    def integers(high, *shape):
        return torch.randint(0, high, shape, generator=random)

    mask = (torch.rand(rows, width, generator=random) < draw(st.sampled_from([0.3, 0.7, 1]))).long()
    return Batch(
        x=normal(rows, width), old=normal(rows, width), adv=normal(rows, width),
        reward=normal(rows, width), value=normal(rows, width),
        scale=torch.rand(rows, width, generator=random, dtype=torch.float64),
        square=torch.rand(rows, width, generator=random, dtype=torch.float64),
        turn=integers(2, rows, width).cumsum(1), mask=mask,
        outcome=normal(rows), group=integers(2, rows), pairs=integers(rows, 3, 2),
    )  # fmt: skip


LOSSES = {
    "reinforce": lambda b: reinforce_loss(b.x, b.adv, b.mask),
    "reinforce-sequence": lambda b: reinforce_loss(b.x, b.outcome, b.mask),
    "ppo": lambda b: ppo_loss(b.x, b.old, b.adv, b.mask, clip_scale=b.scale, dual_clip=1.5),
    "decoupled": lambda b: decoupled_loss(
        b.x, b.old, b.value, b.adv, b.mask, action="clamp", aggregate="seq-mean-token-mean"
    ),
    "dr_grpo": lambda b: ppo_loss(
        b.x, b.old, b.outcome, b.mask, aggregate="seq-mean-token-sum-norm", norm=20.0
    ),
    "gspo": lambda b: gspo_loss(b.x, b.old, b.outcome, b.mask),
    "gspo-turns": lambda b: gspo_loss(
        b.x, b.old, b.adv, b.mask, turn=b.turn, turns=True, clip_high=0.3
    ),
    "cispo": lambda b: cispo_loss(b.x, b.old, b.adv, b.mask, clip_high=0.3),
    "topr": lambda b: topr_loss(b.x, b.old, b.adv, b.mask, reward=b.outcome),
    "kimi": lambda b: kimi_loss(b.x, b.old, b.outcome, b.mask),
    "opmd": lambda b: opmd_loss(b.x, b.adv, b.mask),
    "dpo": lambda b: dpo_loss(b.x, b.old, b.mask, b.pairs),
    "sft": lambda b: sft_loss(b.x, b.mask),
    "kl-k1": lambda b: kl_loss(b.x, b.old, b.mask, how="k1"),
    "kl-k3": lambda b: kl_loss(b.x, b.old, b.mask, how="k3", aggregate="seq-mean-token-mean"),
    "kl-k3+": lambda b: kl_loss(b.x, b.old, b.mask, how="k3+"),
    "entropy": lambda b: entropy_loss(b.x, b.mask),
    "value": lambda b: value_loss(b.x, b.reward, b.old, b.mask),
    "value-turns": lambda b: value_loss(b.x, b.reward, b.old, turn_starts(b.turn, b.mask)),
}  # fmt: skip


def ppo(b, **options):
    given = {"turn_reward": b.reward, "value": b.value, "turn": b.turn}
    return estimate("ppo", b.mask, **given, lam=0.8, **options)


TOKEN_ADVANTAGES = {
    "reinforce++": lambda b: (
        estimate(
            "reinforce_pp",
            b.mask,
            turn_reward=b.reward,
            old_logp=b.x,
            ref_logp=b.old,
            beta=0.1,
            gamma=0.9,
        ).adv
    ),
    "remax": lambda b: estimate("remax", b.mask, turn_reward=b.reward, baseline=b.outcome).adv,
    "grpo-steps": lambda b: grpo_steps(b.reward, b.turn, b.group, b.mask),
    "ppo": lambda b: ppo(b, gamma=0.9).adv,
    "ppo-returns": lambda b: ppo(b, gamma=0.9).returns,
    "turn-ppo": lambda b: ppo(b, level="turn").adv,
    "bi-level": lambda b: ppo(b, level="bi-level").adv,
    "distillation": lambda b: (
        estimate(
            "distillation",
            b.mask,
            old_logp=b.x,
            teacher_logp=b.old,
            reward=b.outcome,
            threshold=0.0,
            base="ones",
            gate="succeeded",
        ).adv
    ),
}
WHOLE = {
    "reinforce++-baseline": lambda b: (
        estimate("reinforce_pp_baseline", b.mask, reward=b.outcome, group=b.group).adv
    )
}
"""A reward per trajectory counts in its group even if all tokens are masked."""


def poisoned(batch, junk):
    def tokens(name, old):
        if name == "mask":
            return old
        bad = {"turn": -1000}.get(name, junk)
        return torch.where(batch.mask > 0, old, torch.full_like(old, bad))

    return batch.change(tokens)


def with_column(batch, at):
    """A masked column of junk before column ``at``."""

    def tokens(name, old):
        fill = {"mask": 0, "turn": 77}.get(name, float("nan"))
        return torch.cat([old[:, :at], torch.full_like(old[:, :1], fill), old[:, at:]], 1)

    return batch.change(tokens)


def with_row(batch):
    """A fully masked trajectory of junk, last."""

    def tokens(name, old):
        fill = {"mask": 0, "turn": 3}.get(name, float("inf"))
        return torch.cat([old, torch.full_like(old[:1], fill)])

    return batch.change(tokens, lambda _, old: torch.cat([old, old[:1]]))


def reordered(batch, order):
    new = batch.change(lambda _, old: old[order], lambda _, old: old[order])
    new.pairs = torch.argsort(order)[batch.pairs]
    return new


def measure(loss, batch):
    batch = dataclasses.replace(batch, x=batch.x.clone().requires_grad_())
    value, stats = loss(batch)
    value.backward()
    return value.detach(), batch.x.grad, stats


junk = st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e30, -5.0])
fast = settings(deadline=None, max_examples=25)


@pytest.mark.parametrize("name", LOSSES)
@fast
@given(batch=batches(), junk=junk, at=st.integers(0, 7))
def test_losses(name, batch, junk, at):
    value, grad, stats = measure(LOSSES[name], batch)
    assert torch.isfinite(value)
    assert torch.isfinite(grad).all()
    assert (grad[batch.mask == 0] == 0).all()

    other = measure(LOSSES[name], poisoned(batch, junk))
    assert torch.equal(other[0], value)
    assert torch.equal(other[1], grad)
    assert other[2] == stats

    at = min(at, batch.mask.shape[1])
    other = measure(LOSSES[name], with_column(batch, at))
    torch.testing.assert_close(other[0], value)
    torch.testing.assert_close(torch.cat([other[1][:, :at], other[1][:, at + 1 :]], 1), grad)
    assert (other[1][:, at] == 0).all()

    other = measure(LOSSES[name], with_row(batch))
    torch.testing.assert_close(other[0], value)
    torch.testing.assert_close(other[1][:-1], grad)
    assert (other[1][-1] == 0).all()

    order = torch.randperm(len(batch.mask), generator=torch.Generator().manual_seed(at))
    other = measure(LOSSES[name], reordered(batch, order))
    torch.testing.assert_close(other[0], value)
    torch.testing.assert_close(other[1], grad[order])


@pytest.mark.parametrize("name", TOKEN_ADVANTAGES | WHOLE)
@fast
@given(batch=batches(), junk=junk, at=st.integers(0, 7))
def test_token_advantages(name, batch, junk, at):
    compute = (TOKEN_ADVANTAGES | WHOLE)[name]
    adv = compute(batch)
    assert adv.shape == batch.mask.shape
    assert torch.isfinite(adv).all()
    assert (adv[batch.mask == 0] == 0).all()
    assert not adv.requires_grad
    assert torch.equal(compute(poisoned(batch, junk)), adv)

    at = min(at, batch.mask.shape[1])
    other = compute(with_column(batch, at))
    torch.testing.assert_close(torch.cat([other[:, :at], other[:, at + 1 :]], 1), adv)
    if name in TOKEN_ADVANTAGES:
        torch.testing.assert_close(compute(with_row(batch))[:-1], adv)
    order = torch.randperm(len(batch.mask), generator=torch.Generator().manual_seed(at))
    torch.testing.assert_close(compute(reordered(batch, order)), adv[order])


def ordinary():
    """A batch where every loss has a gradient, two trajectories per group."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(12, 4, 6, generator=draw, dtype=torch.float64)
    batch = Batch(
        *x[:7], turn=torch.arange(6).expand(4, 6) // 2, mask=(x[7] > -0.5).long(),
        outcome=x[8, :, 0], group=torch.arange(4) // 2, pairs=torch.tensor([[0, 1], [2, 3]]),
    )  # fmt: skip
    batch.scale, batch.old = batch.scale.abs(), batch.x + 0.1 * batch.old
    return batch


def attached(batch):
    """The batch with every floating tensor asking for a gradient."""
    fields = {f.name: getattr(batch, f.name) for f in dataclasses.fields(batch)}
    return Batch(
        **{
            name: t.clone().requires_grad_() if t.is_floating_point() else t
            for name, t in fields.items()
        }
    )


@pytest.mark.parametrize("name", LOSSES)
def test_only_what_is_trained_gets_a_gradient(name):
    """Even where old log-probabilities, advantages, weights … were not detached by the caller."""
    batch = attached(ordinary())
    LOSSES[name](batch)[0].backward()
    assert batch.x.grad.abs().sum() > 0.01
    for field in dataclasses.fields(batch):
        if field.name != "x":
            assert getattr(batch, field.name).grad is None, field.name


@pytest.mark.parametrize("name", TOKEN_ADVANTAGES | WHOLE)
def test_advantages_are_detached(name):
    compute = (TOKEN_ADVANTAGES | WHOLE)[name]
    adv = compute(attached(ordinary()))
    assert not adv.requires_grad
    assert torch.equal(adv, compute(ordinary()))


@pytest.mark.parametrize("name", LOSSES)
def test_tensors_of_other_shapes_are_refused(name):
    """(B, 1) beside (B, T) would broadcast."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(7, 3, 3, generator=draw)
    rest = {
        "turn": torch.arange(3).expand(3, 3), "outcome": torch.ones(3),
        "group": torch.zeros(3), "pairs": torch.tensor([[0, 1]]),
    }  # fmt: skip
    for mask in (torch.ones(3, 1), torch.ones(2, 3), torch.ones(3, 4)):
        with pytest.raises(ValueError, match=r"expected|beside"):
            LOSSES[name](Batch(*x, mask=mask, **rest))
