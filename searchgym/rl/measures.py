"""What is logged of each step's episodes and groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .ops.kl import kl
from .ops.mask import masked, masked_mean
from .ops.ratio import log_ratio
from .signals.outcome import total
from .slots.batch import Batch
from .slots.records import Played, Scored


def of_episodes(scored: Sequence[Scored]) -> dict[str, float]:
    """Means over the step's episodes, baselines left out. Broken ones count in ``infra`` alone.

    ``reward``: after all transforms; ``return``: the environment's; ``part/<name>``: each of its
    parts, unweighted, per episode; ``em``, ``f1``; ``searches``, ``turns``, ``tokens`` per episode;
    ``invalid``: share of turns; ``truncated``: share of episodes a budget ended; ``entropy``: in
    nats per token, estimated by minus the mean log-probability of what was drawn.
    """
    members = [
        (m, r)
        for s in scored
        for m, r in zip(s.group.members, s.rewards.total, strict=True)
        if m.purpose == "train"
    ]
    sound = [(m, float(r)) for m, r in members if not m.broken]
    found: dict[str, float] = {
        "episodes": float(len(members)),
        "infra": float(len(members) - len(sound)),
    }
    if not sound:
        return found
    episodes = [m.episode for m, _ in sound]
    turns = sum(len(e.turns) for e in episodes)
    invalid = sum("invalid" in t.reward_parts for e in episodes for t in e.turns)
    rewards = np.array([r for _, r in sound])
    known = rewards[~np.isnan(rewards)]
    parts = sorted({name for e in episodes for t in e.turns for name in t.reward_parts})
    sums = {
        f"part/{name}": sum(t.reward_parts.get(name, 0.0) for e in episodes for t in e.turns)
        for name in parts
    }
    outcomes = [e.parts or {} for e in episodes]
    logp = [_sampled_logp(m) for m, _ in sound]
    tokens = sum(map(len, logp))
    return {
        **found,
        "reward": float(known.mean()) if len(known) else float("nan"),
        "return": float(np.mean([total(m) for m, _ in sound])),
        "em": float(np.mean([p.get("em", 0.0) for p in outcomes])),
        "f1": float(np.mean([p.get("f1", 0.0) for p in outcomes])),
        **{name: value / len(episodes) for name, value in sums.items()},
        "searches": float(np.mean([e.queries for e in episodes])),
        "turns": turns / len(episodes),
        "tokens": tokens / len(episodes),
        "invalid": invalid / max(turns, 1),
        "truncated": float(np.mean([e.truncated for e in episodes])),
        "entropy": -float(np.concatenate(logp).mean()) if tokens else 0.0,
    }


def of_groups(played: Sequence[Scored], kept: Sequence[Scored]) -> dict[str, float]:
    """``groups`` played, ``kept`` for training with so many ``trajectories``; ``equal_groups``:
    share of the played ones whose rewards are all equal, which teach group methods nothing;
    ``difficulty/<axis>``: mean over the played groups that a curriculum set it for."""
    asked: dict[str, list[float]] = {}
    for s in played:
        for axis, value in s.group.plan.params.items():
            asked.setdefault(f"difficulty/{axis}", []).append(float(value))
    equal = [len(np.unique(s.rewards.total[s.training])) <= 1 for s in played]
    return {
        "groups": float(len(played)),
        "kept": float(len(kept)),
        "trajectories": float(sum(len(s.training) for s in kept)),
        "equal_groups": float(np.mean(equal)) if equal else 0.0,
        **{name: float(np.mean(values)) for name, values in sorted(asked.items())},
    }


def of_age(batch: Batch, version: int, eta: int) -> dict[str, float]:
    """How far a batch is from the weights of ``version`` that are about to learn from it.

    ``age/0`` … ``age/<eta>``: shares of trained tokens by how many versions ago they were drawn,
    ``age/mean``, ``age/max``. Where the old log-probabilities are known, of the trained tokens'
    w = π_old / π_sampled: ``weight/mean``, ``weight/max``, ``weight/kept`` (effective sample size,
    (Σw)² / Σw², as a share), ``weight/k3`` (KL of the sampling policy to the old one).
    """
    ages = version - np.concatenate([row.version[row.loss_mask] for row in batch.rows])
    if not len(ages):
        return {}
    found = {f"age/{n}": float((ages == n).mean()) for n in range(eta + 1)}
    found |= {"age/mean": float(ages.mean()), "age/max": float(ages.max())}
    if batch.old_logp is not None:
        ratio = log_ratio(batch.old_logp, batch.sampled_logp, batch.mask)[batch.mask].double()
        w = ratio.exp()
        found |= {
            "weight/mean": float(w.mean()),
            "weight/max": float(w.max()),
            "weight/kept": float(w.sum() ** 2 / (w**2).sum() / len(w)),
            "weight/k3": float((w - ratio - 1).mean()),
        }
    return found


def of_batch(batch: Batch) -> dict[str, float]:
    """``kl_ref``: mean k3 per trained token from the policy that played to the reference, in nats;
    only where a reference was looked up."""
    if batch.ref_logp is None:
        return {}
    played = batch.sampled_logp if batch.old_logp is None else batch.old_logp
    value = kl(masked(played, batch.mask), masked(batch.ref_logp, batch.mask), "k3")
    return {"kl_ref": masked_mean(value, batch.mask)}


def _sampled_logp(member: Played) -> np.ndarray:
    parts = [row.logp[row.sampled] for row in member.rows]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)
