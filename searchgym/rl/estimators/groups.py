"""Advantages from comparing the members of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ..advantages.gpg import gpg_advantages
from ..advantages.grpo import dr_grpo_advantages, grpo_advantages
from ..advantages.opmd import opmd_advantages
from ..advantages.opo import opo_advantages
from ..advantages.passk import passk_advantages
from ..advantages.rloo import rloo_advantages
from ..advantages.stratified import stratified_advantages
from ..kernels.groups import Std, checked_std
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction, Slot

Coef = Mapping[str, float]


class _Relative(Slot):
    relative: ClassVar[bool] = True
    invariant: ClassVar[frozenset[str]] = frozenset()


class GRPO(_Relative):
    """(R - mean) / (std + ``eps``)."""

    invariant = frozenset({"shift", "scale"})

    def __init__(self, std: Std = "sample", eps: float = 1e-6) -> None:
        self.std: Std = checked_std(std)
        self.eps = float(eps)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(grpo_advantages(batch.reward, batch.group, std=self.std, eps=self.eps))


class Stratified(_Relative):
    """GRPO within the stratum and within the group, mixed.

    Args:
        alpha: Weight of the first, or ``coef["stratified"]``.
        stratum: The signal whose equal values make a stratum.
    """

    invariant = frozenset({"shift", "scale"})
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"alpha": 0.0}, {"use": "grpo", "std": "population"}),
    )

    def __init__(
        self,
        alpha: float = 0.5,
        stratum: str = "searches",
        std: Std = "population",
        eps: float = 1e-6,
    ) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is in [0, 1], got {alpha}")
        self.alpha, self.stratum, self.eps = float(alpha), stratum, float(eps)
        self.std: Std = checked_std(std)
        self.requires = frozenset({stratum})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(stratified_advantages(
            batch.reward, batch.group, batch.signal(self.stratum),
            alpha=coef.get("stratified", self.alpha), std=self.std, eps=self.eps,
        ))  # fmt: skip


class DrGRPO(_Relative):
    """R - mean."""

    invariant = frozenset({"shift"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(dr_grpo_advantages(batch.reward, batch.group))


class RLOO(_Relative):
    """R - mean of the others."""

    invariant = frozenset({"shift"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(rloo_advantages(batch.reward, batch.group))


class OPO(_Relative):
    """R - mean weighted by length; Dr.GRPO where all are equally long."""

    invariant = frozenset({"shift"})
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({}, {"use": "dr_grpo"}, where="one token"),
    )

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(opo_advantages(batch.reward, batch.group, batch.length))


class GPG(_Relative):
    """R - mean, scaled by the share that scored."""

    def __init__(self, norm: float = 1.0) -> None:
        if norm <= 0:
            raise ValueError(f"norm must be positive, got {norm}")
        self.norm = float(norm)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(gpg_advantages(batch.reward, batch.group, norm=self.norm))


class PassK(_Relative):
    """The best one's lead, for the best one alone."""

    invariant = frozenset({"shift", "scale"})

    def __init__(self, std: Std = "sample", eps: float = 1e-6) -> None:
        self.std: Std = checked_std(std)
        self.eps = float(eps)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(passk_advantages(batch.reward, batch.group, std=self.std, eps=self.eps))


class OPMD(_Relative):
    """R - the group's mean or soft maximum."""

    invariant = frozenset({"shift"})
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"baseline": "mean"}, {"use": "dr_grpo"}),
    )

    def __init__(
        self, tau: float = 1.0, baseline: Literal["mean", "logavgexp"] = "logavgexp"
    ) -> None:
        if tau <= 0 or baseline not in ("mean", "logavgexp"):
            raise ValueError(
                f"tau is positive, baseline 'mean' or 'logavgexp'; got {tau}, {baseline!r}"
            )
        self.options: dict[str, Any] = {"tau": float(tau), "baseline": baseline}

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        return Estimate(opmd_advantages(batch.reward, batch.group, **self.options))
