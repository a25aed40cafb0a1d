"""Expected gradients, exactly: all samples that can be drawn are enumerated, none is drawn.

A policy with two arms, odds .3 and .7, rewards 1 and 0: the gradient of the mean return with
respect to the logit is p(1 - p) = .21. What a method's expected gradient is instead is its bias.
"""

import itertools

import pytest
import torch

from searchgym.rl.advantages.group_relative import (
    dr_grpo_advantages,
    grpo_advantages,
    rloo_advantages,
)
from searchgym_agents.methods.opo import opo_advantages
from tests.rl.kernels import cispo_loss, estimate, gspo_loss, ppo_loss, reinforce_loss

P = 0.3
TRUTH = P * (1 - P)


def expected_gradient(advantages, size, loss=reinforce_loss):
    """The mean over all 2^size groups, each with its probability, of the gradient on the logit.

    Each group is a batch of its own, so that what is divided by is its size.
    """
    logit = torch.tensor(P, dtype=torch.float64).logit().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for arms in itertools.product((1.0, 0.0), repeat=size):
        reward = torch.tensor(arms, dtype=torch.float64)
        odds = torch.where(reward > 0, logit.sigmoid(), 1 - logit.sigmoid())
        adv = advantages(reward, torch.zeros(size))
        mask = torch.ones(size, 1)
        total = total + odds.prod().detach() * loss(odds.log()[:, None], adv, mask)[0]
    return -float(torch.autograd.grad(total, logit)[0])


def greedy_baseline(reward, group):
    """ReMax: the greedy arm is the second, which earns 0."""
    one = torch.ones(len(reward), 1)
    return estimate("remax", one, reward=reward, baseline=torch.zeros_like(reward)).adv


def reinforce(baseline):
    how = {"use": "reinforce", "baseline": baseline}
    return lambda reward, _: estimate(how, torch.ones(len(reward), 1), reward=reward).adv


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(
    "advantages",
    [
        reinforce(0.0),
        reinforce(0.45),
        rloo_advantages,
        greedy_baseline,
    ],
    ids=["reinforce", "reinforce-baseline", "rloo", "remax"],
)
def test_unbiased(advantages, size):
    assert expected_gradient(advantages, size) == pytest.approx(TRUTH, abs=1e-12)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(
    "advantages",
    [dr_grpo_advantages, lambda r, g: opo_advantages(r, g, torch.ones(len(r)))],
    ids=["dr_grpo", "opo-equal-lengths"],
)
def test_dr_grpo_shrinks_by_a_constant(advantages, size):
    assert expected_gradient(advantages, size) == pytest.approx((size - 1) / size * TRUTH)


@pytest.mark.parametrize(
    ("advantages", "size", "expected"),
    [
        (dr_grpo_advantages, 2, 0.105),
        (dr_grpo_advantages, 4, 0.1575),
        (lambda r, g: grpo_advantages(r, g, eps=0), 2, 0.1485),
        (lambda r, g: grpo_advantages(r, g, eps=0), 4, 0.2973),
    ],
    ids=["dr_grpo-2", "dr_grpo-4", "grpo-2", "grpo-4"],
)
def test_worked_biases(advantages, size, expected):
    assert expected_gradient(advantages, size) == pytest.approx(expected, abs=5e-5)


def test_biased_by_no_constant_factor():
    """The ratio to the truth changes with the group's size and with the odds."""
    factor = [
        expected_gradient(lambda r, g: grpo_advantages(r, g, eps=0), size) / TRUTH
        for size in (2, 4)
    ]
    assert abs(factor[0] - factor[1]) > 0.01
    assert all(abs(f - (s - 1) / s) > 0.1 for f, s in zip(factor, (2, 4), strict=True))


