"""Advantages from comparing the members of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from torch import Tensor

from ..advantages.gpg import gpg_advantages
from ..advantages.grpo import dr_grpo_advantages, grpo_advantages
from ..advantages.opmd import opmd_advantages
from ..advantages.opo import opo_advantages
from ..advantages.passk import passk_advantages
from ..advantages.rloo import rloo_advantages
from ..advantages.stratified import stratified_advantages
from ..kernels.groups import Std
from ..slots.batch import Batch
from ..slots.protocols import Reduction, Slot

Coef = Mapping[str, float]


class _Relative(Slot):
    relative: ClassVar[bool] = True


class GRPO(_Relative):
    """(R - mean) / (std + ``eps``)."""

    def __init__(self, std: Std = "sample", eps: float = 1e-6) -> None:
        if std not in ("sample", "population"):
            raise ValueError(f"std is 'sample' or 'population', got {std!r}")
        self.std: Std = std
        self.eps = float(eps)

    def estimate(self, batch: Batch, coef: Coef) -> tuple[Tensor, None]:
        return grpo_advantages(batch.reward, batch.group, std=self.std, eps=self.eps), None


class Stratified(_Relative):
    """GRPO within the stratum and within the group, mixed.

    Args:
        alpha: Weight of the first, or ``coef["stratified"]``.
        stratum: The signal whose equal values make a stratum.
    """

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
        if not 0 <= alpha <= 1 or std not in ("sample", "population"):
            raise ValueError(
                f"alpha is in [0, 1], std 'sample' or 'population'; got {alpha}, {std!r}"
            )
        self.alpha, self.stratum, self.eps = float(alpha), stratum, float(eps)
        self.std: Std = std
        self.requires = frozenset({stratum})

    def estimate(self, batch: Batch, coef: Coef) -> tuple[Tensor, None]:
        return stratified_advantages(
            batch.reward, batch.group, batch.signal(self.stratum),
            alpha=coef.get("stratified", self.alpha), std=self.std, eps=self.eps,
        ), None  # fmt: skip


class DrGRPO(_Relative):
    """R - mean."""

    def estimate(self, batch: Batch, coef: Coef) -> tuple[Tensor, None]:
        return dr_grpo_advantages(batch.reward, batch.group), None


class RLOO(_Relative):
    """R - mean of the others."""

    def estimate(self, batch: Batch, coef: Coef) -> tuple[Tensor, None]:
        return rloo_advantages(batch.reward, batch.group), None


class OPO(_Relative):
    """R - mean weighted by length; Dr.GRPO where all are equally long."""

    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({}, {"use": "dr_grpo"}, where="one token"),
    )

    def estimate(self, batch: Batch, coef: Coef) -> tuple[Tensor, None]:
        return opo_advantages(batch.reward, batch.group, batch.length), None


class GPG(_Relative):
    """R - mean, scaled by the share that scored."""

    def __init__(self, norm: float = 1.0) -> None:
        if norm <= 0:
            raise ValueError(f"norm must be positive, got {norm}")
        self.norm = float(norm)

    def estimate(self, batch: Batch, coef: Coef) -> tuple[Tensor, None]:
        return gpg_advantages(batch.reward, batch.group, norm=self.norm), None


class PassK(_Relative):
    """The best one's lead, for the best one alone."""

    def __init__(self, std: Std = "sample", eps: float = 1e-6) -> None:
        self.std: Std = std
        self.eps = float(eps)

    def estimate(self, batch: Batch, coef: Coef) -> tuple[Tensor, None]:
        return passk_advantages(batch.reward, batch.group, std=self.std, eps=self.eps), None


class OPMD(_Relative):
    """R - the group's mean or soft maximum."""

    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"baseline": "mean"}, {"use": "dr_grpo"}),
    )

    def __init__(
        self, tau: float = 1.0, baseline: Literal["mean", "logavgexp"] = "logavgexp"
    ) -> None:
        self.options: dict[str, Any] = {"tau": float(tau), "baseline": baseline}

    def estimate(self, batch: Batch, coef: Coef) -> tuple[Tensor, None]:
        return opmd_advantages(batch.reward, batch.group, **self.options), None
