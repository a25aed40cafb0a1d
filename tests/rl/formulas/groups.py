"""Recipes that compare whole trajectories, or single tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.rl.formulas.step import (
    EPS,
    Lines,
    Step,
    centred,
    constant,
    decoupled,
    episode_mean,
    group_relative,
    gspo,
    kl,
    ppo,
    reinforce,
    surrogate,
    token_mean,
    whitened,
    z,
)


def opo(s: Step) -> Tensor:
    made = torch.zeros(len(s)).double()
    for at in s.places():
        long = torch.tensor([len(s.old[i]) for i in at]).double()
        made[at] = s.reward[at] - (long * s.reward[at]).sum() / long.sum()
    return reinforce(s, s.even(made))


def cispo(s: Step) -> Tensor:
    adv = group_relative(s)
    return token_mean([-(n - o).exp().detach().clamp(max=1.28) * a * n
                       for n, o, a in zip(s.now, s.old, adv, strict=True)])  # fmt: skip


def topr(s: Step) -> Tensor:
    terms = []
    for r, n, o in zip(s.reward, s.now, s.old, strict=True):
        taper = 1.0 if r > 0 else (n - o).exp().detach().clamp(max=1)
        terms.append(-taper * (r - 0.5) * n)
    return token_mean(terms)


def kimi(s: Step) -> Tensor:
    a = s.compared(shorter(s), centred)
    delta = torch.stack([(n - o).sum() for n, o in zip(s.now, s.old, strict=True)])
    return -(a * delta - 0.05 * delta**2).mean()


def shorter(s: Step) -> Tensor:
    """Rewards with a quarter of the length reward: at half of its warm-up."""
    made = s.returns.clone()
    long, right = torch.tensor([m.tokens for m in s.members]).double(), s.part("em")
    for at in s.places():
        if (span := long[at].max() - long[at].min()) > 0:
            bonus = 0.5 - (long[at] - long[at].min()) / span
            made[at] += 0.25 * torch.where(right[at] > 0, bonus, bonus.clamp(max=0))
    return made


def m2po(s: Step) -> Tensor:
    now, sampled = torch.cat(s.now), torch.cat(s.sampled)
    a = torch.cat(group_relative(s))
    moved = (now - sampled).detach()
    eligible = ((a > 0) & (moved > 0)) | ((a < 0) & (moved < 0))
    order = sorted(np.flatnonzero(eligible).tolist(), key=lambda t: -float(moved[t] ** 2))
    keep = torch.ones(len(now)).double()
    while order and float((moved[order] ** 2).mean()) > 0.04:
        keep[order.pop(0)] = 0
    assert (keep == 0).any(), "else the method is not seen"
    return -(keep * (now - sampled).exp() * a).mean()


def m2po_areal(s: Step) -> Tensor:
    apart = (torch.cat(s.old) - torch.cat(s.sampled)) ** 2
    order = apart.argsort(descending=True).tolist()
    keep = torch.ones(len(apart)).double()
    while order and float(apart[order].mean()) > 0.04:
        keep[order.pop(0)] = 0
    assert (keep == 0).any(), "else the method is not seen"
    parts = keep.split([len(o) for o in s.old])
    adv = [a * k for a, k in zip(group_relative(s), parts, strict=True)]
    return decoupled(s, adv, float("inf"), False, episode_mean)


def kl_cov(s: Step) -> Tensor:
    adv, logp = torch.cat(group_relative(s)), torch.cat(s.old)
    covariance = (adv - adv.mean()) * (logp - logp.mean())
    count = max(1, int(2e-4 * len(adv)))
    picked = covariance >= covariance.topk(count).values[-1]
    apart = (torch.cat(s.now) - logp).abs()
    rho = (torch.cat(s.now) - logp).exp()
    return (-adv * rho).mean() + (apart * picked).sum() / len(adv)


def reinforce_pp(s: Step) -> Tensor:
    return ppo(s, whitened(s.even(s.reward)))


def reinforce_pp_baseline(s: Step) -> Tensor:
    return ppo(s, whitened(s.even(s.compared(s.reward, centred))))


def asearcher(s: Step) -> Tensor:
    adv = whitened(s.even(s.compared(s.reward, centred)))
    return decoupled(s, adv, 5, False, token_mean, 0.4)


def llds(s: Step) -> Tensor:
    """GRPO, and what tokens of right answers lost in turns that lost as a whole."""
    adv, lost = group_relative(s), []
    for a, n, o, turn in zip(adv, s.now, s.old, s.turn, strict=True):
        fell = (o - n) * (a >= 0)
        worse = torch.stack([fell[turn == k].sum() > 0 for k in turn.tolist()])
        lost.append(fell.clamp(min=0) * worse)
    return ppo(s, adv, episode_mean) + 0.1 * token_mean(lost)


def sets(s: Step) -> Tensor:
    """GRPO over pairs, of which each has one reward."""
    adv = torch.zeros(len(s)).double()
    for at in s.places():
        of = [s.members[i].siblings for i in at]
        value = {k: s.reward[i] for k, i in zip(of, at, strict=True)}
        told = z(torch.stack(list(value.values())))
        for k, i in zip(of, at, strict=True):
            adv[i] = told[list(value).index(k)]
    return ppo(s, s.even(adv))


def uncertain(s: Step) -> Tensor:
    """The best quarter of the groups, which of three is one."""
    wide = sorted(s.places(), key=lambda at: -round(float(s.reward[at].std(correction=0)), 9))
    adv = s.even(s.compared(s.reward, z))
    kept = [i for at in wide[: -(-len(wide) // 4)] for i in at]
    terms = [surrogate((s.now[i] - s.old[i]).exp(), adv[i], high=0.28) for i in sorted(kept)]
    return token_mean(terms)


def remax(s: Step) -> Tensor:
    greedy = [next(sum(t.reward for t in m.episode.turns) for m in s.everyone[g]
                   if m.purpose == "baseline") for g in s.group]  # fmt: skip
    return reinforce(s, s.even(s.reward - torch.tensor(greedy).double()))


def batch_norm(s: Step) -> Tensor:
    a = s.compared(s.reward, z)
    return gspo(s, s.even((a - a.mean()) / a.std()), 0.2, 0.28) + 1e-4 * kl(s, episode_mean)


def stratified(s: Step) -> Tensor:
    searches = [m.episode.queries for m in s.members]
    whole = s.compared(s.reward, lambda v: z(v, 0))
    inside = torch.zeros(len(s)).double()
    for at in s.places():
        for number in {searches[i] for i in at}:
            here = [i for i in at if searches[i] == number]
            inside[here] = z(s.reward[here], 0)
    return ppo(s, s.even((whole + inside) / 2), episode_mean)


def noisy(s: Step) -> Tensor:
    noise = torch.tensor([m.episode.config.params["noise"] for m in s.members]).double()
    made = torch.zeros(len(s)).double()
    for at in s.places():
        r = s.reward[at]
        if r.max() - r.min() > 1e-6:
            prior = 0.1 / (r.var() + 0.1)
            k = prior / (prior + 0.1)
            made[at] = z(z(r) + k * (z(1 - noise[at]) - z(r)))
    return ppo(s, s.even(made), episode_mean)


def fathom(s: Step) -> Tensor:
    split = sum(float(s.reward[at].max() - s.reward[at].min()) > 1e-6 for at in s.places())
    factor = len(s.places()) / split
    return ppo(s, [factor * a for a in group_relative(s)])


def forward_kl(s: Step) -> Tensor:
    worth = s.reward.exp() / s.reward.exp().mean()
    terms = [-(f * (r - n).exp().detach().clamp(max=10) - 1) * n
             for f, r, n in zip(worth, s.ref, s.now, strict=True)]  # fmt: skip
    return ppo(s, group_relative(s)) + 0.01 * token_mean(terms)


def retention(s: Step) -> Tensor:
    apart = [((r - o).exp() + o - r - 1).mean() for r, o in zip(s.ref, s.old, strict=True)]
    worth = s.reward + 0.1 * torch.exp(-torch.stack(apart) / 0.1)
    return ppo(s, s.even((worth - worth.mean()) / (worth.std(correction=0) + EPS)))


def distilled(s: Step) -> Lines:
    return [t - o for t, o in zip(s.teacher, s.old, strict=True)]


def dgpo(s: Step) -> Tensor:
    adv = group_relative(s)
    wrong = [r < 0.5 for r in s.reward.tolist()]
    mixed = [a + 0.1 * d if w else a for a, d, w in zip(adv, distilled(s), wrong, strict=True)]
    return ppo(s, mixed)


def kepo(s: Step) -> Tensor:
    whole = group_relative(s)
    return ppo(s, [a + 0.05 * d * bool(r >= 0.5)
                   for a, d, r in zip(whole, distilled(s), s.reward, strict=True)])  # fmt: skip


def dpo(s: Step) -> Tensor:
    delta = torch.stack([(n - r).sum() for n, r in zip(s.now, s.ref, strict=True)])
    pairs = [(w, x) for at in s.places() for w in at for x in at
             if s.reward[w] >= 0.5 > s.reward[x]]  # fmt: skip
    better, worse = (delta[list(side)] for side in zip(*pairs, strict=True))
    return -torch.nn.functional.logsigmoid(0.1 * (better - worse)).mean()


def imitation(s: Step) -> Tensor:
    return token_mean([-n for n in s.now])


def experts(s: Step, share: float, played: float, weighted: bool = False) -> Tensor:
    """Imitation of the expert's tokens, and GRPO on the others, each by its own tokens."""
    terms = [-(n.exp() * (1 - n.exp())).detach() * n if weighted else -n
             for n, e in zip(s.now, s.expert, strict=True) if e]  # fmt: skip
    own = [i for i, e in enumerate(s.expert) if not e]
    a = s.compared(s.reward, z)
    mine = [surrogate((s.now[i] - s.old[i]).exp(), a[i]) for i in own]
    return share * token_mean(terms) + played * token_mean(mine)


