"""Registered losses and advantages as functions of tensors, for tests of their numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from searchgym.rl.ops.tokens import masked
from searchgym.rl.slots.batch import Batch, Estimate, Mean, Output
from searchgym.rl.slots.protocols import make

KNOWN = {f.name for f in fields(Batch)}


def batch_of(mask: Tensor, **given: Any) -> Batch:
    """A batch with these of its fields, of trajectories of one group without episodes."""
    rows, no = torch.zeros(len(mask)), torch.zeros(len(mask), dtype=torch.bool)
    usual = {
        "members": [None] * len(mask), "turn": (mask * 0).long(), "group": rows.long(),
        "reward": rows, "sampled_logp": mask * 0.0, "expert": no, "replayed": no,
    }  # fmt: skip
    return Batch(mask=mask > 0, **{**usual, **given})


def loss_of(use: str, *reads: str) -> Any:
    """``loss(logp, *reads, mask, **options)`` → (loss, statistics). ``reads`` and those options
    that a batch has are its fields, others the loss's, and ``norm`` that of the whole batch."""

    def loss(
        logp: Tensor, *values: Any, norm: float | None = None, tokens: float | None = None,
        sequences: float | None = None, clip_scale: Tensor | None = None, **options: Any,
    ) -> tuple[Tensor, dict[str, float]]:  # fmt: skip
        given = dict(zip((*reads, "mask"), values, strict=True))
        given |= {name: options.pop(name) for name in KNOWN & set(options)}
        if "adv" in given:
            given["credit"] = Estimate(given.pop("adv"), clip_scale)
        batch = batch_of(**given)
        totals = batch.totals
        if tokens is not None and sequences is not None:
            totals = totals._replace(tokens=tokens, sequences=sequences)
        if norm is not None:
            options["norm"] = norm / max(totals.sequences, 1.0)
        value, stats = make("loss", {"use": use, **options})(Output(logp, logp), batch, totals, {})
        means = {
            n: v.total / max(v.weight, 1.0) if isinstance(v, Mean) else v for n, v in stats.items()
        }
        return value, means

    return loss


def estimate(use: Any, mask: Tensor, **options: Any) -> Estimate:
    """What an estimator gives for a batch of these tensors; options as in :func:`loss_of`. The
    rewards are those of the turns, where they alone are given."""
    given = {name: options.pop(name) for name in KNOWN & set(options)}
    if "turn_reward" in given:
        given.setdefault("reward", masked(given["turn_reward"], mask).sum(1).detach())
    if options:
        use = {"use": use, **options}
    made: Estimate = make("advantage", use).estimate(batch_of(mask, **given), {})
    return made


def stratified(reward: Tensor, group: Tensor, stratum: Tensor, **options: Any) -> Tensor:
    """Stratified GRPO's advantages."""
    given = {"reward": reward, "group": group, "signals": {"searches": stratum}}
    return estimate("stratified", torch.ones(len(reward), 1), **given, **options).adv


def grpo_steps(
    reward: Tensor, turn: Tensor, group: Tensor, mask: Tensor, **options: Any
) -> Tensor:  # fmt: skip
    """Advantages of GRPO with process supervision."""
    given = {"turn_reward": reward, "turn": turn, "group": group}
    return estimate("grpo_steps", mask, **given, **options).adv


def otb(reward: Tensor, logp: Tensor, square: Tensor, group: Tensor, mask: Tensor) -> Tensor:
    """The optimal token baseline's advantages."""
    given = {"old_logp": logp, "measures": {"sum_pi_sq": square}, "group": group}
    return estimate("otb", mask, turn_reward=reward, **given).adv


reinforce_loss = loss_of("reinforce", "adv")
ppo_loss = loss_of("ppo", "old_logp", "adv")
decoupled_loss = loss_of("decoupled", "old_logp", "sampled_logp", "adv")
gspo_loss = loss_of("gspo", "old_logp", "adv")
cispo_loss = loss_of("cispo", "old_logp", "adv")
topr_loss = loss_of("topr", "old_logp", "adv")
kimi_loss = loss_of("kimi", "old_logp", "adv")
m2po_loss = loss_of("m2po", "sampled_logp", "adv")
opmd_loss = loss_of("opmd", "adv")
forward_kl_loss = loss_of("forward_kl", "ref_logp")
sft_loss = loss_of("sft")
kl_loss = loss_of("kl", "ref_logp")
kl_cov_loss = loss_of("kl_cov", "old_logp")
entropy_loss = loss_of("entropy")
