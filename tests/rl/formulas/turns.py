"""Recipes that credit turns, or have a critic."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.rl.formulas.step import (
    Lines,
    Step,
    centred,
    episode_mean,
    kl,
    left_out,
    ppo,
    reinforce,
    surrogate,
    to_go,
    together,
    token_mean,
    whitened,
    z,
)


def states(member: Any) -> list[Hashable]:
    """What stands before each turn in the rows: read since the last one, as ids."""
    (row,) = member.rows
    at = [np.flatnonzero(row.turn_of_token == k) for k in range(len(row.turn_uids))]
    ends = [0, *(int(x[-1]) + 1 for x in at)]
    return [tuple(row.ids[ends[k] : int(x[0])].tolist()) for k, x in enumerate(at)]


def gigpo(s: Step) -> Tensor:
    before = [states(m) for m in s.members]
    steps = together(s, [to_go(r, 0.95) for r in s.paid],
                     lambda i, k: (s.group[i], before[i][k]), centred)  # fmt: skip
    whole = s.even(s.compared(s.returns, centred))
    return ppo(s, [a + b for a, b in zip(whole, s.spread(steps), strict=True)], episode_mean)


def salt(s: Step) -> Tensor:
    a, edges = s.compared(s.reward, z), []
    for m in s.members:
        seen = [*states(m), ()]
        edges.append(
            [(seen[k], repr(t.action), seen[k + 1]) for k, t in enumerate(m.episode.turns)]
        )
    own = [a[i].repeat(len(e)) for i, e in enumerate(edges)]
    merged = together(s, own, lambda i, k: (s.group[i], edges[i][k]),
                      lambda v: v.mean().expand(len(v)), alone=True)  # fmt: skip
    return ppo(s, s.spread(merged), episode_mean)


def evidence(s: Step, weight: float, outcome: Tensor) -> Lines:
    """Rewards of turns: the outcome is the last one's."""
    made = [weight * v for v in s.turn_part("evidence")]
    for line, paid in zip(made, outcome, strict=True):
        line[-1] += paid
    return made


def turn_mix(s: Step, paid: Lines, trajectory: float, turn: float, batch: float, gamma: float,
             alone: bool = False) -> Lines:  # fmt: skip
    later = [to_go(r, gamma) for r in paid]
    whole = s.compared(torch.stack([r.sum() for r in paid]), z)
    same = together(s, later, lambda i, k: (s.group[i], k), alone=alone)
    every = together(s, later, lambda i, k: 0)
    mixed = [trajectory * w + turn * a + batch * b
             for w, a, b in zip(whole, same, every, strict=True)]  # fmt: skip
    return s.spread(mixed)


def ui_s1(s: Step) -> Tensor:
    return ppo(s, turn_mix(s, evidence(s, 0.3, s.part("em")), 1, 1, 0, 0.5), episode_mean)


def mapo(s: Step) -> Tensor:
    return ppo(s, turn_mix(s, evidence(s, 0.3, s.part("em")), 0, 0.5, 0.5, 1), episode_mean)


def matchtir(s: Step) -> Tensor:
    adv = turn_mix(s, s.by_turn("turn_matching"), 0.5, 0.5, 0, 0.9, alone=True)
    more = 0.001 * kl(s, episode_mean) - 0.001 * token_mean(s.entropy)
    return ppo(s, adv, episode_mean) + more


def mt_grpo(s: Step) -> Tensor:
    shown = s.by_turn("turn_answer_shown")
    outcome = s.compared(s.part("em"), z)
    turns = s.compared(torch.stack([v.sum() for v in shown]), z)
    mixed = [a + b * (torch.arange(len(v)) < len(v) - 1)
             for a, b, v in zip(outcome, turns, shown, strict=True)]  # fmt: skip
    return ppo(s, s.spread(mixed), episode_mean)


def in_steps(s: Step, paid: Lines) -> Lines:
    """All rewards of a group's turns normalised together, and each turn's sum of later ones."""
    found = together(s, paid, lambda i, k: s.group[i])
    return s.spread([to_go(v) for v in found])


