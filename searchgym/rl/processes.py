"""Several processes that train one model: each plays and learns from its share of every batch.

All of them hold the same recipe and see all groups, so that rewards, advantages and the choice of
tasks are those of a single process; gradients are those of the whole batch. Started by ``accelerate
launch`` or ``torchrun``. Weights are either whole in each process (DDP) or in shards (FSDP2).

:class:`Processes` comes before everything that takes a place on a GPU, models and vLLM alike::

    processes = Processes("ddp")
    lm = TrainableLM(path)
    trainer = Trainer(lm, lm.policy("chat"), env, "grpo", processes=processes, out=out)
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import Tensor

from ..errors import CardError, EngineError, MissingExtraError
from .packing import pack, unpack
from .slots.records import Group

if TYPE_CHECKING:
    from ..policies.causal_lm import CausalLMPolicy
    from ..policies.trainable import TrainableLM

T = TypeVar("T")


class Alone:
    """One process: the default of a trainer, and what :class:`Processes` does with a count of 1."""

    count, index = 1, 0

    @property
    def main(self) -> bool:
        """Whether this process writes logs and checkpoints."""
        return self.index == 0

    def wrap(self, lm: TrainableLM, policy: CausalLMPolicy) -> None:
        """Make the model's gradients those of all processes."""

    def mine(self, items: Sequence[T]) -> list[T]:
        """This process's share: every ``count``-th."""
        return list(items[self.index :: self.count])

    def groups(self, plans: Sequence[Any], mine: Sequence[Group]) -> list[Group]:
        """Everybody's groups, in the order of ``plans``, of which each has played its share."""
        return list(mine)

    def lines(self, mine: Tensor, count: int) -> Tensor:
        """Everybody's lines of a (``count``, T) tensor, in order."""
        return mine

    def sums(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Sums over processes; all have the same names."""
        return dict(numbers)

    def most(self, number: int) -> int:
        """The largest of everybody's numbers."""
        return number

    def adding(self, last: bool) -> AbstractContextManager[None]:
        """Around a backward pass; gradients are exchanged in the ``last`` one of an update."""
        return nullcontext()

    def close(self) -> None:
        """At the end of a run, by all: there is nothing more to exchange. Not needed, nor liked,
        by vLLM, which ends their group when it ends itself."""


class Processes(Alone):
    """The processes this one was launched with. Made before the model is loaded and before vLLM
    starts, so that each process takes the GPU that is its own.

    Args:
        how: ``"ddp"``: whole weights in each; ``"fsdp"``: shards (FSDP2), each block of layers
            gathered while it is used. With shards the policy needs a generator of its own.
        cpu: Stay off GPUs, over gloo.
        timeout_s: How long a process waits for the others, whose episodes may take longer; after
            that the run ends with an error. Counts for whoever joins the processes first.

    Raises:
        EngineError: another number of processes was launched than have found each other, or the
            model turns out to be wrapped otherwise than asked for.
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
        self._wrapped: Any = None
        _require_all(self.count)
        if self.main:
            _warn_of_precision()

    def wrap(self, lm: TrainableLM, policy: CausalLMPolicy) -> None:
        if self.count == 1:
            return
        lm.place_reference(self._accelerator.device)
        if self.how == "ddp":
            from torch.nn.parallel import DistributedDataParallel

            self._wrapped = lm.wrapped = self._accelerator.prepare_model(lm.model)
            wanted: type = DistributedDataParallel
        else:
            from torch.distributed.fsdp import FSDPModule

            if getattr(policy.generator, "model", None) is lm.model:
                raise EngineError(
                    "weights in shards cannot write text: give the policy a generator of its own, "
                    "CausalLMPolicy(TransformersGenerator(path)) or a VllmGenerator"
                )
            self._wrapped = lm.wrapped = _sharded(lm.model, self._accelerator.device, self.count)
            lm.passes, wanted = self.most, FSDPModule
        if not isinstance(lm.wrapped, wanted):
            raise EngineError(
                f"how={self.how!r} asks for {wanted.__name__}, but the model became "
                f"{type(lm.wrapped).__name__}"
            )

    def groups(self, plans: Sequence[Any], mine: Sequence[Group]) -> list[Group]:
        packed = _in_turn(self._everybodys([pack(group) for group in mine]))
        played = (m.episode for group in mine for m in group.members)
        reward = next((episode.config.rules.reward for episode in played), None)
        return [unpack(plan, members, reward) for plan, members in zip(plans, packed, strict=True)]

    def lines(self, mine: Tensor, count: int) -> Tensor:
        # as one tensor that owns its storage: what is pickled of a view is all it was cut from
        shares = self._everybodys([mine.clone()])
        lines = _in_turn([list(share[0]) for share in shares])
        if len(lines) != count:
            raise EngineError(f"processes disagree: {len(lines)} lines instead of {count}")
        return torch.stack(lines)

    def sums(self, numbers: Mapping[str, float]) -> dict[str, float]:
        everybodys = self._everybodys([dict(numbers)])
        return {name: sum(share[0][name] for share in everybodys) for name in numbers}

    def most(self, number: int) -> int:
        return max(share[0] for share in self._everybodys([number]))

    def adding(self, last: bool) -> AbstractContextManager[None]:
        if self.count == 1 or last or self.how == "fsdp":
            return nullcontext()
        waits: AbstractContextManager[None] = self._wrapped.no_sync()
        return waits

    def close(self) -> None:
        if self.count > 1 and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def _everybodys(self, share: list[Any]) -> list[list[Any]]:
        """Each process's share, by its index."""
        if self.count == 1:
            return [share]
        found: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(found, share)
        return found


def launched() -> int:
    """How many processes ``torchrun`` or ``accelerate launch`` has started; 1 without them."""
    said = os.environ.get("WORLD_SIZE", "1")
    return int(said) if said.isdecimal() else 1


def _require_all(count: int) -> None:
    """Processes that know nothing of each other would each train alone, into the same folder."""
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


def _in_turn(shares: Sequence[Sequence[T]]) -> list[T]:
    """The list that :meth:`Alone.mine` has cut into shares."""
    longest = max(map(len, shares))
    return [share[i] for i in range(longest) for share in shares if i < len(share)]


def _sharded(model: Any, device: torch.device, count: int) -> Any:
    """FSDP2 over all processes: each block by itself, the rest together."""
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
    """A transformer's layers: its longest list of modules."""
    lists: list[Any] = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    return max(lists, key=len, default=[])
