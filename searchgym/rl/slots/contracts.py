"""Contracts that every object of a slot must keep; call them from your own tests::

    from searchgym.rl.slots.contracts import check_estimator
    check_estimator({"use": "my_package.module:MyAdvantage", "option": 3})

Each check makes the object anew from its recipe entry as often as it needs, and raises
``CheckError`` with the first broken promise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import CheckError, EngineError
from ...policies.scoring import TOKEN_MEASURES
from ...scoring.metrics import RL, family
from ...types import Task
from .batch import Batch, Estimate, Mean, Output, Totals
from .protocols import Floats, Reduction, make
from .records import Group, Played, Rewards, Scored, TaskPlan, Workers
from .registry import SlotName
from .samples import group_of, sample_batch, sample_signals, shuffled

_OPTIONAL = ("turn_reward", "baseline", "old_logp", "ref_logp", "teacher_logp", "value")
_PER_TOKEN = ("sampled_logp", "old_logp", "ref_logp", "teacher_logp", "turn_reward", "value")


def require(condition: bool, spec: Any, promise: str) -> None:
    """``CheckError`` unless it holds."""
    if not condition:
        raise CheckError(f"{spec!r}: {promise}")


def close(a: Tensor, b: Tensor) -> bool:
    """Return True if both are equal up to rounding and hold no NaN."""
    return a.shape == b.shape and bool(torch.allclose(a, b, atol=1e-5, rtol=1e-5))


def poisoned(batch: Batch) -> Batch:
    """The same batch with NaN wherever nothing may be read."""
    nan = torch.tensor(float("nan"))

    def spoilt(values: Tensor) -> Tensor:
        there = batch.mask.reshape(*batch.mask.shape, *(1,) * (values.ndim - 2))
        return torch.where(there, values, nan)

    changes: dict[str, Any] = {name: spoilt(batch.need(name)) for name in _PER_TOKEN}
    changes["measures"] = {name: spoilt(values) for name, values in batch.measures.items()}
    return replace(batch, **changes)


def bare(batch: Batch, requires: Collection[str]) -> Batch:
    """The same batch without the optional fields that are not required."""
    absent: dict[str, Any] = dict.fromkeys(set(_OPTIONAL) - set(requires))
    left = {name: values for name, values in batch.measures.items() if name in requires}
    return replace(batch, measures=left, **absent)


def unlikely(batch: Batch) -> Batch:
    """The same batch with NaN as the sampling log-probabilities of experts."""
    nan = torch.full_like(batch.sampled_logp, float("nan"))
    return replace(batch, sampled_logp=torch.where(batch.expert[:, None], nan, batch.sampled_logp))


def check_needs(spec: Any, declared: Any, use: Callable[[], object]) -> None:
    """Check that it works when given nothing but what it requires."""
    try:
        use()
    except (ValueError, AttributeError, TypeError) as error:
        raise CheckError(
            f"{spec!r}: requires names all that it reads; it has {sorted(declared.requires)}, and "
            f"with nothing else there it fails: {error}"
        ) from error


def check_memory(slot: SlotName, spec: Any, use: Callable[[Any], Any]) -> None:
    """Check that a new object with a used one's state (through JSON) behaves as the used one."""
    old, new = make(slot, spec), make(slot, spec)
    use(old)
    new.load_state_dict(json.loads(json.dumps(old.state_dict())))
    if hasattr(old, "tensors"):
        new.load_tensors({name: value.clone() for name, value in old.tensors().items()})
    a, b = use(old), use(new)
    same = close(a, b) if isinstance(a, Tensor) else a == b
    require(bool(same), spec, "state_dict holds all that is remembered, as JSON values")


def only(spec: Any, claim: Reduction) -> dict[str, Any]:
    """A recipe entry with a claim's options alone."""
    return {"use": spec if isinstance(spec, str) else spec["use"], **claim.options}


_FIELDS = frozenset(f.name for f in fields(Batch)) | set(TOKEN_MEASURES)


