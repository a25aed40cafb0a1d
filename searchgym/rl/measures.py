"""Metrics of a step's episodes, groups and batch; ``metrics.py`` says what each name means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from .ops.groups import all_alike
from .ops.ratios import kl, log_ratio
from .ops.tokens import masked, masked_mean
from .signals import total
from .slots.batch import Batch
from .slots.records import POLICY, Played, Scored

T = TypeVar("T")


def episode_metrics(scored: Sequence[Scored]) -> dict[str, float]:
    """Means over the step's training episodes; baselines and other roles' are left
    out, and of what is known at an episode's end only (``em``, ``f1``) those that a rollout cut
    short.

    Episodes that the infrastructure ended count in ``infra_errors`` alone; where there are no
    others, ``episodes`` and ``infra_errors`` are all that is returned.
    """
    members = [
        (m, r)
        for s in scored
        for m, r in zip(s.group.members, s.rewards.total, strict=True)
        if m.purpose == "train" and m.role == POLICY
    ]
    sound = [(m, float(r)) for m, r in members if not m.broken]
    counts: dict[str, float] = {
        "episodes": float(len(members)),
        "infra_errors": float(len(members) - len(sound)),
    }
    if not sound:
        return counts
    episodes = [m.episode for m, _ in sound]
    turns = sum(len(e.turns) for e in episodes)
    invalid = sum("invalid" in t.reward_parts for e in episodes for t in e.turns)
    rewards = np.array([r for _, r in sound])
    known = rewards[~np.isnan(rewards)]
    parts = sorted({name for e in episodes for t in e.turns for name in t.reward_parts})
    sums = {
        f"rewards/{name}": sum(t.reward_parts.get(name, 0.0) for e in episodes for t in e.turns)
        for name in parts
    }
    outcomes = [e.parts or {} for e in episodes if e.phase == "done"]
    logp = [_sampled_logp(m) for m, _ in sound]
    tokens = sum(map(len, logp))
    mean = rewards.mean()
    return {
        **counts,
        "reward": float(known.mean()) if len(known) else float("nan"),
        "return": float(np.mean([total(m) for m, _ in sound])),
        "em": _mean([p.get("em", 0.0) for p in outcomes]),
        "f1": _mean([p.get("f1", 0.0) for p in outcomes]),
        **{name: value / len(episodes) for name, value in sums.items()},
        "searches": float(np.mean([e.queries for e in episodes])),
        "turns": turns / len(episodes),
        "completion_length": tokens / len(episodes),
        "invalid": invalid / max(turns, 1),
        "truncated": float(np.mean([e.truncated for e in episodes])),
        **{
            name: sum(m.usage.get(name, 0.0) for m, _ in sound) / max(turns, 1)
            for name in ("overflowed", "length_cut")
        },
        "entropy": -float(np.concatenate(logp).mean()) if tokens else 0.0,
        "repetition": _repetition([m for m, _ in sound]),
        "foreign_tokens": _foreign_tokens([m for m, _ in sound]),
        **{name: value for name, value in (
            ("em_correlation", _em_correlation(sound)),
            ("search_gain", gain(sound, [float(e.queries) for e in episodes])),
            ("length_gain", gain(sound, [float(len(own)) for own in logp])),
            ("truncated_gain", _mean([r for m, r in sound if m.episode.truncated]) - mean),
        ) if value == value},
    }  # fmt: skip


def group_metrics(played: Sequence[Scored], kept: Sequence[Scored]) -> dict[str, float]:
    """Counts of the groups ``played`` and of those ``kept`` for training, the share of played
    groups whose rewards are all equal, and the difficulty a curriculum set."""
    difficulty: dict[str, list[float]] = {}
    for s in played:
        for axis, value in s.group.plan.params.items():
            difficulty.setdefault(f"difficulty/{axis}", []).append(float(value))
    equal = []
    for s in played:  # what was added to a group does not make the policy's own members differ
        own = [
            i for i in s.training
            if s.group.members[i].purpose == "train" and s.group.members[i].role == POLICY
        ]  # fmt: skip
        equal.append(all_alike(s.rewards.total[own]))
    return {
        "groups": float(len(played)),
        "groups_kept": float(len(kept)),
        "trajectories": float(sum(len(s.training) for s in kept)),
        "frac_reward_zero_std": float(np.mean(equal)) if equal else 0.0,
        **{name: float(np.mean(values)) for name, values in sorted(difficulty.items())},
    }


def role_metrics(scored: Sequence[Scored]) -> dict[str, float]:
    """``roles/NAME/*`` of the episodes of each role besides the policy's: how many, their mean
    reward, and their tokens, each; those that the infrastructure ended count in ``infra_errors``
    alone."""
    by_role: dict[str, list[tuple[float, int]]] = {}
    broken: dict[str, int] = {}
    for s in scored:
        for m, r in zip(s.group.members, s.rewards.total, strict=True):
            if m.role != POLICY and m.purpose == "train":
                sound = by_role.setdefault(m.role, [])
                if m.broken:
                    broken[m.role] = broken.get(m.role, 0) + 1
                else:
                    sound.append((float(r), m.tokens))
    metrics: dict[str, float] = {}
    for role, values in sorted(by_role.items()):
        rewards = [r for r, _ in values if not np.isnan(r)]
        metrics |= {
            f"roles/{role}/episodes": float(len(values)),
            f"roles/{role}/reward": _mean(rewards),
            f"roles/{role}/completion_length": _mean([float(n) for _, n in values]),
            f"roles/{role}/infra_errors": float(broken.get(role, 0)),
        }
    return metrics


def staleness_metrics(batch: Batch, version: int, eta: int) -> dict[str, float]:
    """Measure how far a batch lags behind the weights of ``version`` that will learn from it.

    ``staleness/0`` … ``staleness/<eta>``: shares of trained tokens by how many updates ago they
    were drawn; tokens that nobody sampled (an expert's) are left out. Where old log-probabilities
    are known, ``importance_sampling_ratio/*`` of the trained tokens' w = π_old / π_sampled.
    """
    versions = np.concatenate([row.version[row.loss_mask] for row in batch.rows])
    ages = version - versions[versions >= 0]
    if not len(ages):
        return {}
    metrics = {f"staleness/{n}": float((ages == n).mean()) for n in range(eta + 1)}
    metrics |= {"staleness/mean": float(ages.mean()), "staleness/max": float(ages.max())}
    if batch.old_logp is not None:
        mask = batch.mask & ~batch.unsampled[:, None]
        ratio = log_ratio(batch.old_logp, batch.sampled_logp, mask)[mask].double()
        w = ratio.exp()
        weights = {
            "mean": float(w.mean()),
            "max": float(w.max()),
            "ess": float(w.sum() ** 2 / (w**2).sum() / len(w)),
            "kl": float((w - ratio - 1).mean()),
        }
        metrics |= {f"importance_sampling_ratio/{name}": v for name, v in weights.items()}
    return metrics


def batch_metrics(batch: Batch) -> dict[str, float]:
    """``kl``: mean k3 per trained token of the policy's own, from it to the reference, in nats;
    empty where no reference was scored."""
    if batch.ref_logp is None:
        return {}
    played = batch.sampled_logp if batch.old_logp is None else batch.old_logp
    mask = batch.mask & ~batch.expert[:, None] & ~batch.unsampled[:, None]
    value = kl(masked(played, mask), masked(batch.ref_logp, mask), "k3")
    return {"kl": masked_mean(value, mask)}


def advantage_metrics(batch: Batch) -> dict[str, float]:
    """``advantage``: mean over trained tokens, in root mean squares; empty where all are 0."""
    values = batch.adv.reshape(len(batch), -1).expand(batch.mask.shape)[batch.mask].double()
    size = float(values.square().mean().sqrt())
    return {"advantage": float(values.mean()) / size} if size > 0 else {}


RENAMED: Mapping[str, str] = {
    "clipped": "clip_frac", "kl_old": "approx_kl", "capped": "capped_frac",
}  # fmt: skip
"""Statistics of losses → the names under which they are logged."""


def renamed(stats: Mapping[str, T]) -> dict[str, T]:
    """A loss's statistics under their logged names."""
    return {RENAMED.get(name, name): value for name, value in stats.items()}


def loss_metrics(loss: str, stats: Mapping[str, T]) -> dict[str, T]:
    """Logged names of a loss's statistics: bare for the policy loss, as TRL and CleanRL log them,
    ``<loss>/<statistic>`` for others."""
    prefix = "" if loss == "policy" else f"{loss}/"
    return {prefix + name: value for name, value in renamed(stats).items()}


WINDOW = 4
"""Tokens in a row of which repetitions are counted."""


def _repetition(members: Sequence[Played]) -> float:
    """Share of windows of ``WINDOW`` sampled tokens that the same episode has written before."""
    windows = different = 0
    for member in members:
        ids = [i for row in member.rows for i in row.ids[row.sampled].tolist()]
        own = [*zip(*(ids[at:] for at in range(WINDOW)), strict=False)]
        windows += len(own)
        different += len(set(own))
    return 1 - different / windows if windows else 0.0


def _em_correlation(members: Sequence[tuple[Played, float]]) -> float:
    """Pearson's correlation over finished episodes of reward and exact match; NaN where one of them
    is the same in all."""
    pairs = [(r, m.episode.parts["em"]) for m, r in members if m.episode.parts and r == r]
    reward, em = np.array(pairs).T if pairs else np.zeros((2, 1))
    if all_alike(reward) or all_alike(em):
        return float("nan")
    return float(np.corrcoef(reward, em)[0, 1])


def gain(members: Sequence[tuple[Played, float]], of: Sequence[float]) -> float:
    """Standard deviations by which the reward grows with one of ``of`` among episodes that are
    equally right: a coefficient of the regression of reward on both. NaN without a difference."""
    rows = [
        (r, m.episode.parts["em"], x)
        for (m, r), x in zip(members, of, strict=True)
        if m.episode.parts and r == r
    ]
    reward, em, x = np.array(rows).T if rows else np.zeros((3, 1))
    if all_alike(reward) or all_alike(x):
        return float("nan")
    units = [(v - v.mean()) / (v.std() or 1.0) for v in (reward, em, x)]
    return round(float(np.linalg.lstsq(np.stack(units[1:], 1), units[0], rcond=1e-6)[0][1]), 9)


def _foreign_tokens(members: Sequence[Played]) -> float:
    """Share of the trained tokens beyond those that the policy's generator counted."""
    trained = [sum(int(row.loss_mask.sum()) for row in m.rows) for m in members]
    foreign = [
        max(0.0, n - m.usage["tokens_out"])
        for n, m in zip(trained, members, strict=True) if "tokens_out" in m.usage
    ]  # fmt: skip
    return sum(foreign) / max(sum(trained), 1)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _sampled_logp(member: Played) -> np.ndarray:
    parts = [row.logp[row.sampled] for row in member.rows]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)
