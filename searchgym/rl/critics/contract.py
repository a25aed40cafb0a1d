"""The contract of critics, to be called from your own tests with a recipe's table ``[critic]``:
``check_critic({"use": "my_package.module:MyCritic", "option": 3}, batch, lm)``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ...policies.trainable import TrainableLM
from ..slots.batch import Batch, Estimate
from ..slots.contracts import close, require
from .registry import make_critic


def check_critic(spec: Mapping[str, Any], batch: Batch, lm: TrainableLM) -> None:
    """Shape, finite values, the policy left alone, learning, repeatability, memory; neither the
    order of trajectories nor how many go through the model together matters.

    Args:
        spec: A recipe's table ``[critic]``.
        batch: Trajectories with rows, e.g. ``Batch.of`` played groups.
        lm: The model by which they were played.

    Raises:
        CheckError: the first broken promise.
    """
    before = [p.detach().clone() for p in lm.parameters()]
    one, two = (make_critic(spec, lm, lr=1e-2) for _ in range(2))
    value = _values(one, batch)
    require(value.shape == batch.mask.shape, spec, "values are (N, T)")
    require(not value.requires_grad and value.device.type == "cpu", spec, "values are on the CPU")
    require(bool(torch.isfinite(value).all()), spec, "values are finite")
    goal = torch.where(batch.mask, 0.25 + 0.5 * (batch.turn % 2), 0.0)
    ready = replace(batch, value=value, credit=Estimate(goal, returns=goal))
    first = one.fit(ready)
    named = all(name.startswith("critic/") and math.isfinite(v) for name, v in first.items())
    require(named and "critic/loss" in first, spec, "fit gives critic/loss and finite metrics")
    require(first == two.fit(ready), spec, "the same batch is learnt in the same way")
    still = all(torch.equal(a, b) for a, b in zip(before, lm.parameters(), strict=True))
    require(still, spec, "the policy's weights are left alone")
    for _ in range(30):
        last = one.fit(replace(ready, value=_values(one, batch)))
    require(last["critic/loss"] < first["critic/loss"], spec, "its loss falls on what it learns")
    order = list(range(len(batch)))[::-1]
    learnt = _values(one, batch)
    require(not close(learnt, value), spec, "what it learns changes its values")
    mixed = _values(one, batch.take(order))
    require(close(mixed, learnt[order]), spec, "the order of trajectories does not matter")
    parts = torch.cat([_values(one, batch.take([i])) for i in range(len(batch))])
    require(close(parts, learnt), spec, "a trajectory's values are its own")
    again = make_critic(spec, lm, lr=1e-2)
    again.load_tensors(one.tensors())
    require(torch.equal(_values(again, batch), learnt), spec, "tensors hold all that is learnt")
    more = replace(ready, value=learnt)
    same = one.fit(more) == again.fit(more)
    require(same and torch.equal(_values(again, batch), _values(one, batch)), spec, "it resumes")


def _values(critic: Any, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        state_values: torch.Tensor = critic.values(batch)
    return state_values