# --- advantages -------------------------------------------------------------------------------
def check_estimator(spec: Any) -> None:
    """Shape, masks, permutations, equal rewards, groups of one, unscorable members, nothing to
    train on, undeclared needs, repeatability, memory, declared invariances and reductions."""

    def estimate(batch: Batch, of: Any = spec) -> Tensor:
        return _spread(make("advantage", of).estimate(batch, {}).adv, batch)

    declared = make("advantage", spec)
    needed = sorted(declared.requires - _FIELDS)
    batch = sample_batch(0, signals=needed)
    made = make("advantage", spec).estimate(batch, {})
    require(isinstance(made, Estimate), spec, "estimate gives an Estimate")
    adv, scale, mask = made[:3]
    require(adv.shape in ((len(batch),), batch.mask.shape), spec, "advantages are (N,) or (N, T)")
    require(scale is None or scale.shape == batch.mask.shape, spec, "the clip scale is (N, T)")
    told = scale is None or "clip_scale" in declared.provides
    require(told, spec, "an estimator that gives a clip scale provides 'clip_scale'")
    fits = mask is None or (mask.shape == batch.mask.shape and mask.dtype == torch.bool)
    require(fits, spec, "the mask is (N, T) bool")
    require(not adv.requires_grad, spec, "advantages are detached")
    require(bool(torch.isfinite(adv).all()), spec, "advantages are finite, also in groups of one")
    if adv.ndim == 2:
        require(bool((adv[~batch.mask] == 0).all()), spec, "advantages are 0 where masked")
    unscored = batch.reward.isnan()
    require(bool((adv[unscored] == 0).all()), spec, "what cannot be scored gets 0")
    wide = _spread(adv, batch)
    require(close(estimate(batch), wide), spec, "the same batch gives the same advantages")
    require(close(estimate(poisoned(batch)), wide), spec, "masked places are not read")
    order = shuffled(len(batch))
    mixed = estimate(batch.take(order))
    require(close(mixed, wide[order]), spec, "the order of trajectories does not matter")
    renamed = replace(batch, group=7 - batch.group)
    require(close(estimate(renamed), wide), spec, "the names of groups do not matter")
    nothing = replace(batch, mask=torch.zeros_like(batch.mask))
    finite = bool(torch.isfinite(make("advantage", spec).estimate(nothing, {}).adv).all())
    require(finite, spec, "advantages are finite where nothing is trained on")
    check_needs(spec, declared, lambda: estimate(bare(batch, declared.requires)))
    if "sampled_logp" not in declared.requires:
        same = close(estimate(unlikely(batch)), wide)
        require(same, spec, "requires names 'sampled_logp' if it reads an expert's")
    for claim in declared.invariant:
        require(claim in _CHANGES, spec, f"invariant names some of {sorted(_CHANGES)}")
        require(close(estimate(_CHANGES[claim](batch)), wide), spec, f"invariant under {claim}")
    if declared.relative:
        for number in batch.group.unique():
            mine = batch.group == number
            known = batch.reward[mine & ~unscored]
            if len(known) < 2 or bool((known == known[0]).all()):
                zero = bool((wide[mine] == 0).all())
                require(zero, spec, "groups that cannot be compared get exactly 0")
    other = sample_batch(2, signals=needed)
    check_memory("advantage", spec, lambda o: _spread(o.estimate(other, {}).adv, batch))
    for claim in declared.reductions:
        small = sample_batch(1, one_token=claim.where == "one token", signals=needed)
        mine = estimate(small, only(spec, claim))
        require(close(mine, estimate(small, dict(claim.to))), spec, f"reduces to {claim.to}")


def _shifted(batch: Batch) -> Batch:
    more = 0.5 + 0.25 * batch.group
    assert batch.outcome is not None
    return replace(batch, reward=batch.reward + more, outcome=batch.outcome + more)


def _scaled(batch: Batch) -> Batch:
    paid: dict[str, Any] = {
        name: 3 * batch.need(name) for name in ("reward", "outcome", "turn_reward")
    }
    return replace(batch, **paid)


_CHANGES: Mapping[str, Callable[[Batch], Batch]] = {"shift": _shifted, "scale": _scaled}


def _spread(adv: Tensor, batch: Batch) -> Tensor:
    wide = adv[:, None].expand(batch.mask.shape) if adv.ndim == 1 else adv
    return torch.where(batch.mask, wide, torch.zeros_like(wide))