def answers(s: Step, mend: Callable[..., Tensor]) -> Tensor:
    """THR and NTHR: right are those above their group's mean; ``mend`` changes their lines."""
    a, adv = s.compared(s.reward, z), list(group_relative(s))
    for at in s.places():
        right = [i for i in at if a[i] > 0]
        if not right:
            continue
        wrote = (torch.cat([s.slopes[i] for i in at]) >= 0).any(0)  # by the group's own tokens
        matrix = sum(s.slopes[i][:, wrote].T @ s.hidden[i] for i in right)
        score = {i: (s.slopes[i][:, wrote] @ matrix * s.hidden[i]).sum(1) for i in at}
        for i in at:
            adv[i] = mend(adv[i], score, i, right, len(right) / len(at))
    return ppo(s, adv, episode_mean)


def thr(a: Tensor, score: Any, i: int, right: Any, share: float) -> Tensor:
    limit = torch.cat(list(score.values())).abs().mean()
    sign = torch.sign(score[i]) * (1 if i in right else -1)
    return torch.where(score[i].abs() > limit, a * (1 + 0.1 * sign), a)


def nthr(a: Tensor, score: Any, i: int, right: Any, share: float) -> Tensor:
    if i in right:
        return a
    limit = min(score[j].mean() for j in right)
    return torch.where(score[i] > limit, 2 * abs(0.5 - share) * a, a)


