"""Methods of the laboratory: every shipped recipe, the estimators that none of them uses, and one
method that is broken on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from searchgym.errors import CardError, check_known
from searchgym.objects import load_known
from searchgym.policies.scoring import TOKEN_MEASURES
from searchgym.rl.advantages.base import Coef, DrawingOver
from searchgym.rl.ops import spread
from searchgym.rl.recipe_files import read, shipped
from searchgym.rl.slots.batch import Batch, Estimate
from searchgym.rl.slots.registry import REGISTRY
from searchgym.seeding import derive

from .gradients import with_size

BROKEN = "broken"
"""GRPO with its turns' advantages shuffled within the group (:class:`ShuffledTurns`)."""
DEFAULT = (
    "grpo", BROKEN, "rloo", "reinforce", "remax", "ppo", "ppo_turn", "dapo", "stratified_grpo",
    "gigpo", "igpo", "mt_grpo",
)  # fmt: skip
"""Methods that ``searchgym lab`` measures without being told which."""
MOST_USED = (
    "grpo", BROKEN, "rloo", "ppo", "dapo", "stratified_grpo", "gigpo", "igpo", "a2tgpo", "mt_grpo",
    "tree_grpo", "spear",
)  # fmt: skip
"""Methods by which ``searchgym lab --learn`` trains without being told which."""
NEEDS_NO_SIGNAL = frozenset(
    {"old_logp", "ref_logp", "teacher_logp", "value", "baseline", *TOKEN_MEASURES}
)
ANOTHER = frozenset({"effective_rank", "thr", "nthr", "progress", "implicit_reward"})
"""Parts that read hidden states, of which a table has none, or copy the policy's model and train it
before they say anything."""

CHANGED: Mapping[str, Mapping[str, Any]] = {
    "subsearch": {"reward": {"use": "subsearch", "encoder": None}},
}
"""Slots of recipes that are another here: pages of made-up words say nothing to an encoder."""
SHAPED = frozenset(
    {"half_closed", "demonstrations", "with_experts", "rescued", "guided", "hinted", "noisy",
     "value_guided", "valued_mcts", "critic_chosen", "taught"}
)  # fmt: skip
"""Rollouts some of whose episodes the policy does not play alone and as it is asked in the end: in
part without searches, under noise, by an expert, with a hint, or as a critic chooses."""


def learners() -> tuple[str, ...]:
    """Names of all that the learning bench trains by: recipes, then ``advantage:NAME`` of
    estimators in no recipe, then the broken one."""
    return (*shipped(), *(f"advantage:{name}" for name in sorted(_unused())), BROKEN)


def methods() -> tuple[str, ...]:
    """Names of those of :func:`learners` whose gradients are measured. Left out are recipes with a
    :data:`SHAPED` rollout, for they read prompts that no trajectory of the laboratory has or follow
    another's gradient; those in which another role acts; those that read hidden states; and those
    whose rewards come from a model that learns along."""
    elsewhere = _shipped_elsewhere()
    return tuple(n for n in learners() if n not in elsewhere)


@cache
def _shipped_elsewhere() -> frozenset[str]:
    return frozenset(n for n in shipped() if _elsewhere(read(n)))


def shaped(table: Mapping[str, Any]) -> bool:
    """Return whether a recipe's rollout is one of :data:`SHAPED`, or gives hints."""
    rollout = table.get("rollout")
    use = rollout.get("use") if isinstance(rollout, Mapping) else rollout
    return use in SHAPED or (isinstance(rollout, Mapping) and "hint" in rollout)


def _elsewhere(table: Mapping[str, Any]) -> bool:
    """Return whether a recipe's episodes are not the policy's own in the laboratory."""
    rollout = table.get("rollout")
    use = rollout.get("use") if isinstance(rollout, Mapping) else rollout
    parts = {*_names(table["advantage"]), *_signals(table.get("signal", ()))}
    aside = shaped(table)
    if not aside and use in REGISTRY["rollout"]:  # a role's prompt is in no tree
        aside = bool(load_known(REGISTRY["rollout"][str(use)]).roles)
    return aside or bool(parts & ANOTHER)


def _signals(spec: Any) -> Iterator[str]:
    """The names of a recipe's signals."""
    for entry in [spec] if isinstance(spec, str | Mapping) else spec:
        yield entry if isinstance(entry, str) else str(entry["use"])


def _unused() -> set[str]:
    """Registered estimators that no shipped recipe names."""
    return set(REGISTRY["advantage"]) - _used()


@cache
def _used() -> frozenset[str]:
    return frozenset(name for n in shipped() for name in _names(read(n)["advantage"]))


def _names(spec: Any) -> Iterator[str]:
    """The names in an estimator's entry, its bases' included."""
    if isinstance(spec, str):
        yield spec
    elif isinstance(spec, Mapping):
        yield from _names(spec["use"])
        if "base" in spec:
            yield from _names(spec["base"])


def table_of(method: str, size: int, known: Sequence[str] | None = None) -> dict[str, Any]:
    """A method as a recipe's table, with groups of ``size`` where its rollout has a size.

    Args:
        known: The names to choose from; default: :func:`methods`.

    Estimators without a recipe are given what they need and REINFORCE's loss, which sums over
    tokens and adds no bias of its own.

    Raises:
        CardError: an unknown name, or an estimator that needs a signal which nothing provides.
    """
    check_known("method", known or methods(), method)
    if method == BROKEN:
        table = {**read("grpo"), "advantage": {"use": "searchgym_agents.lab.methods:ShuffledTurns"}}
    elif method.startswith("advantage:"):
        table = _plain(method.removeprefix("advantage:"))
    else:
        table = {**read(method), **CHANGED.get(method, {})}
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


class ShuffledTurns(DrawingOver):
    """``base``'s advantages, each turn's given to another random turn of the same group.

    Sums, scale and spread are the base's; whom they are given to is not.

    Args:
        seed: Seed of the shuffling, with the number of the step.
    """

    relative = True

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made: Estimate = self.base.estimate(batch, coef)
        adv = spread(made.adv, batch.mask)
        draw = torch.Generator().manual_seed(derive(self.seed, "shuffle", self.steps) % (1 << 62))
        self.steps += 1
        width = int(batch.turn.max()) + 1
        turns = (torch.arange(len(batch))[:, None] * width + batch.turn)[batch.mask]
        kinds, at = torch.unique(turns, return_inverse=True)
        value = torch.zeros(len(kinds), dtype=adv.dtype)
        value[at] = adv[batch.mask]  # tokens of a turn have one advantage, or the last one's
        group = batch.group[kinds // width]
        # within each group: its turns in random order take over the values of its turns in order
        order = torch.argsort(group, stable=True)
        noise = torch.rand(len(kinds), generator=draw)
        mixed = torch.argsort(noise)
        mixed = mixed[torch.argsort(group[mixed], stable=True)]
        shuffled = torch.empty_like(value)
        shuffled[order] = value[mixed]
        new = torch.zeros_like(adv)
        new[batch.mask] = shuffled[at]
        return made._replace(adv=new)
