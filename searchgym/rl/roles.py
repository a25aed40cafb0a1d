"""Roles of a training: the model in training, and who plays what a method asks for besides.

A role is played by an agent, whose weights stay as they are and whose tokens are in no batch; by
the policy itself (``"shared"``), whose episodes in that role are members of the groups and train
the same weights; or by a model with an optimizer of its own (``OwnWeights``), which is trained on
the tokens that it writes. Losses and estimators may be kept to one role (``among``, ``by_role``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import CardError, unknown
from ..policies.causal_lm import CausalLMPolicy
from ..policies.rows import TrainingRow
from ..policies.scoring import TokenScores
from ..policies.trainable import TrainableLM
from ..types import Agent
from .processes import SingleProcess
from .recipe import Recipe
from .slots.batch import Batch
from .slots.records import FROZEN, POLICY, SHARED, OwnWeights, how_to_give

Roles = Mapping[str, Agent | OwnWeights | str]
"""Role → who plays it."""


class Cast:
    """The models of a training, each with the roles whose tokens it is trained on. Where rows are
    scored it stands in for one model: each row is scored by the model of its role.

    Args:
        lm: Model of the policy, and of all roles without weights of their own.
        roles: As :func:`given_roles` returns them.
    """

    def __init__(self, lm: TrainableLM, policy: CausalLMPolicy, roles: Roles) -> None:
        own = {name: who for name, who in roles.items() if isinstance(who, OwnWeights)}
        self.lms: dict[str, TrainableLM] = {POLICY: lm, **{n: who.lm for n, who in own.items()}}
        """Role → its model; the policy's first."""
        self.policies: dict[str, CausalLMPolicy] = {
            POLICY: policy, **{name: who.player for name, who in own.items()}
        }  # fmt: skip
        self.rates = {name: who.lr for name, who in own.items()}
        """Role → its learning rate; None: the training's."""
        self.frozen = roles.get(POLICY) == FROZEN
        self._together = False

    @property
    def trained(self) -> dict[str, TrainableLM]:
        """Role → model, of those that are trained."""
        return {n: lm for n, lm in self.lms.items() if not (self.frozen and n == POLICY)}

    def roles_in(self, rows: Sequence[TrainingRow]) -> set[str]:
        """The names in :attr:`lms` whose models wrote some of the rows."""
        return {row.role if row.role in self.lms else POLICY for row in rows}

    def copied(self) -> list[str]:
        """Roles whose policies play with copies of the weights that are trained."""
        players = self.policies.items()
        return [
            n for n, p in players if getattr(p.generator, "model", None) is not self.lms[n].model
        ]

    def wrap(self, processes: SingleProcess) -> None:
        """Wrap the models that are trained, so that gradients are averaged over processes."""
        self._together = processes.count > 1
        if self._together and len(self.lms) > 1 and getattr(processes, "how", "") == "fsdp":
            raise CardError("roles with weights of their own are not cut into shards: how='ddp'")
        for name, lm in self.trained.items():
            processes.wrap(lm, self.policies[name])

    def keep_trained(self, batch: Batch) -> bool:
        """Leave out of the losses what frozen weights wrote; False if nothing is left."""
        if self.frozen:
            own = [batch.tokens_of(name) for name in self.trained]
            batch.narrow(torch.stack(own).any(0))
        return bool(batch.mask.any())

    # --- scores -------------------------------------------------------------------------------
    def score(self, rows: Sequence[TrainingRow], **options: Any) -> TokenScores:
        """Score rows as :meth:`TrainableLM.score` does, each by the model of its role."""
        return self._parted(rows, lambda lm, part: lm.score(part, **options))

    def logp(self, rows: Sequence[TrainingRow]) -> Tensor:
        """Return log-probabilities as :meth:`TrainableLM.logp` does."""
        return self.score(rows).logp

    def reference_logp(self, rows: Sequence[TrainingRow]) -> Tensor:
        """Return those of the reference as :meth:`TrainableLM.reference_logp` does."""
        return self._parted(rows, lambda lm, part: TokenScores(lm.reference_logp(part), None)).logp

    def _parted(
        self,
        rows: Sequence[TrainingRow],
        score: Callable[[TrainableLM, list[TrainingRow]], TokenScores],
    ) -> TokenScores:
        if len(self.lms) == 1:
            return score(self.lms[POLICY], list(rows))
        whole: TokenScores | None = None
        idle = torch.zeros(())
        width = max(map(len, rows), default=0)
        for name, lm in self.lms.items():
            where = [i for i, row in enumerate(rows) if self.roles_in([row]) == {name}]
            learns = name in self.trained
            if not where:
                if self._together and learns and torch.is_grad_enabled():
                    # others may have some: gradients are exchanged model by model
                    idle = idle + 0 * lm.logp([_blank(lm.pad)]).sum().cpu()
                continue
            with nullcontext() if learns else torch.no_grad():
                part = score(lm, [rows[i] for i in where])
            whole = _merged(whole, part, where, (len(rows), width))
        assert whole is not None  # there are rows
        return whole._replace(logp=whole.logp + idle.to(whole.logp.device))

    # --- weights ------------------------------------------------------------------------------
    def merged(self) -> dict[str, Tensor]:
        """Whole weights of all models, those of a role as ``"roles/NAME/…"``."""
        made = dict(self.lms[POLICY].merged())
        for name, lm in self.lms.items():
            if name != POLICY:
                made |= {f"roles/{name}/{key}": value for key, value in lm.merged().items()}
        return made