def covariances(s: Step, adv: Lines, most: float) -> Lines:
    """Without any token that Clip-Cov may draw, for it is told to draw as many as there are."""
    every, logp = torch.cat(adv), torch.cat(s.old)
    covariance = (every - every.mean()) * (logp - logp.mean())
    drawn = (covariance > 1) & (covariance < most)
    assert drawn.any(), "else the method is not seen"
    kept = torch.where(drawn, 0.0, every)
    return list(kept.split([len(a) for a in adv]))


def clip_cov(s: Step) -> Tensor:
    return ppo(s, covariances(s, group_relative(s), 5))


def spear(s: Step) -> Tensor:
    used = [sum(bool(t.results) for t in m.episode.turns) for m in s.members]
    worth = s.returns + (0.1 * torch.tensor(used).double()).clamp(max=1)
    adv = covariances(s, s.even(s.compared(worth, centred)), 40)
    return ppo(s, adv, constant, high=0.28, dual=10)


def grpo_with(average: Callable[..., Tensor], k3: float = 0.0, bonus: float = 0.0,
              **clip: Any) -> Callable[[Step], Tensor]:  # fmt: skip
    def loss(s: Step) -> Tensor:
        made = ppo(s, group_relative(s), average, **clip)
        if k3:
            made = made + k3 * kl(s, average)
        return made - bonus * token_mean(s.entropy) if bonus else made

    return loss