@pytest.mark.parametrize(
    "loss",
    [
        lambda logp, adv, mask: ppo_loss(logp, logp.detach(), adv, mask),
        lambda logp, adv, mask: gspo_loss(logp, logp.detach(), adv, mask),
        lambda logp, adv, mask: cispo_loss(logp, logp.detach(), adv, mask, clip_high=0.2),
    ],
    ids=["ppo", "gspo", "cispo"],
)
def test_on_policy_the_loss_adds_no_bias(loss):
    assert expected_gradient(rloo_advantages, 3, loss) == pytest.approx(TRUTH, abs=1e-12)


def test_importance_ratios_correct_for_another_sampler():
    """Samples from odds .5, trained at .3: unclipped PPO has the true gradient, exactly."""
    logit = torch.tensor(P, dtype=torch.float64).logit().requires_grad_()
    logp = torch.stack([logit.sigmoid().log(), (1 - logit.sigmoid()).log()])[:, None]
    old = torch.full((2, 1), 0.5, dtype=torch.float64).log()
    adv, mask = torch.tensor([1.0, 0.0], dtype=torch.float64), torch.ones(2, 1)
    wide = {"clip_low": 1.0, "clip_high": 100.0}
    loss, _ = ppo_loss(logp, old, adv, mask, **wide)  # both arms, each with odds .5
    assert -float(torch.autograd.grad(loss, logit)[0]) == pytest.approx(TRUTH)


def test_distillation_descends_the_kl():
    """Summed over all tokens with the student's odds: the exact gradient of -KL(S || T)."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(5, generator=draw, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(5, generator=draw, dtype=torch.float64).log_softmax(0)
    student = logits.log_softmax(0)
    odds, mask = student.exp().detach(), torch.ones(5, 1)
    kl = (student.exp() * (student - teacher)).sum()
    true, kl = torch.autograd.grad(kl, logits, retain_graph=True)[0], float(kl.detach())
    both = {"old_logp": student[:, None], "teacher_logp": teacher[:, None]}
    adv = estimate("distillation", mask, **both).adv
    assert float((odds[:, None] * adv).sum()) == pytest.approx(-kl)
    assert kl > 0.1
    loss, _ = reinforce_loss(student[:, None], odds[:, None] * adv, mask)
    got = torch.autograd.grad(5 * loss, logits)[0]  # 5: a sum, not a mean, over tokens
    torch.testing.assert_close(got, true)


def test_distillation_of_texts_needs_the_later_tokens():
    """Two tokens of a vocabulary of three, enumerated: with ``to_go`` the expected update is minus
    the gradient of KL(student || teacher) over whole texts; token by token it is that of the KL of
    each next token with the visits held fixed, which is another at the first token."""
    draw = torch.Generator().manual_seed(4)
    shape = (4, 3)  # the first token's logits, and the second's after each of the three
    student = torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()
    teacher = torch.randn(shape, generator=draw, dtype=torch.float64).log_softmax(-1)

    def logp(texts, table):
        return torch.stack([table[0, texts[:, 0]], table[1 + texts[:, 0], texts[:, 1]]], 1)

    texts = torch.tensor(list(itertools.product(range(3), repeat=2)))
    mine, theirs = logp(texts, student.log_softmax(-1)), logp(texts, teacher)
    odds, mask = mine.sum(1).exp(), torch.ones(9, 2)
    whole = (odds * (mine - theirs).sum(1)).sum()
    (true,) = torch.autograd.grad(whole, student, retain_graph=True)
    visits = torch.cat([torch.ones(1), student.log_softmax(-1)[0].exp().detach()])
    kl_by_state = (student.log_softmax(-1).exp() * (student.log_softmax(-1) - teacher)).sum(1)
    (held,) = torch.autograd.grad((visits * kl_by_state).sum(), student, retain_graph=True)

    def update(to_go):
        both = {"old_logp": mine, "teacher_logp": theirs}
        adv = estimate("distillation", mask, **both, to_go=to_go).adv
        total = (odds.detach()[:, None] * adv * mine).sum()
        return torch.autograd.grad(total, student, retain_graph=True)[0]

    assert torch.allclose(update(True), -true)
    assert torch.allclose(update(False), -held)
    assert not torch.allclose(update(False)[0], -true[0], atol=1e-2)