def take_over(policies: Mapping[str, Any], weights: Mapping[str, Tensor], version: int) -> None:
    """Hand policies what :meth:`Cast.merged` gave, as number ``version``."""
    own = {key: value for key, value in weights.items() if not key.startswith("roles/")}
    for name, policy in policies.items():
        prefix = f"roles/{name}/"
        part = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        policy.weights_changed(own if name == POLICY else part)
        policy.generator.version = version


def _blank(pad: int) -> TrainingRow:
    """A row of two tokens, for a model that has nothing to read."""
    ids, sampled = np.full(2, pad, np.int64), np.array([False, True])
    zeros, ones = np.zeros(2, np.float32), np.where(sampled, 0, -1)
    return TrainingRow("", ("/0",), 0, "", ids, sampled, sampled, zeros, ones, ones)


def _merged(
    whole: TokenScores | None, part: TokenScores, where: Sequence[int], shape: tuple[int, int]
) -> TokenScores:
    """Scores of all rows, with those of the rows ``where`` filled in."""
    index = torch.tensor(where)[:, None], torch.arange(part.logp.shape[1])[None]

    def put(old: Tensor | None, new: Tensor) -> Tensor:
        blank = new.new_zeros(*shape, *new.shape[2:]) if old is None else old
        at = tuple(i.to(blank.device) for i in index)
        return blank.index_put(at, new.to(blank.device))

    old = TokenScores(None, None) if whole is None else whole  # type: ignore[arg-type]
    return TokenScores(
        put(old.logp, part.logp),
        None if part.entropy is None else put(old.entropy, part.entropy),
        {name: put(old.measures.get(name), value) for name, value in part.measures.items()},
    )


def given_roles(roles: Mapping[str, Any], policy: CausalLMPolicy) -> dict[str, Any]:
    """Roles as they were given, in which a model that is to be trained has a policy."""
    made = dict(roles)
    for name, who in roles.items():
        if isinstance(who, TrainableLM):
            made[name] = who = OwnWeights(who)
        if isinstance(who, OwnWeights) and who.policy is None:
            own = who.lm.policy(sampling=policy.sampling, seed=policy.seed)
            made[name] = replace(who, policy=own)
    return made


