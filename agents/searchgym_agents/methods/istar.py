"""Signal that learns: rewards of turns implied by a model that prefers successes (iStar)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from searchgym import EngineError, TrainableLM
from searchgym.llms.batches import micro_batches
from searchgym.rl import Group, Played, Scored, Signal, Signals, Workers, outcome_pairs
from searchgym.storage.checkpoint import load_optimizer, optimizer_tensors, under


class ImplicitReward(Signal):
    """``turn_implicit``: (M, K) ``beta`` · Σ (log π_φ - log π) over the trained tokens of each
    turn, π the policy that is about to be updated; NaN for a turn of which no token is left (iStar,
    Liu et al., arXiv 2509.19199, there called OPRL).

    φ is a second model, which begins as the policy. ``fit`` moves it after each update by DPO's
    loss on whole trajectories: the mean of -log σ(q_w - q_l) over every success w and failure l of
    a group, q the sum of a trajectory's turns, π as it was. At first all rewards are 0.

    Args:
        beta: Scale of the rewards (released code: .05).
        threshold: Outcome from which an episode counts as a success.
        lr: AdamW learning rate of φ.
        max_norm: Gradient clipping threshold (L2 norm).
        tokens: Padded tokens per forward and backward pass of ``fit``; bounds memory.
    """

    registered = "signal:implicit_reward"
    provides = frozenset({"turn_implicit"})

    def __init__(
        self, beta: float = 0.05, threshold: float = 0.5, lr: float = 1e-6, max_norm: float = 1.0,
        tokens: int = 16_384,
    ) -> None:  # fmt: skip
        if not (beta > 0 and lr > 0 and max_norm > 0) or tokens < 1:
            raise ValueError(
                "beta, lr, max_norm and tokens are positive, got "
                f"{beta}, {lr}, {max_norm} and {tokens}"
            )
        self.beta, self.threshold, self.lr = float(beta), float(threshold), float(lr)
        self.max_norm, self.tokens = float(max_norm), tokens
        self.model: TrainableLM | None = None
        """φ; None before the first group was seen."""
        self.optimizer: torch.optim.Optimizer | None = None
        self._saved: dict[str, Tensor] = {}
        """Tensors of a checkpoint, until there is a model to put them into."""
        self._before: dict[str, float] = {}
        """Σ log π of this step's episodes, for ``fit``."""

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        model = self._of(workers.lm)
        return [{"turn_implicit": self._measured(group, workers.lm, model)} for group in groups]

    def _measured(self, group: Group, lm: TrainableLM, model: TrainableLM) -> Any:
        turns = max((len(m.episode.turns) for m in group.members), default=0)
        made = np.full((len(group.members), turns), np.nan)
        rows = [row for m in group.members for row in m.rows]
        if not rows:
            return made
        with torch.no_grad():
            old = lm.logp(rows).cpu().double().numpy()
            new = model.logp(rows).cpu().double().numpy()
        at = 0
        for line, member in zip(made, group.members, strict=True):
            before = 0.0
            for row in member.rows:
                keep = row.loss_mask
                gap = np.where(keep, (new - old)[at, : len(row)], 0.0)
                before += float(old[at, : len(row)][keep].sum())
                for index, uid in enumerate(row.turn_uids):
                    number = int(uid.rpartition("/")[2])
                    mine = gap[row.turn_of_token == index].sum()
                    line[number] = np.nan_to_num(line[number]) + self.beta * mine
                at += 1
            self._before[member.episode.config.episode_id] = before
        return made

    def fit(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        """Move φ towards preferring this step's successes to their groups' failures."""
        members, rewards, groups = [], [], []
        for number, s in enumerate(scored):
            for i in s.training:
                if s.group.members[i].episode.config.episode_id in self._before:
                    members.append(s.group.members[i])
                    rewards.append(float(s.rewards.outcome[i]))
                    groups.append(number)
        before = torch.tensor([self._before[m.episode.config.episode_id] for m in members])
        self._before = {}
        pairs = outcome_pairs(
            torch.tensor(rewards), torch.tensor(groups), threshold=self.threshold
        )  # fmt: skip
        if self.model is None or self.optimizer is None or not len(pairs):  # φ stays
            return {"implicit_reward/pairs": 0.0}
        with torch.no_grad():
            sums = self._sums(members)
        graded = (self.beta * (sums - before)).requires_grad_()
        margin = graded[pairs[:, 0]] - graded[pairs[:, 1]]
        loss = -logsigmoid(margin).mean()
        (slope,) = torch.autograd.grad(loss, graded)  # then part by part: all would fill memory
        self.optimizer.zero_grad(set_to_none=True)
        for places in self._parts(members):
            if bool(slope[places].any()):
                with torch.enable_grad():
                    again = self.beta * self._logp([members[i] for i in places])
                    (again * slope[places]).sum().backward()
        parameters = self.model.parameters()
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.max_norm)
        self.optimizer.step()
        return {
            "implicit_reward/loss": float(loss.detach()),
            "implicit_reward/accuracy": float((margin > 0).float().mean()),
            "implicit_reward/grad_norm": float(norm),
            "implicit_reward/pairs": float(len(pairs)),
        }

    # --- φ ------------------------------------------------------------------------------------
    def _of(self, lm: TrainableLM) -> TrainableLM:
        """φ, made of the policy when it is first asked for."""
        if self.model is None:
            if any(hasattr(p, "full_tensor") for p in lm.model.parameters()):
                raise EngineError(
                    "signal 'implicit_reward' copies the policy's model, of which each process "
                    "holds a shard here: train with how='ddp'"
                )
            self.model = copy.copy(lm)
            self.model.model = self.model.wrapped = copy.deepcopy(lm.model)
            self.model.passes = None
            self.optimizer = torch.optim.AdamW(
                self.model.parameters(), lr=self.lr, betas=(0.9, 0.95), weight_decay=0.0
            )
            if self._saved:
                self.model.load_state_dict(under(self._saved, "model"))
                load_optimizer(self.optimizer, self._saved)
                self._saved = {}
        return self.model

    def _sums(self, members: Sequence[Played]) -> Tensor:
        """(N,) Σ log π_φ of each trajectory."""
        made = torch.zeros(len(members))
        for places in self._parts(members):
            made[places] = self._logp([members[i] for i in places])
        return made

    def _parts(self, members: Sequence[Played]) -> Iterator[list[int]]:
        yield from micro_batches([sum(map(len, m.rows)) for m in members], self.tokens)

    def _logp(self, members: Sequence[Played]) -> Tensor:
        """(n,) Σ log π_φ of trajectories that go through the model together."""
        assert self.model is not None
        rows = [row for m in members for row in m.rows]
        if not rows:
            return torch.zeros(len(members))
        logp = self.model.logp(rows).cpu()
        owner = torch.tensor([i for i, m in enumerate(members) for _ in m.rows])
        keep = torch.zeros(logp.shape, dtype=torch.bool)
        for line, row in zip(keep, rows, strict=True):
            line[: len(row)] = torch.from_numpy(row.loss_mask)
        kept = torch.where(keep, logp, torch.zeros_like(logp)).sum(1)
        return torch.zeros(len(members)).index_add(0, owner, kept)

    # --- checkpoints --------------------------------------------------------------------------
    def tensors(self) -> Mapping[str, Tensor]:
        if self.model is None or self.optimizer is None:
            return dict(self._saved)
        weights = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        return weights | optimizer_tensors(self.optimizer)

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        self.model, self._saved = None, dict(tensors)
