"""Roles of a training: the model in training, and who plays what a method asks for besides.

A role is played by an agent, whose weights stay as they are and whose tokens are in no batch, or by
the policy itself (``"shared"``), whose episodes in that role are members of the groups and train
the same weights. Losses and estimators may be kept to one role (``among``, ``by_role``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..errors import CardError, unknown
from ..policies.trainable import TrainableLM
from ..types import Agent
from .recipe import Recipe
from .slots.records import POLICY, SHARED, how_to_give


def roles_asked(recipe: Recipe) -> dict[str, str]:
    """Role → the part of a recipe that asks for it."""
    return {
        role: f"{place} ({type(part).__name__})"
        for place, part in recipe.parts()
        for role in sorted(part.roles)
    }


def check_roles(recipe: Recipe, roles: Mapping[str, Agent | str], lm: Any) -> None:
    """Refuse a training whose roles are not those that its recipe asks for.

    Args:
        lm: The model in training; None where none is loaded yet.

    Raises:
        CardError: a role that is not given, that nothing asks for or that is no agent, or an agent
            over the very weights in training.
    """
    asked = roles_asked(recipe)
    for role, part in asked.items():
        if role not in roles:
            raise CardError(
                f"{part} plays with a {role!r}, which is not given: {how_to_give(role)}"
            )
    for role, who in roles.items():
        if role not in asked:
            own = "the policy is the model in training" if role == POLICY else ""
            none = "this recipe asks for no roles"
            raise CardError(own or (unknown("role", role, asked) if asked else f"{none}: {role!r}"))
        frozen = any(role in part.frozen for _, part in recipe.parts())
        if who == SHARED and frozen:
            raise CardError(
                f"{asked[role]} does not train its {role!r}: give an agent, not {who!r}"
            )
        if isinstance(who, str):
            if who != SHARED and lm is not None:
                raise CardError(f"role {role!r} is an agent or {SHARED!r}, got {who!r}")
            continue
        if not callable(getattr(who, "act", None)):
            raise CardError(f"role {role!r}: a {type(who).__name__} is no agent: it has no act")
        model = getattr(getattr(who, "generator", None), "model", None)
        if lm is not None and model is lm.model:
            so = "" if frozen else f"say so, roles={{{role!r}: {SHARED!r}}}, or "
            raise CardError(
                f"role {role!r} would be played by the weights in training: {so}give an agent "
                "over a copy"
            )


def settings_of_roles(roles: Mapping[str, Agent | str]) -> dict[str, str]:
    """Role → the fingerprint of its agent, or ``"shared"``, for a checkpoint's settings."""
    return {
        role: who if isinstance(who, str) else str(getattr(who, "fingerprint", type(who).__name__))
        for role, who in sorted(roles.items())
    }


def checked_lm(lm: Any) -> TrainableLM:
    """Return the language model that a training was given.

    Raises:
        CardError: it is something else.
    """
    if not isinstance(lm, TrainableLM):
        text = isinstance(lm, str | os.PathLike)
        model = repr(os.fspath(lm)) if text else "model, tokenizer"
        raise CardError(
            f"lm must be a TrainableLM, got {model if text else type(lm).__name__}; write "
            f"TrainableLM({model})"
        )
    return lm
