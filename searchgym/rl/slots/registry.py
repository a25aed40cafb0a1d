"""Names, import paths and options to objects: what a recipe's tables mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ...cards import from_spec
from ...errors import CardError, unknown

SlotName = Literal["rollout", "signal", "reward", "advantage", "loss", "data", "schedule"]
_RL = "searchgym.rl."

REGISTRY: Mapping[SlotName, Mapping[str, str]] = {
    "rollout": {
        "chains": _RL + "rollouts.chains:Chains",
        "demonstrations": _RL + "rollouts.demonstrations:Demonstrations",
    },
    "signal": {
        "return": _RL + "signals.outcome:Return",
        "parts": _RL + "signals.outcome:Parts",
        "length": _RL + "signals.length:Length",
        "turn_returns": _RL + "signals.turns:TurnReturns",
        "turn_parts": _RL + "signals.turns:TurnParts",
        "searches": _RL + "signals.turns:Searches",
        "anchor": _RL + "signals.turns:Anchor",
        "gold_logp": _RL + "signals.gold:GoldLogp",
    },
    "reward": {
        "weighted": _RL + "rewards.weighted:Weighted",
        "overlong": _RL + "rewards.overlong:Overlong",
        "shorter": _RL + "rewards.shorter:Shorter",
        "per_turn": _RL + "rewards.turns:PerTurn",
        "information_gain": _RL + "rewards.turns:InformationGain",
    },
    "advantage": {
        "reinforce": _RL + "estimators.reinforce:Reinforce",
        "reinforce_pp": _RL + "estimators.reinforce:ReinforcePP",
        "reinforce_pp_baseline": _RL + "estimators.reinforce:ReinforcePPBaseline",
        "remax": _RL + "estimators.remax:ReMax",
        "grpo": _RL + "estimators.groups:GRPO",
        "dr_grpo": _RL + "estimators.groups:DrGRPO",
        "stratified": _RL + "estimators.groups:Stratified",
        "grpo_steps": _RL + "estimators.turns:GRPOSteps",
        "mt_grpo": _RL + "estimators.turns:MTGRPO",
        "gigpo": _RL + "estimators.turns:GiGPO",
        "rloo": _RL + "estimators.groups:RLOO",
        "opo": _RL + "estimators.groups:OPO",
        "gpg": _RL + "estimators.groups:GPG",
        "passk": _RL + "estimators.groups:PassK",
        "opmd": _RL + "estimators.groups:OPMD",
        "ppo": _RL + "estimators.ppo:PPO",
        "ones": _RL + "estimators.ones:Ones",
        "distillation": _RL + "estimators.distillation:Distillation",
        "kl_in_reward": _RL + "estimators.over:KLInReward",
        "clip_cov": _RL + "estimators.over:ClipCov",
        "kl_cov": _RL + "estimators.over:KLCov",
        "m2po": _RL + "estimators.m2po:M2PO",
    },
    "loss": {
        "reinforce": _RL + "objectives.policy:Reinforce",
        "ppo": _RL + "objectives.policy:PPO",
        "decoupled": _RL + "objectives.policy:Decoupled",
        "gspo": _RL + "objectives.policy:GSPO",
        "cispo": _RL + "objectives.policy:CISPO",
        "sapo": _RL + "objectives.policy:SAPO",
        "tis": _RL + "objectives.policy:TIS",
        "opmd": _RL + "objectives.policy:OPMD",
        "kimi": _RL + "objectives.policy:Kimi",
        "sft": _RL + "objectives.supervised:SFT",
        "dpo": _RL + "objectives.supervised:DPO",
        "kl": _RL + "objectives.auxiliary:KL",
        "kl_cov": _RL + "objectives.auxiliary:KLCov",
        "entropy": _RL + "objectives.auxiliary:Entropy",
    },
    "data": {
        "uniform": _RL + "data.uniform:Uniform",
        "curriculum": _RL + "data.curriculum:ByCurriculum",
        "dynamic": _RL + "data.dynamic:Dynamic",
        "rejection": _RL + "data.rejection:Rejection",
        "prioritized": _RL + "data.prioritized:Prioritized",
    },
    "schedule": {
        "constant": _RL + "schedules:Constant",
        "scheduled": _RL + "schedules:Scheduled",
        "adaptive_kl": _RL + "schedules:AdaptiveKL",
    },
}
"""Slot → name → import path. Others are named by their own path."""


def make(slot: SlotName, spec: Any) -> Any:
    """An object from a name, an import path, a table or itself.

    Args:
        slot: One of ``REGISTRY``.
        spec: ``"grpo"``, ``"package.module:Class"``, ``{"use": either, **options}``, or an object,
            which is returned.

    Raises:
        CardError: an unknown name or option, or an object that does not fit the slot.
    """
    if slot not in REGISTRY:
        raise CardError(unknown("slot", slot, REGISTRY))
    method = METHODS[slot]
    spec = from_spec(slot, spec, REGISTRY[slot], accepts=(method, "state_dict", "load_state_dict"))
    lacking = [n for n in (method, "requires", "provides", "state_dict", "load_state_dict")
               if not hasattr(spec, n)]  # fmt: skip
    if lacking:
        raise CardError(
            f"{type(spec).__name__} cannot be a {slot}: it has no {', '.join(lacking)} (see "
            "searchgym.rl.slots.protocols; the base class Slot has all but the first)"
        )
    return spec


METHODS: Mapping[SlotName, str] = {
    "rollout": "collect",
    "signal": "measure",
    "reward": "apply",
    "advantage": "estimate",
    "loss": "__call__",
    "data": "plan",
    "schedule": "coef",
}
"""What an object of each slot is asked."""