def clip_delta(s: Step) -> Tensor:
    paid = []
    for v, outcome in zip(s.turn_part("evidence"), s.returns, strict=True):
        r = (0.5 * v - 0.25).clamp(max=0)
        r = torch.cat([r[:-2] - r[1:-1], r[-2:-1], torch.zeros(1).double()])
        r[-1] += outcome
        paid.append(r)
    return ppo(s, in_steps(s, paid), episode_mean)


def gains(s: Step) -> Lines:
    """By how much each turn but the last made the gold answer likelier."""
    return [v.exp().diff() for v in s.by_turn("gold_logp")]


def igpo(s: Step) -> Tensor:
    paid = [torch.cat([g, r[None]]) for g, r in zip(gains(s), s.returns, strict=True)]
    return ppo(s, in_steps(s, paid), episode_mean) + 0.001 * kl(s, episode_mean)


def a2tgpo(s: Step) -> Tensor:
    compared = together(s, gains(s), lambda i, k: (s.group[i], k))
    outcome, terms = s.compared(s.returns, z), []
    for i, v in enumerate(compared):
        count = torch.arange(len(v), 0, -1).double()
        bonus = torch.cat([to_go(v) / count.sqrt(), torch.zeros(1).double()])
        adv = (outcome[i] + 0.3 * bonus)[s.turn[i]]
        scale = 1 + 0.3 * (2 * torch.cat([v, torch.zeros(1).double()]).sigmoid() - 1)
        moved, rho = s.now[i] - s.old[i], torch.zeros(len(adv)).double()
        for k in s.turn[i].unique():
            here = s.turn[i] == k
            rho = torch.where(here, moved[here].mean().exp(), rho)
        eps = 0.2 * scale[s.turn[i]]
        terms.append(surrogate(rho, adv, eps, eps))
    return episode_mean(terms) + 0.001 * kl(s, episode_mean)


def infopo(s: Step) -> Tensor:
    said = s.by_turn("influence")
    compared = together(s, said, lambda i, k: s.group[i] if float(said[i][k]) else None)
    outcome, mixed = s.compared(s.reward, z), []
    for i, v in enumerate(compared):
        at = [j for j in range(len(s)) if s.group[j] == s.group[i]]
        gate = torch.sigmoid(-s.reward[at].std() / 0.05)
        mixed.append(outcome[i] + 0.1 * gate * v)
    return ppo(s, s.spread(mixed), episode_mean)


def mrt(s: Step) -> Tensor:
    mixed = []
    for r, j in zip(s.reward, s.by_turn("gold_chance"), strict=True):
        mixed.append(r - j + torch.cat([j.diff(), torch.zeros(1).double()]))
    return ppo(s, s.spread(mixed), episode_mean)


def ss_grpo(s: Step) -> Tensor:
    paid, stages = evidence(s, 0.3, s.part("em")), []
    for m in s.members:
        last = len(m.episode.turns) - 1
        stages.append([2 if k == last else min(k, 1) for k in range(last + 1)])
    earned = [torch.tensor([sum(float(r[k]) for k, at in enumerate(st) if at == j)
                            for j in range(3)]).double()
              for r, st in zip(paid, stages, strict=True)]  # fmt: skip
    later = [to_go(e, 0.5) for e in earned]
    found = together(s, later, lambda i, j: (s.group[i], j) if j in stages[i] else None)
    mixed = [v[torch.tensor(st)] for v, st in zip(found, stages, strict=True)]
    return ppo(s, s.spread(mixed), episode_mean)


def prl(s: Step) -> Tensor:
    whole, adv = s.compared(s.reward, centred), []
    for i, (o, r) in enumerate(zip(s.old, s.ref, strict=True)):
        turns = int(s.turn[i].max()) + 1
        cost = torch.zeros(turns).double().index_add(0, s.turn[i], -0.01 * (o - r))
        adv.append(whole[i] + to_go(cost)[s.turn[i]])
    return ppo(s, adv)


