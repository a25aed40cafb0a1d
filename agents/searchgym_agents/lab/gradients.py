"""Gradients as a recipe's own objects make them of sampled groups.

Signals, reward transforms, data policy, advantage estimator and losses are those that train
(``rl.update``); what differs is only that trajectories are drawn from an enumerated
tree, and that the log-probabilities are a table's. A *step* is one group of each question, and its
gradient that of the step's first update, at which no weight has moved yet.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from searchgym.errors import CardError
from searchgym.rl.recipe import Recipe
from searchgym.rl.rewards import Weighted
from searchgym.rl.rollouts.chains import Chains
from searchgym.rl.slots.batch import Batch, Output, Totals, in_lines
from searchgym.rl.slots.records import Floats, Group, Played, Rewards, Scored, Workers
from searchgym.rl.update import compare, prepare_losses, reward_group, score_groups, total_loss
from searchgym.seeding import derive

from .policy import TabularLM, counts, odds

Draws = NDArray[np.int64]
"""(S, Q, G): of each step, question and member, which trajectory."""
CHUNK = 20_000
"""Trajectories of one batch where several steps are computed together."""
PAID = 300
"""Groups of each question over which pay that depends on the group is averaged."""


@dataclass(frozen=True, slots=True)
class StepGradients:
    """S steps of a method."""

    gradient: Floats
    """(S, P) ascent directions."""
    calls: Floats
    """(S,) engine calls played for the step."""
    tokens: Floats
    """(S,) tokens sampled for it."""


class Bench:
    """A recipe before a policy whose every trajectory is known.

    Args:
        recipe: A name, a file, a table or an object; its chains get groups of ``size``.
        teacher: A better policy over the same tree, for recipes that distil.
    """

    def __init__(
        self, recipe: Any, lm: TabularLM, size: int, teacher: TabularLM | None = None
    ) -> None:
        self.recipe, self.lm, self.size = Recipe.of(recipe), lm, size
        self.tree, self.teacher = lm.tree, lm if teacher is None else teacher
        self.odds, self.counts = odds(lm), counts(lm.tree)
        self.coef = dict(self.recipe.schedule.coef(0, {}))
        scorer: Any = lm  # scores rows as a trained model does, which is all that signals ask of it
        self.workers = Workers(lm.policy(), lm.tree.env, scorer, coef=self.coef)
        self.sampled = type(self.recipe.rollout) is not Chains
        """True if the recipe plays otherwise than by independent chains: it is then asked to."""
        self.twins = "baseline" in self.recipe.rollout.provides
        self.first = np.cumsum([0, *map(len, self.tree.leaves)])
        self.pool = [] if self.sampled else self._pool()
        self._paths = self._jacobian()
        self._warm()
        self.apart = self._apart()
        """True if a step's gradient is the sum of its groups'."""

    # --- the pool -----------------------------------------------------------------------------
    def _pool(self) -> list[Scored]:
        """Each question's trajectories, measured once, as a group; a greedy twin comes last."""
        groups = [self.tree.group(q) for q in range(self.tree.questions)]
        if self.twins:
            greedy = [self._greedy(q) for q in range(self.tree.questions)]
            groups = [
                replace(g, members=(*g.members, replace(t, purpose="baseline")))
                for g, t in zip(groups, greedy, strict=True)
            ]
        return score_groups(self.recipe, groups, self.workers)

    def _greedy(self, question: int) -> Played:
        """The trajectory of the likeliest words."""
        (group,) = Chains(1, greedy_twin=True).collect([self.tree.plan(question)], self.workers)
        return group.members[-1]

    def paid(self) -> list[Floats] | None:
        """Pay of each trajectory by the recipe, its turns' rewards included; None if that is the
        return. Pay that depends on the group is the mean over :data:`PAID` groups of chains, also
        where the recipe's rollout plays trees."""
        if all(type(r) is Weighted and r.requires == {"return"} for r in self.recipe.reward):
            return None
        pool = self.pool or self._pool()
        totals = [_total(scored.rewards)[: len(self.odds[q])] for q, scored in enumerate(pool)]
        sums, times = [np.zeros(len(t)) for t in totals], [np.zeros(len(t)) for t in totals]
        for step in self.draw(PAID, derive(0, "lab", "paid")):
            for q, places in enumerate(step):
                group = self._group(q, places.tolist(), pool)
                np.add.at(sums[q], places, _total(group.rewards)[: len(places)])
                np.add.at(times[q], places, 1.0)
        means = [np.divide(s, n, out=t.copy(), where=n > 0)
                 for s, n, t in zip(sums, times, totals, strict=True)]  # fmt: skip
        same = map(np.allclose, means, self.counts["return"])
        return None if all(same) else means

    def _group(self, question: int, places: Sequence[int], pool: Sequence[Scored] = ()) -> Scored:
        """A drawn group, with its members' signals and the rewards of just this group."""
        whole = (pool or self.pool)[question]
        chosen = [*places, len(self.tree.leaves[question])] if self.twins else [*places]
        group = Group(whole.group.plan, tuple(whole.group.members[i] for i in chosen))
        signals = {name: values[chosen] for name, values in whole.signals.items()}
        return Scored(group, signals, reward_group(self.recipe, group, signals, self.coef))

    def _warm(self) -> None:
        """Let estimators with memory see a large sample first, as after some steps."""
        recipe = self.recipe
        if not self.pool or not recipe.advantage.state_dict():
            return
        draws = self.draw(100, derive(0, "lab", "warm"))
        batch = Batch.of([self._group(q, row) for step in draws for q, row in enumerate(step)])
        assert batch is not None
        self._fill(batch)
        compare(recipe, batch, self.coef)

    # --- one batch ----------------------------------------------------------------------------
    def _fill(self, batch: Batch) -> None:
        """Everything that a trainer's models would say."""
        width = batch.mask.shape[1]
        for name, lm in (("old_logp", self.lm), ("ref_logp", self.lm),
                         ("teacher_logp", self.teacher)):  # fmt: skip
            setattr(batch, name, in_lines(lm.logp(batch.rows), batch.members, width))
        if wanted := self.recipe.token_measures:
            found = self.lm.score(batch.rows, measures=wanted).measures
            batch.measures = {
                name: in_lines(values.detach(), batch.members, width)
                for name, values in found.items()
            }
        batch.sampled_logp = batch.need("old_logp").float()
        if self.recipe.needs("value"):
            batch.value = self._values(batch)

    def _values(self, batch: Batch) -> Tensor:
        """(N, T) reward still to be earned, on average, from before each token: a perfect critic,
        which pays turns where the recipe does."""
        if not hasattr(self, "_value_of"):
            whole = Batch.of(self.pool)
            assert whole is not None
            to_go = whole.token_reward().double().flip(1).cumsum(1).flip(1)
            chance = torch.from_numpy(np.concatenate(self.odds))
            total: dict[int, list[float]] = {}
            for n, member in enumerate(whole.members):
                for t, place in enumerate(self._places(member)):
                    sums = total.setdefault(place, [0.0, 0.0])
                    sums[0] += float(chance[n] * to_go[n, t])
                    sums[1] += float(chance[n])
            self._value_of = {place: a / b for place, (a, b) in total.items()}
        made = torch.zeros(batch.mask.shape)
        for line, member in zip(made, batch.members, strict=True):
            values = [self._value_of[p] for p in self._places(member)]
            line[: len(values)] = torch.tensor(values)
        return made

    def _places(self, member: Played) -> list[int]:
        """The place in the table's tree at which each sampled token was drawn."""
        owner = self.lm.owner
        return [int(owner[i]) for row in member.rows for i in self.lm.index(row)[row.sampled]]

    def _slopes(self, batch: Batch, totals: Totals | None = None) -> tuple[Tensor, Tensor | None]:
        """(N, T) derivatives of minus the loss by log-probabilities, and by entropies."""
        recipe, coef = copy.deepcopy(self.recipe), self.coef  # what it remembers stays
        compare(recipe, batch, coef)
        logp = batch.need("old_logp").clone().requires_grad_()
        entropy = None
        if recipe.needs("entropy"):
            rows = self.lm.score(batch.rows, entropy=True).entropy
            assert rows is not None
            entropy = in_lines(rows, batch.members, batch.mask.shape[1]).requires_grad_()
        prepare_losses(recipe, batch, coef, lambda: logp.detach())
        loss, _ = total_loss(recipe, Output(logp, entropy), batch, totals or batch.totals, coef)
        if not loss.requires_grad:  # nothing to learn from: no pair, no success
            return torch.zeros_like(logp), None
        wanted = [logp] if entropy is None else [logp, entropy]
        slopes = torch.autograd.grad(-loss, wanted, allow_unused=True)
        first = torch.zeros_like(logp) if slopes[0] is None else slopes[0]
        return first, slopes[1] if entropy is not None else None

    # --- from tokens to parameters ------------------------------------------------------------
    def _jacobian(self) -> tuple[Tensor, Tensor]:
        """(P, P) derivatives of each word's log-probability, and of its place's entropy, by the
        logits."""
        table, owner = self.lm.table().detach(), self.lm.owner
        same = (owner[:, None] == owner[None, :]).double()
        chance = table.exp()
        by_logp = torch.eye(len(table), dtype=table.dtype) - same * chance[None, :]
        entropy = self.lm.entropies()[owner]
        by_entropy = -same * (chance * (table + entropy))[None, :]
        return by_logp, by_entropy

    def _at(self, batch: Batch) -> Tensor:
        """(N, T) place in the table of each sampled token; -1 beyond a trajectory's last."""
        made = torch.full(batch.mask.shape, -1)
        for line, member in zip(made, batch.members, strict=True):
            index = np.concatenate([self.lm.index(r)[r.sampled] for r in member.rows])
            line[: len(index)] = torch.from_numpy(index)
        return made

    def _gradient(
        self, at: Tensor, slopes: tuple[Tensor, Tensor | None], step: Tensor, steps: int
    ) -> Floats:
        """(steps, P): each trajectory's slopes, added up in its step."""
        size = len(self.lm.logits)
        keep = at >= 0
        goal = (step[:, None] * size + at)[keep]
        made = torch.zeros(steps, size, dtype=torch.float64)
        for values, jacobian in zip(slopes, self._paths, strict=True):
            if values is not None:
                sums = torch.zeros(steps * size, dtype=torch.float64)
                sums.index_add_(0, goal, values[keep].double())
                made += sums.view(steps, size) @ jacobian
        return made.numpy()

    # --- steps --------------------------------------------------------------------------------
    def draw(self, steps: int, seed: int) -> Draws:
        """Members of groups, drawn by the policy's odds."""
        draw = np.random.Generator(np.random.PCG64(seed))
        parts = [draw.choice(len(p), size=(steps, self.size), p=p / p.sum()) for p in self.odds]
        return np.stack(parts, 1)

    def steps(self, count: int, seed: int) -> StepGradients:
        """Independent steps."""
        if self.sampled:
            return self._joined(self._played(count, seed))
        draws = self.draw(count, seed)
        if self.apart:
            return StepGradients(self._added(draws), *self._costs(draws))
        return self._joined(self._one_by_one(draws, seed))

    def _added(self, draws: Draws) -> Floats:
        """(S, P) the gradients of steps whose groups add up."""
        parts = [self.groups(q, draws[:, q]) for q in range(self.tree.questions)]
        made: Floats = np.sum(parts, axis=0)
        return made

    def groups(self, question: int, draws: NDArray[np.int64]) -> Floats:
        """(n, P) share of each group of (n, G) drawn ones in its step's gradient."""
        step = Totals(0.0, float(self.size * self.tree.questions))
        width, parts = draws.shape[1], []
        for start in range(0, len(draws), max(CHUNK // width, 1)):
            chunk = draws[start : start + max(CHUNK // width, 1)]
            number = torch.arange(len(chunk)).repeat_interleave(width)
            leaves = chunk.reshape(-1) + self.first[question]
            whole, at = self._whole()
            batch = whole.take(leaves.tolist())
            batch.group = number
            slopes = self._slopes(batch, step)
            parts.append(self._gradient(at[leaves], slopes, number, len(chunk)))
        return np.concatenate(parts)

    def _whole(self) -> tuple[Batch, Tensor]:
        """All trajectories as a batch, one line each, and their tokens' places."""
        if not hasattr(self, "_whole_batch"):
            whole = Batch.of(self.pool)
            assert whole is not None
            self._fill(whole)
            self._whole_batch = whole, self._at(whole)
        return self._whole_batch

    def _one_by_one(self, draws: Draws, seed: int) -> Iterator[tuple[Floats, float, float]]:
        """Steps as the trainer makes them: rounds of groups until the data policy has enough."""
        more = self.draw(len(draws) * 10, derive(seed, "more")).__iter__()
        for first in draws:
            data = copy.deepcopy(self.recipe.data)
            kept: list[Scored] = []
            played: list[NDArray[np.int64]] = []
            while not data.enough(len(kept), self.tree.questions, len(played)):
                played.append(first if not played else next(more))
                for q, row in enumerate(played[-1]):
                    if (admitted := data.admit(self._group(q, row.tolist()))) is not None:
                        kept.append(admitted)
            batch = Batch.of(kept[: self.tree.questions])
            cost = [float(c.sum()) for c in self._costs(np.stack(played))]
            yield self._of(batch), cost[0], cost[1]

    def _played(self, count: int, seed: int) -> Iterator[tuple[Floats, float, float]]:
        """Steps that the recipe's own rollout plays."""
        recipe = self.recipe
        for step in range(count):
            workers = replace(self.workers, policy=self.lm.policy(derive(seed, "step", step)))
            plans = [self.tree.plan(q)._replace(name=f"{step}.{q}", key=derive(seed, step, q))
                     for q in range(self.tree.questions)]  # fmt: skip
            groups = recipe.rollout.collect(plans, workers)
            scored = score_groups(recipe, groups, workers)
            kept = [a for s in scored if (a := recipe.data.admit(s)) is not None]
            members = [m for g in groups for m in g.members]
            calls = float(sum(m.episode.queries for m in members))
            yield self._of(Batch.of(kept)), calls, float(sum(m.tokens for m in members))

    def _of(self, batch: Batch | None) -> Floats:
        """(P,) the gradient of one step's batch."""
        if batch is None:
            return np.zeros(len(self.lm.logits))
        self._fill(batch)
        step = torch.zeros(len(batch), dtype=torch.long)
        return self._gradient(self._at(batch), self._slopes(batch), step, 1)[0]

    def _joined(self, steps: Iterator[tuple[Floats, float, float]]) -> StepGradients:
        gradient, calls, tokens = zip(*steps, strict=True)
        return StepGradients(np.stack(gradient), np.array(calls), np.array(tokens))

    def _costs(self, draws: Draws) -> tuple[Floats, Floats]:
        """(S,) engine calls and sampled tokens, greedy twins' included."""
        costs = []
        for name in ("calls", "tokens"):
            values = [self.counts[name][q][draws[:, q]].sum(1) for q in range(draws.shape[1])]
            total = np.sum(values, 0).astype(float)
            if self.twins:
                twins = [s.group.members[-1] for s in self.pool]
                total += sum(
                    float(t.episode.queries if name == "calls" else t.tokens) for t in twins
                )
            costs.append(total)
        return costs[0], costs[1]

    def _apart(self) -> bool:
        """Find out whether groups can be computed apart from each other: whether, on random steps,
        their gradients add up, do not depend on how many tokens the step has, and rewards do not
        depend on who else is in the group."""
        recipe = self.recipe
        if self.sampled or any(recipe.data.admit(s) is not s for s in self.pool):
            return False
        draws = self.draw(3, derive(0, "lab", "apart"))
        for step in draws:
            scored = [self._group(q, row.tolist()) for q, row in enumerate(step)]
            for q, (group, row) in enumerate(zip(scored, step, strict=True)):
                if not _equal(group.rewards, self.pool[q].rewards, row):
                    return False
            whole = Batch.of(scored)
            assert whole is not None
            self._fill(whole)
            number = torch.zeros(len(whole), dtype=torch.long)
            sequences = float(self.size * self.tree.questions)
            for tokens in (0.0, 1e3):
                slopes = self._slopes(replace(whole), Totals(tokens, sequences))
                together = self._gradient(self._at(whole), slopes, number, 1)[0]
                if not np.allclose(together, self._added(step[None])[0], rtol=1e-4, atol=1e-7):
                    return False
        return not any(loss.whole_groups for loss in recipe.loss)


def _total(rewards: Rewards) -> Floats:
    """(M,) what members are paid in all."""
    if rewards.turns is None:
        return rewards.outcome
    made: Floats = rewards.outcome + np.nansum(rewards.turns, axis=1)
    return made


def _equal(rewards: Rewards, pool: Rewards, places: NDArray[np.int64]) -> bool:
    """Check whether a group's rewards are those that its members have among all."""
    same = np.array_equal(rewards.outcome[: len(places)], pool.outcome[places], equal_nan=True)
    if rewards.turns is None or pool.turns is None:
        return bool(same and rewards.turns is pool.turns)
    width = rewards.turns.shape[1]
    there = pool.turns[places][:, :width]
    return bool(same and np.array_equal(rewards.turns[: len(places)], there, equal_nan=True))


def with_size(table: Mapping[str, Any], size: int) -> dict[str, Any]:
    """A recipe's table with groups of ``size``; a rollout around another one has its size.

    Raises:
        CardError: its rollout has no size.
    """
    rollout = table.get("rollout", "chains")
    rollout = {"use": rollout} if isinstance(rollout, str) else dict(rollout)
    if "use" not in rollout:
        raise CardError(f"a rollout is a name or a table with 'use', got {rollout!r}")
    if "rollout" in rollout:
        return {**table, "rollout": {**rollout, **with_size(rollout, size)}}
    return {**table, "rollout": {**rollout, "size": size}}