def roles_asked(recipe: Recipe, handed: Sequence[str] = ()) -> dict[str, str]:
    """Role → what asks for it: a part of a recipe, or, of the roles to which sub-tasks are
    ``handed``, the environment."""
    return {
        **dict.fromkeys(handed, "the environment's delegate"),
        **{
            role: f"{place} ({type(part).__name__})"
            for place, part in recipe.parts()
            for role in sorted(part.roles)
        },
    }


def check_roles(
    recipe: Recipe, roles: Mapping[str, Any], lm: Any, handed: Sequence[str] | None = None
) -> None:
    """Refuse a training whose roles are not those that its recipe asks for.

    Args:
        lm: The model in training; None where none is loaded yet.
        handed: Roles to which the environment's sub-tasks are handed; whoever is not given shares
            the policy's weights. None: not known yet.

    Raises:
        CardError: a role that is not given, that nothing asks for or that is no agent, or an agent
            over the very weights in training.
    """
    asked = roles_asked(recipe, handed or ())
    for role, part in roles_asked(recipe).items():
        if role not in roles:
            strange = [n for n in roles if n != POLICY and n not in asked]
            given = f" (given: {', '.join(map(repr, strange))})" if strange else ""
            raise CardError(
                f"{part} plays with a {role!r}, which is not given{given}: {how_to_give(role)}"
            )
    shares = FROZEN if roles.get(POLICY) == FROZEN else ""
    for role, who in roles.items():
        if role == POLICY and shares:
            continue
        if role not in asked and (handed is not None or role == POLICY):
            own = f"the policy is the model in training, or {FROZEN!r}" if role == POLICY else ""
            none = "this recipe asks for no roles"
            raise CardError(own or (unknown("role", role, asked) if asked else f"{none}: {role!r}"))
        frozen = any(role in part.frozen for _, part in recipe.parts())
        if frozen and (who == SHARED or isinstance(who, OwnWeights)):
            raise CardError(
                f"{asked[role]} does not train its {role!r}: give an agent, not "
                f"{SHARED if who == SHARED else 'a model in training'!r}"
            )
        if isinstance(who, OwnWeights):
            _check_own(role, who, roles, lm)
            continue
        if isinstance(who, str):
            if who == SHARED and shares:
                raise CardError(f"role {role!r} shares the policy's weights, which are frozen")
            if who != SHARED and lm is not None:
                raise CardError(
                    f"role {role!r} is an agent or {SHARED!r}, got {who!r}; a TrainableLM is "
                    "trained"
                )
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
    own_weights = any(isinstance(who, OwnWeights) for who in roles.values())
    if shares and lm is not None and not own_weights:
        raise CardError(
            "the policy is frozen and no role has weights of its own: nothing is trained"
        )


def _check_own(role: str, who: OwnWeights, roles: Mapping[str, Any], lm: Any) -> None:
    """``CardError`` for weights that two roles would train, or with another tokenizer."""
    others = [lm, *(o.lm for n, o in roles.items() if n != role and isinstance(o, OwnWeights))]
    if any(other is not None and other.model is who.lm.model for other in others):
        raise CardError(
            f"role {role!r} would train the weights of another: give {SHARED!r}, or a TrainableLM "
            "over a copy"
        )
    if lm is not None and who.lm.tokenizer.get_vocab() != lm.tokenizer.get_vocab():
        raise CardError(
            f"the models of role {role!r} and of the policy have different tokenizers: take models "
            "of one family"
        )


def settings_of_roles(roles: Roles) -> dict[str, str]:
    """Role → the fingerprint of its agent, ``"shared"``, or how weights of its own play and learn,
    for a checkpoint's settings."""
    return {role: _setting(who) for role, who in sorted(roles.items())}


def _setting(who: Any) -> str:
    if isinstance(who, OwnWeights):
        asked = " ".join(who.player.prompt_format.values())
        return f"own {asked} {who.player.sampling} seed {who.player.seed} lr {who.lr}"
    return who if isinstance(who, str) else str(getattr(who, "fingerprint", type(who).__name__))


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
