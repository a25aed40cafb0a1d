"""Methods that the laboratory measures: every shipped recipe, the estimators that none of them
uses, and one method that is broken on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import CardError, unknown
from ..objects import load_known
from ..policies.scoring import TOKEN_MEASURES
from ..rl.recipe_files import read, shipped
from ..rl.slots.registry import REGISTRY
from .gradients import with_size

BROKEN = "broken"
"""GRPO with its turns' advantages shuffled within the group (:mod:`searchgym.lab.broken`)."""
DEFAULT = (
    "grpo", BROKEN, "rloo", "reinforce", "remax", "ppo", "ppo_turn", "dapo", "stratified_grpo",
    "gigpo", "igpo", "mt_grpo",
)  # fmt: skip
"""Methods that ``searchgym lab`` measures without being told which."""
NEEDS_NO_SIGNAL = frozenset(
    {"old_logp", "ref_logp", "teacher_logp", "value", "baseline", *TOKEN_MEASURES}
)
ANOTHER = frozenset({"effective_rank", "thr", "nthr", "progress", "implicit_reward"})
"""Parts that read hidden states, of which a table has none, or copy the policy's model and train it
before they say anything."""


def methods() -> tuple[str, ...]:
    """Names of all: recipes, then ``advantage:NAME`` of estimators in no recipe, then the broken
    one. Left out are recipes some of whose members play without searches or with a hint, for they
    read prompts that no trajectory of the laboratory has, or under noise, which its engine has none
    of; those that imitate demonstrations, for they follow an expert and not the policy's own
    gradient; those in which another role acts; those that read hidden states; and those whose
    rewards come from a model that learns along."""
    recipes = [name for name in shipped() if not _elsewhere(read(name))]
    return (*recipes, *(f"advantage:{name}" for name in sorted(_unused())), BROKEN)


def _elsewhere(table: Mapping[str, Any]) -> bool:
    """Return whether a recipe's episodes are not the policy's own in the laboratory."""
    rollout = table.get("rollout")
    use = rollout.get("use") if isinstance(rollout, Mapping) else rollout
    parts = {*_names(table["advantage"]), *_signals(table.get("signal", ()))}
    hinted = use == "hinted" or (isinstance(rollout, Mapping) and "hint" in rollout)
    shaped = hinted or use in (
        "half_closed", "demonstrations", "with_experts", "rescued", "guided", "noisy",
        "value_guided", "critic_chosen",
    )  # fmt: skip
    if not shaped and use in REGISTRY["rollout"]:  # a role's prompt is in no tree
        shaped = bool(load_known(REGISTRY["rollout"][str(use)]).roles)
    return shaped or bool(parts & ANOTHER)


def _signals(spec: Any) -> Iterator[str]:
    """The names of a recipe's signals."""
    for entry in [spec] if isinstance(spec, str | Mapping) else spec:
        yield entry if isinstance(entry, str) else str(entry["use"])


def _unused() -> set[str]:
    """Registered estimators that no shipped recipe names."""
    used: set[str] = set()
    for recipe in shipped():
        used |= set(_names(read(recipe)["advantage"]))
    return set(REGISTRY["advantage"]) - used


def _names(spec: Any) -> Iterator[str]:
    """The names in an estimator's entry, its bases' included."""
    if isinstance(spec, str):
        yield spec
    elif isinstance(spec, Mapping):
        yield from _names(spec["use"])
        if "base" in spec:
            yield from _names(spec["base"])


def table_of(method: str, size: int) -> dict[str, Any]:
    """A method as a recipe's table, with groups of ``size`` where its rollout has a size.

    Estimators without a recipe are given what they need and REINFORCE's loss, which sums over
    tokens and adds no bias of its own.

    Raises:
        CardError: an unknown name, or an estimator that needs a signal which nothing provides.
    """
    if method not in methods():
        raise CardError(unknown("method", method, methods()))
    if method == BROKEN:
        table = {**read("grpo"), "advantage": {"use": "searchgym.lab.broken:ShuffledTurns"}}
    elif method.startswith("advantage:"):
        table = _plain(method.removeprefix("advantage:"))
    else:
        table = read(method)
    return with_size(table, size)


def _plain(name: str) -> dict[str, Any]:
    needed = set(load_known(REGISTRY["advantage"][name]).requires) - NEEDS_NO_SIGNAL
    signals = ["return"]
    for need in sorted(needed):
        providers = [n for n, path in REGISTRY["signal"].items()
                     if need in load_known(path).provides]  # fmt: skip
        if not providers:
            raise CardError(f"advantage {name!r} needs {need!r}, which no registered signal gives")
        signals.append(providers[0])
    return {"signal": list(dict.fromkeys(signals)), "advantage": name, "loss": "reinforce"}
