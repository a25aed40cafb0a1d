"""Data-parallel training: each process plays and learns from its shard of every batch.

All processes hold the same recipe and see all groups, so that rewards, advantages and the choice of
tasks are those of a single process; gradients are those of the whole batch. Start them by
``accelerate launch`` or ``torchrun``. Weights are replicated (DDP) or sharded (FSDP2).

Create :class:`Processes` before anything that takes memory on a GPU, models and vLLM alike::

    processes = Processes("ddp")
    lm = TrainableLM(path)
    trainer = Trainer(lm, lm.policy("chat"), env, "grpo", processes=processes, out=out)
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import Tensor

from ..errors import CardError, EngineError, MissingExtraError
from .slots.records import Group, pack, unpack

if TYPE_CHECKING:
    from ..policies.causal_lm import CausalLMPolicy
    from ..policies.trainable import TrainableLM

T = TypeVar("T")


class SingleProcess:
    """Collectives of a single process: the default of a trainer."""

    count, index = 1, 0

    @property
    def main(self) -> bool:
        """True if this process writes logs and checkpoints."""
        return self.index == 0

    def wrap(self, lm: TrainableLM, policy: CausalLMPolicy) -> None:
        """Wrap the model so that gradients are averaged over processes."""

    def shard(self, items: Sequence[T]) -> list[T]:
        """Return this process's items: every ``count``-th."""
        return list(items[self.index :: self.count])

    def all_gather_groups(self, plans: Sequence[Any], shard: Sequence[Group]) -> list[Group]:
        """Groups of all processes, in the order of ``plans``, of which each played its shard."""
        return list(shard)

    def all_gather_rows(self, shard: Tensor, count: int) -> Tensor:
        """(``count``, T) rows of all processes, in order."""
        return shard

    def all_reduce_sum(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Sums over processes; all must give the same names."""
        return dict(numbers)

    def all_reduce_max(self, number: int) -> int:
        """Maximum over processes."""
        return number

    def no_sync(self, last: bool) -> AbstractContextManager[Any]:
        """Context of a backward pass; gradients are exchanged in the ``last`` one of an update."""
        return nullcontext()

    def close(self) -> None:
        """Destroy the process group, in all processes. Skip it with vLLM, which destroys the group
        itself."""


class Processes(SingleProcess):
    """Collectives of the processes that ``torchrun`` or ``accelerate launch`` started. Create it
    before the model is loaded and before vLLM starts, so that each process takes its own GPU.

    Args:
        how: ``"ddp"``: replicated weights; ``"fsdp"``: sharded weights (FSDP2), each block of
            layers gathered while it is used. Sharded, the policy needs a generator of its own.
        cpu: Train on CPUs, over gloo.
        timeout_s: Seconds a process waits for the others, whose episodes may take longer, before
            the run ends with an error. The process group that is set up first decides.

    Raises:
        EngineError: the number of processes launched and found differ, or the model is wrapped
            otherwise than asked for.
    """

    def __init__(
        self,
        how: Literal["ddp", "fsdp"] = "ddp",
        *,
        cpu: bool = False,
        timeout_s: float = 3600.0,
    ) -> None:
        if how not in ("ddp", "fsdp"):
            raise CardError(f"how is 'ddp' or 'fsdp', got {how!r}")
        if timeout_s <= 0:
            raise CardError(f"timeout_s must be positive, got {timeout_s:g}")
        try:
            import accelerate
        except ImportError as error:
            raise MissingExtraError("training in several processes", "distributed") from error
        self.how = how
        # nothing is done to buffers, which are constants: that would take one exchange per forward
        # pass, of which processes make different numbers
        ddp = accelerate.DistributedDataParallelKwargs(broadcast_buffers=False)
        group = accelerate.InitProcessGroupKwargs(timeout=timedelta(seconds=timeout_s))
        # "no", whatever the configuration says: its autocast would change what is trained, but
        # not what plays, and float16 would need scaled gradients
        self._accelerator = accelerate.Accelerator(
            cpu=cpu, mixed_precision="no", kwargs_handlers=[ddp, group]
        )
        self.count: int = self._accelerator.num_processes
        self.index: int = self._accelerator.process_index
        self._wrapped: list[Any] = []
        _require_all(self.count)
        if self.main:
            _warn_of_precision()

    def wrap(self, lm: TrainableLM, policy: CausalLMPolicy) -> None:
        if self.count == 1:
            return
        lm.place_reference(self._accelerator.device)
        if self.how == "ddp":
            from torch.nn.parallel import DistributedDataParallel

            lm.wrapped = self._accelerator.prepare_model(lm.model)
            wanted: type = DistributedDataParallel
        else:
            from torch.distributed.fsdp import FSDPModule

            if getattr(policy.generator, "model", None) is lm.model:
                raise EngineError(
                    "weights in shards cannot write text: give the policy a generator of its own, "
                    "CausalLMPolicy(TransformersGenerator(path)) or a VllmGenerator"
                )
            lm.wrapped = _sharded(lm.model, self._accelerator.device, self.count)
            lm.passes, wanted = self.all_reduce_max, FSDPModule
        if not isinstance(lm.wrapped, wanted):
            raise EngineError(
                f"how={self.how!r} asks for {wanted.__name__}, but the model became "
                f"{type(lm.wrapped).__name__}"
            )
        self._wrapped.append(lm.wrapped)

    def all_gather_groups(self, plans: Sequence[Any], shard: Sequence[Group]) -> list[Group]:
        packed = _interleave(self._all_gather([pack(group) for group in shard]))
        played = (m.episode for group in shard for m in group.members)
        reward = next((episode.config.rules.reward for episode in played), None)
        return [unpack(plan, members, reward) for plan, members in zip(plans, packed, strict=True)]

    def all_gather_rows(self, shard: Tensor, count: int) -> Tensor:
        # as one tensor that owns its storage: pickling a view would send all it was cut from
        shards = self._all_gather([shard.clone()])
        rows = _interleave([list(each[0]) for each in shards])
        if len(rows) != count:
            raise EngineError(f"processes disagree: {len(rows)} rows instead of {count}")
        return torch.stack(rows)

    def all_reduce_sum(self, numbers: Mapping[str, float]) -> dict[str, float]:
        shards = self._all_gather([dict(numbers)])
        return {name: sum(shard[0][name] for shard in shards) for name in numbers}

    def all_reduce_max(self, number: int) -> int:
        return max(shard[0] for shard in self._all_gather([number]))

    def no_sync(self, last: bool) -> AbstractContextManager[Any]:
        if self.count == 1 or last or self.how == "fsdp":
            return nullcontext()
        waits = ExitStack()
        for wrapped in self._wrapped:
            waits.enter_context(wrapped.no_sync())
        return waits

    def close(self) -> None:
        if self.count > 1 and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def _all_gather(self, shard: list[Any]) -> list[list[Any]]:
        if self.count == 1:
            return [shard]
        shards: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(shards, shard)
        return shards


def launched() -> int:
    """Number of processes that ``torchrun`` or ``accelerate launch`` started; 1 without them."""
    size = os.environ.get("WORLD_SIZE", "1")
    return int(size) if size.isdecimal() else 1


def _require_all(count: int) -> None:
    """Refuse processes that did not find each other: each would train alone, into one folder."""
    if (started := launched()) != count and "WORLD_SIZE" in os.environ:
        raise EngineError(
            f"{started} processes were launched (WORLD_SIZE), but this one has found {count}, "
            "itself included: something has set up a group of its own before. Make Processes(…) "
            "first, before the model is loaded and before a VllmGenerator; start all by torchrun "
            "or accelerate launch, which set LOCAL_RANK, too; to train in one process, unset "
            "WORLD_SIZE"
        )


def _warn_of_precision() -> None:
    asked = os.environ.get("ACCELERATE_MIXED_PRECISION") or "no"
    if asked != "no":
        warnings.warn(
            f"ACCELERATE_MIXED_PRECISION={asked} (accelerate's configuration) is not "
            "followed: it would change what is trained and not what plays. To train in bfloat16: "
            "TrainableLM(…, autocast='bfloat16'), or --set load.autocast=bfloat16",
            stacklevel=3,
        )


def _interleave(shards: Sequence[Sequence[T]]) -> list[T]:
    """The list that :meth:`SingleProcess.shard` cut into shards."""
    longest = max(map(len, shards))
    return [shard[i] for i in range(longest) for shard in shards if i < len(shard)]


def _sharded(model: Any, device: torch.device, count: int) -> Any:
    """Shard a model over all processes (FSDP2): each block by itself, the rest together."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if any(".lora_" in name for name, _ in model.named_parameters()):
        raise EngineError("adapters are not cut into shards: train them with how='ddp'")
    model.to(device)
    mesh = init_device_mesh(device.type, (count,))
    for block in _blocks(model):
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _blocks(model: Any) -> Sequence[Any]:
    """The layers of a transformer: its longest ``ModuleList``."""
    lists: list[Any] = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    return max(lists, key=len, default=[])