def otb(s: Step) -> Tensor:
    adv = [torch.zeros(len(o)).double() for o in s.old]
    weight = [(1 - 2 * o.exp() + q).cumsum(0) for o, q in zip(s.old, s.squares, strict=True)]
    for at in s.places():
        for t in range(max(len(s.old[i]) for i in at)):
            there = [i for i in at if len(s.old[i]) > t]
            w = torch.stack([weight[i][t] for i in there])
            floor = (w * s.reward[there]).sum() / w.sum()
            for i in there:
                adv[i][t] = s.reward[i] - floor
    return reinforce(s, adv)


def decs(s: Step) -> Tensor:
    mixed = []
    for a, shown in zip(s.compared(s.reward, z), s.by_turn("turn_answer_shown"), strict=True):
        line = a.repeat(len(shown))
        if shown.any():
            line[int(shown.argmax()) + 1 : -1] = -0.5
        mixed.append(line)
    return ppo(s, s.spread(mixed), episode_mean)


def istar(s: Step) -> Tensor:
    implied = together(s, s.by_turn("turn_implicit"), lambda i, k: s.group[i], left_out)
    return turn_bonus(s, implied)


def turn_bonus(s: Step, bonus: Lines) -> Tensor:
    whole = s.even(s.compared(s.reward, left_out))
    return ppo(s, [a + b for a, b in zip(whole, s.spread(bonus), strict=True)], episode_mean)


# --- with a critic ----------------------------------------------------------------------------
def gae(paid: Tensor, value: Tensor, gamma: float, lam: float) -> Tensor:
    after = torch.cat([value[1:], torch.zeros(1).double()])
    return to_go(paid + gamma * after - value, gamma * lam)


def token_ppo(s: Step, beta: float = 0.0, dual: float | None = 3.0) -> Tensor:
    adv = []
    for i, v in enumerate(s.value):
        paid = torch.zeros(len(v)).double()
        paid[-1] = s.reward[i]
        if beta:
            paid -= beta * (s.old[i] - s.ref[i])
        adv.append(gae(paid, v, 1, 1))
    s.targets = [a + v for a, v in zip(adv, s.value, strict=True)]
    return ppo(s, whitened(adv), dual=dual)


def own_turns(s: Step) -> list[list[Tensor]]:
    """The places of each turn's tokens."""
    return [[torch.nonzero(turn == k)[:, 0] for k in turn.unique()] for turn in s.turn]


def turn_ppo(s: Step, paid: Lines | None = None) -> Tensor:
    adv, s.targets = [], []
    for i, at in enumerate(own_turns(s)):
        first = torch.stack([x[0] for x in at])
        a = gae((s.paid if paid is None else paid)[i], s.value[i][first], 1, 0.95)
        adv.append(a[s.turn[i]])
        target = torch.full((len(s.turn[i]),), torch.nan).double()
        target[first] = a + s.value[i][first]
        s.targets.append(target)
    return ppo(s, whitened(adv), dual=3.0)


def spa_rl(s: Step) -> Tensor:
    paid = [v.clone() for v in s.by_turn("turn_progress")]
    for line, outcome in zip(paid, s.part("em"), strict=True):
        line[-1] += outcome
    return turn_ppo(s, paid)


def bi_level_ppo(s: Step) -> Tensor:
    adv = []
    for i, at in enumerate(own_turns(s)):
        last, v = torch.stack([x[-1] for x in at]), s.value[i]
        ends = gae(s.paid[i], v[last], 0.95, 0.95) + v[last]
        line = torch.zeros(len(v)).double()
        for x, end in zip(at, ends, strict=True):
            paid = torch.zeros(len(x)).double()
            paid[-1] = end
            line[x] = gae(paid, v[x], 1, 0.95)
        adv.append(line)
    s.targets = [a + v for a, v in zip(adv, s.value, strict=True)]
    return ppo(s, whitened(adv), dual=3.0)