# --- losses -----------------------------------------------------------------------------------
def check_loss(spec: Any) -> None:
    """One number, masks, permutations, parts that add up, empty batches, undeclared needs, whether
    it reads the clip scale as it says, declared reductions."""
    declared = make("loss", spec)
    needed = sorted(declared.requires - _FIELDS - {"entropy"})
    batch = sample_batch(0, signals=needed, notes=needed)
    loss, gradient = _loss(spec, batch)
    ready = prepared(spec, batch)
    require(loss.ndim == 0 and bool(torch.isfinite(loss)), spec, "a loss is one finite number")
    require(bool((gradient != 0).any()), spec, "a loss has a gradient")
    require(bool((gradient[~batch.mask] == 0).all()), spec, "masked tokens get no gradient")
    again = _loss(spec, poisoned(batch))
    require(close(again[0], loss) and close(again[1], gradient), spec, "masked places do not count")
    order = shuffled(len(batch))
    mixed = _loss(spec, batch.take(order))
    require(close(mixed[0], loss), spec, "the order of trajectories does not matter")
    require(close(mixed[1], gradient[order]), spec, "the order of trajectories does not matter")
    check_needs(spec, declared, lambda: _loss(spec, bare(batch, declared.requires)))
    if "sampled_logp" not in declared.requires:
        blind = _loss(spec, unlikely(batch), logp=batch.sampled_logp)
        same = close(blind[0], loss) and close(blind[1], gradient)
        require(same, spec, "requires names 'sampled_logp' if it reads an expert's")
    narrow, wide = (_loss(spec, _clipped(batch, factor))[1] for factor in (1e-6, 1e6))
    reads = bool((narrow != wide).any())
    require(
        reads == declared.scales_clip, spec, "scales_clip says whether it reads batch.clip_scale"
    )
    parts = [torch.nonzero(batch.group == n)[:, 0].tolist() for n in batch.group.unique()]
    if not declared.whole_groups:
        parts = [[i for i in range(len(batch)) if i % 3 == k] for k in range(3)]
    by_part = [_loss(spec, ready.take(p), batch.totals, ready=True) for p in parts]
    require(close(torch.stack([f[0] for f in by_part]).sum(), loss), spec, "parts add up")
    for places, (_, part) in zip(parts, by_part, strict=True):
        require(close(part, gradient[places]), spec, "parts have the whole's gradient")
    nothing = replace(batch, mask=torch.zeros_like(batch.mask))
    empty, none = _loss(spec, nothing)
    require(bool(torch.isfinite(empty)) and not none.any(), spec, "nothing to learn: no gradient")
    for claim in declared.reductions:
        small = sample_batch(1, signals=needed, notes=needed, one_token=claim.where == "one token")
        if claim.where == "on-policy":
            small = replace(small, old_logp=small.sampled_logp)
        mine, other = _loss(only(spec, claim), small), _loss(dict(claim.to), small)
        require(close(mine[1], other[1]), spec, f"{claim.where} it has the gradient of {claim.to}")


def _clipped(batch: Batch, factor: float) -> Batch:
    scale = torch.full(batch.mask.shape, factor)
    return replace(batch, credit=Estimate(batch.adv, clip_scale=scale))


def prepared(spec: Any, batch: Batch, logp: Tensor | None = None) -> Batch:
    """A batch with what a loss notes of a whole update, at the log-probabilities of ``_loss``."""
    loss = make("loss", spec)
    logp = batch.sampled_logp if logp is None else logp
    output = Output(logp) if loss.prepares_with_logp else None
    return replace(batch, notes={**batch.notes, **loss.prepare(batch, output, {})})


