"""The base of data policies that store members of groups and train on some of them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ...types import Task
from ..slots.records import TaskPlan
from ..stored import SuccessStore
from .uniform import UniformTasks


class StoringTasks(UniformTasks):
    """Tasks in random order, and a store of members that survives a checkpoint. Those who store
    observe and admit, or replay."""

    adds = frozenset({"replayed"})

    def __init__(self) -> None:
        super().__init__()
        self._store = SuccessStore()

    def plan(
        self, tasks: Sequence[Task], count: int, step: int, seed: int, env: Any = None
    ) -> list[TaskPlan]:
        if env is not None:
            self._store.reward = env.rules.reward
        return super().plan(tasks, count, step, seed, env)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "stored": self._store.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._store.load_state_dict(state["stored"])

    def tensors(self) -> Mapping[str, Tensor]:
        return self._store.tensors()

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        self._store.load_tensors(tensors)