def _loss(
    spec: Any,
    batch: Batch,
    totals: Totals | None = None,
    *,
    ready: bool = False,
    logp: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The loss and its gradient on log-probabilities, (N, T), plus that on entropies, at ``logp``
    or those of sampling. ``ready``: the batch is a part of one that was prepared."""
    batch = batch if ready else prepared(spec, batch, logp)
    logp = (batch.sampled_logp if logp is None else logp).clone().requires_grad_()
    read = "entropy" in make("loss", spec).requires
    entropy = (1.0 + logp.detach() ** 2).requires_grad_() if read else None
    totals = batch.totals if totals is None else totals
    value, stats = make("loss", spec)(Output(logp, entropy), batch, totals, {})
    numbers = [n for v in stats.values() for n in (v if isinstance(v, Mean) else (v,))]
    require(all(map(math.isfinite, numbers)), spec, "statistics are finite numbers, or a Mean")
    inputs = [logp] if entropy is None else [logp, entropy]
    grads = torch.autograd.grad(value, inputs, allow_unused=True)
    gradient = torch.zeros_like(logp)
    for part in grads:
        gradient = gradient if part is None else gradient + part
    return value.detach(), gradient


# --- rewards, data, schedules -----------------------------------------------------------------
def check_reward(spec: Any, by_turn: Sequence[str] = ()) -> None:
    """Shapes, permutations, NaN in NaN out, groups of one, what was paid before is kept (or, where
    it ``gates``, multiplied), inputs left alone. ``by_turn``: names of your own signals that have a
    number for each turn."""
    transform = make("reward", spec)
    group = group_of(5)
    signals = sample_signals(sorted(transform.requires), 5, 0, by_turn)
    start = np.array([0.0, 0.5, 0.0, np.nan, 1.0])
    first = Rewards(start.copy())
    rewards = transform.apply(group, signals, first, {})
    require(rewards.outcome.shape == (5,), spec, "a reward per member")
    require(rewards.turns is None or rewards.turns.shape[:1] == (5,), spec, "turns are (M, K)")
    total = rewards.total
    require(bool(np.isnan(total).tolist() == np.isnan(start).tolist()), spec, "NaN in, NaN out")
    require(bool(np.array_equal(first.outcome, start, True)), spec, "inputs are left alone")
    order = [3, 1, 4, 0, 2]
    mixed = Group(group.plan, tuple(group.members[i] for i in order))
    turned = {name: values[order] for name, values in signals.items()}
    again = transform.apply(mixed, turned, Rewards(start[order]), {}).total
    require(bool(np.allclose(again, total[order], equal_nan=True)), spec, "order does not matter")
    one = {name: values[:1] for name, values in signals.items()}
    alone = Group(group.plan, group.members[:1])
    single = transform.apply(alone, one, Rewards(start[:1]), {}).total
    require(bool(np.isfinite(single).all()), spec, "a group of one has a reward")

    def paid(each: float) -> Rewards:
        before = Rewards(start.copy(), np.full((5, 2), float(each)))
        return transform.apply(group, signals, before, {})

    if transform.reshapes_turns:
        kept = paid(1).turns is not None and np.array_equal(paid(1).outcome, start, True)
        require(bool(kept), spec, "who reshapes turn rewards leaves the outcome alone")
    elif transform.gates:
        free = paid(0).turns
        nothing = free is None or not np.nan_to_num(free).any()
        require(nothing, spec, "what gates turn rewards pays nothing where there are none")
        once, twice = (paid(each).total - paid(0).total for each in (1, 2))
        even = np.allclose(twice, 2 * once, equal_nan=True)
        require(bool(even), spec, "what gates turn rewards multiplies them")
    else:
        kept = np.allclose(paid(1).total, total + 2, equal_nan=True)
        require(bool(kept), spec, "turn rewards are handed on, or gates is True")


def check_data(spec: Any) -> None:
    """Plans that repeat and have names of their own, an end to playing, memory, and members that
    were not played declared."""
    tasks = [Task(f"t{i}", f"question {i}?", (str(i),)) for i in range(7)]

    def later(policy: Any) -> list[TaskPlan]:
        plans = [p for step in (5, 6) for p in policy.plan(tasks, 4, step, 1)]
        return [*plans, *policy.plan(tasks, 4, 6, 1)]  # a second round of the same step

    policy = make("data", spec)
    plans = later(policy)
    require(len(plans) == 12, spec, "as many plans as asked for")
    require(len({p.name for p in plans}) == 12, spec, "each plan has a name of its own")
    require(plans == later(make("data", spec)), spec, "the same seed gives the same plans")

    def seen(policy: Any) -> list[Scored | None]:
        """Groups as a training shows them: of mixed rewards, then failures alone."""
        admitted = []
        for rewards in ([1.0, 0.0, np.nan, 1.0], [0.0, 0.0, 0.0, 0.0]):
            values = np.array(rewards)
            signals = dict.fromkeys(policy.requires, values)
            scored = Scored(group_of(4), signals, Rewards(values))
            policy.observe(scored)
            admitted.append(policy.admit(scored))
            if admitted[-1] is not None:
                _check_admitted(spec, policy, scored, admitted[-1])
        return admitted

    seen(policy)
    try:
        ends = any(policy.enough(0, 4, rounds) for rounds in range(10_000))
    except EngineError:  # says that it gives up
        ends = True
    require(ends and not policy.enough(0, 4, 0), spec, "playing begins, and ends")

    def after(policy: Any) -> list[Any]:
        rewards = [None if s is None else s.rewards.total.tolist() for s in seen(policy)]
        return [repr(rewards), *((p.task.id, p.key) for p in later(policy))]

    check_memory("data", spec, after)


def _check_admitted(spec: Any, policy: Any, scored: Scored, admitted: Scored) -> None:
    """Check the members that are trained on, and what is said of those that were not played."""
    before = set(map(id, scored.group.members))
    added = [m for m in admitted.group.members if id(m) not in before]
    declared = all(m.purpose in policy.adds for m in added)
    require(declared, spec, "members that were not played are of a purpose named in adds")
    require(
        policy.unsampled or not any(m.unsampled for m in added),
        spec,
        "unsampled is True if members without sampling log-probabilities are added",
    )
    size = len(admitted.group.members)
    require(len(admitted.rewards.outcome) == size, spec, "a reward for each that is admitted")
    fits = all(len(values) == size for values in admitted.signals.values())
    require(fits, spec, "signals for each that is admitted")
    require(not set(scored.signals) - set(admitted.signals), spec, "all signals are handed on")


class _Watched(dict[str, float]):
    """Metrics of which only those that are there may be asked for."""

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]

    def __contains__(self, name: object) -> bool:
        return self[str(name)] is not None

    def __missing__(self, name: str) -> float:
        raise CheckError(f"a schedule reads the metric {name!r}, which its watches does not name")


def check_schedule(spec: Any) -> None:
    """Check a schedule: finite numbers, memory, and that it reads the logged metrics that it names
    in ``watches`` and no others."""
    names = sorted(make("schedule", spec).watches)
    logged = all(name in RL or family(name) in RL for name in names)
    require(logged, spec, f"watches names metrics of METRICS.md; it has {names}")
    metrics = _Watched({name: 0.1 * i for i, name in enumerate(names, 3)})

    def three(schedule: Any) -> list[dict[str, float]]:
        return [dict(schedule.coef(step, metrics)) for step in range(3)]

    for coef in three(make("schedule", spec)):
        require(all(np.isfinite(v) for v in coef.values()), spec, "coefficients are finite")
    check_memory("schedule", spec, three)


# --- rollouts and signals, which need a policy ------------------------------------------------
def check_rollout(spec: Any, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
    """A group per plan, finished unless the rollout truncates, rows of its own episodes, which hold
    each turn once, parents in place; repeatable; returns the groups."""
    groups: list[Group] = make("rollout", spec).collect(plans, workers)
    require([g.plan for g in groups] == list(plans), spec, "a group per plan, in order")
    members = [m for g in groups for m in g.members]
    done = make("rollout", spec).truncates or all(m.finished for m in members)
    require(done, spec, "episodes are finished, or truncates is True")
    names = [m.episode.config.episode_id for m in members]
    require(len(set(names)) == len(names), spec, "each episode has an id of its own")
    for member in members:
        own = all(r.trajectory_id == member.episode.config.episode_id for r in member.rows)
        require(own, spec, "rows belong to their episode")
        turns = [int(u.rpartition("/")[2]) for r in member.rows for u in r.turn_uids]
        once = len(set(turns)) == len(turns) and all(t >= member.since for t in turns)
        require(once, spec, "rows hold each turn once, and none of the parent's")
    rollout = make("rollout", spec)
    known = {"train", "baseline", *rollout.adds}
    declared = all(m.purpose in known for m in members)
    require(declared, spec, "members that the policy did not play are of a purpose named in adds")
    sampled = rollout.unsampled or not any(m.unsampled for m in members)
    require(sampled, spec, "unsampled is True if members have no sampling log-probabilities")
    for group in groups:
        size = len(group.members)
        there = all(m.parent is None or 0 <= m.parent < size for m in group.members)
        own = any(m.parent == i for i, m in enumerate(group.members))
        require(there and not own, spec, "a parent is the place of another member of the group")
    again = make("rollout", spec).collect(plans, workers)
    texts = [[t.text for t in m.episode.turns] for g in again for m in g.members]
    same = texts == [[t.text for t in m.episode.turns] for m in members]
    require(same, spec, "the same plans give the same episodes")
    if "baseline" in make("rollout", spec).provides:
        twins = all(any(m.purpose == "baseline" for m in g.members) for g in groups)
        require(twins, spec, "each group has the baseline it provides")
    return groups


def check_signal(spec: Any, groups: Sequence[Group], workers: Workers) -> None:
    """Check a signal: exactly the promised names, numbers by member or by member and turn,
    repeatable."""
    signal = make("signal", spec)
    measured = signal.measure(groups, workers)
    require(len(measured) == len(groups), spec, "signals for each group")
    again = make("signal", spec).measure(groups, workers)
    for group, values, same in zip(groups, measured, again, strict=True):
        require(set(values) == set(signal.provides), spec, "the names that it provides")
        for name, numbers in values.items():
            fits = numbers.ndim in (1, 2) and len(numbers) == len(group.members)
            require(fits, spec, "(M,) or (M, K) numbers")
            require(bool(np.array_equal(numbers, same[name], True)), spec, "it repeats")


__all__ = [
    "Floats", "Played", "check_data", "check_estimator", "check_loss", "check_reward",
    "check_rollout", "check_schedule", "check_signal",
]  # fmt: skip
