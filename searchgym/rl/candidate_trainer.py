"""Trains the candidate agent with a group-relative policy gradient, on policy, in generated worlds.

Per update: some questions, a group of G rollouts each; reward F1 minus a small cost per search plus
evidence shaping (the share of gold passages seen, weight annealed to 0: this is what teaches a
second search); advantages relative to the group; one gradient step with the shared kernels.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..agents.candidate import inverse_cdf
from ..agents.scorer import SEARCH_FORMS, CandidateScorer, segment_log_softmax, stack
from ..candidates.encoder import Progress
from ..seeding import derive, stream
from .advantage import group_advantages
from .arena import Arena, Node, reward
from .checkpoint import load_checkpoint, save_checkpoint
from .loss import policy_loss


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Every hyperparameter of a run."""

    seed: int = 0
    episodes: int = 200_000
    seconds: float | None = None
    """Stop (and anneal) by wall clock as well. Runs are reproducible only without it."""
    questions: int = 24
    group: int = 8
    lr: float = 2e-3
    weight_decay: float = 1e-4
    width: int = 64
    dropout: float = 0.1
    entropy: tuple[float, float] = (0.02, 0.001)
    evidence: tuple[float, float] = (0.5, 0.0)
    """Shaping weight at the start and from ``evidence_until`` on."""
    evidence_until: float = 0.8
    search_cost: float = 0.01
    scale: Literal["std", "none"] = "std"
    """Advantages as differences ("none", Dr.GRPO) or in standard deviations of their group."""
    std_eps: float = 0.1
    answer_weight: float = 1.0
    """Weight of ``-log E[F1]`` of the answer choice at every visited state, taken exactly over all
    its answers (their scores are known there, so sampling one of them per rollout wastes them)."""
    answer_steps: int = 4
    """Further steps per update on the answer choice alone, each on a third of the states just
    visited: building a state costs more than learning from it."""
    average: float = 0.98
    """Decay of the weights' running average, which is what is evaluated and kept."""
    evaluate_every: int = 50
    """Updates between evaluations."""
    keep_last: float = 0.0
    """Only evaluations after this fraction of the run may select the model."""


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation on the development arena."""

    episodes: int
    seconds: float
    em: float
    f1: float
    searches: float
    evidence: float


@dataclass
class Trained:
    """What a run returns: the selected model and its learning curve."""

    model: CandidateScorer
    curve: list[Point]
    episodes: int
    updates: int
    seconds: float


Report = Callable[[str, float, Point | None], None]
"""Called with (what is happening, fraction done, the newest evaluation)."""


class CandidateTrainer:
    """One training run; ``run`` may be called after ``restore`` to continue.

    Args:
        arenas: where to train; questions are drawn from all of them alike.
        dev: where the model is selected, or ``None`` to keep the last one.
        init: start from this model (fine-tuning) instead of a fresh one.
        shared_scale: standardise inputs by the arenas' first states (ignored with ``init``).
    """

    def __init__(
        self,
        arenas: Sequence[Arena],
        config: TrainConfig,
        *,
        dev: Arena | None = None,
        init: CandidateScorer | None = None,
    ) -> None:
        self.arenas, self.config, self.dev = list(arenas), config, dev
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(config.seed, "candidate-scorer"))
            self.model = CandidateScorer(width=config.width, dropout=config.dropout)
            self.best = CandidateScorer(**self.model.config)
            self.mean = CandidateScorer(**self.model.config)
        if init is not None:
            self.model = CandidateScorer(**init.config)
            self.model.load_state_dict(init.state_dict())
            self.best, self.mean = CandidateScorer(**init.config), CandidateScorer(**init.config)
        self.fresh = init is None
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=config.lr, weight_decay=config.weight_decay
        )
        self.pairs = [(a, i) for a, arena in enumerate(self.arenas) for i in range(len(arena))]
        self.updates = self.episodes = 0
        self.spent = 0.0
        self.best_f1 = -1.0
        self.curve: list[Point] = []

    # -- the run ---------------------------------------------------------------------------------
    def run(self, report: Report | None = None, checkpoint: Path | None = None) -> Trained:
        """Train until the episodes or the seconds are spent; returns the selected model."""
        collecting = gc.isenabled()
        gc.disable()  # visited states live to the end and form no garbage: tracing them is waste
        try:
            return self._run(report, checkpoint)
        finally:
            if collecting:
                gc.enable()

    def _run(self, report: Report | None, checkpoint: Path | None) -> Trained:
        started = time.monotonic() - self.spent
        if self.updates == 0:
            self._begin(report)
            self._evaluate(0.0, started, report)  # the curve begins before the first update
        while (done := self._progress(started)) < 1:
            self._update(done, report)
            if self.updates % self.config.evaluate_every == 0:
                self._evaluate(done, started, report)
                if checkpoint is not None:
                    self.spent = time.monotonic() - started
                    save_checkpoint(self, checkpoint)
        self._evaluate(1.0, started, report)
        self.spent = time.monotonic() - started
        model = self.best if self.best_f1 >= 0 else self.mean
        return Trained(model.eval(), self.curve, self.episodes, self.updates, self.spent)

    def restore(self, checkpoint: Path) -> None:
        """Continue a run from what ``run(checkpoint=…)`` wrote; raises ``DataError``."""
        load_checkpoint(self, checkpoint)

    def _progress(self, started: float) -> float:
        done = self.episodes / self.config.episodes
        if self.config.seconds is not None:
            done = max(done, (time.monotonic() - started) / self.config.seconds)
        return done

    def _begin(self, report: Report | None) -> None:
        if self.fresh:
            nodes: list[Node] = []
            watch = _watch(report)
            for arena in self.arenas:
                roots = arena.roots(range(min(64, len(arena))), watch)
                nodes += roots
                nodes += arena.follow([(r, 0) for r in roots if r.candidates[0].is_search], watch)
            self.model.standardise(np.concatenate([n.features for n in nodes]))
        self.mean.load_state_dict(self.model.state_dict())

    def _update(self, done: float, report: Report | None) -> None:
        config = self.config
        rng = stream(config.seed, "rollout", self.updates)
        chosen = self._questions(rng)
        watch = _watch(report) if self.updates < 20 else None
        weights = self.weights(done)
        paths, ends = self._rollouts(chosen, rng, watch)
        group = torch.arange(len(chosen)).repeat_interleave(config.group)
        gains = torch.tensor([reward(weights, node, pick) for node, pick in ends])
        adv = group_advantages(gains, group, scale=config.scale, eps=config.std_eps)
        self._step(paths, adv, done)
        self.updates += 1
        self.episodes += len(ends)
        if report is not None:
            report("training", done, None)

    def weights(self, done: float) -> Mapping[str, float]:
        """Reward weights at a fraction of the run; ``evidence`` anneals linearly."""
        c = self.config
        part = min(1.0, done / c.evidence_until) if c.evidence_until > 0 else 1.0
        shaping = c.evidence[0] + (c.evidence[1] - c.evidence[0]) * part
        return {"f1": 1.0, "search": -c.search_cost, "evidence": shaping}

    def _questions(self, rng: np.random.Generator) -> list[tuple[Arena, int]]:
        size = min(self.config.questions, len(self.pairs))
        picks = rng.choice(len(self.pairs), size=size, replace=False)
        return [(self.arenas[self.pairs[p][0]], self.pairs[p][1]) for p in picks.tolist()]

    # -- sampling --------------------------------------------------------------------------------
    def _rollouts(
        self, chosen: Sequence[tuple[Arena, int]], rng: np.random.Generator, watch: Progress | None
    ) -> tuple[list[list[tuple[Node, int]]], list[tuple[Node, int]]]:
        """G rollouts per question: each one's (node, pick) path, and its last step."""
        where = [arena for arena, _ in chosen for _ in range(self.config.group)]
        heads: dict[int, Node] = {}
        for arena in dict.fromkeys(where):
            mine = [k for k, (a, _) in enumerate(chosen) if a is arena]
            for k, node in zip(mine, arena.roots([chosen[k][1] for k in mine], watch), strict=True):
                heads[k] = node
        now: list[Node] = [heads[k] for k in range(len(chosen)) for _ in range(self.config.group)]
        paths: list[list[tuple[Node, int]]] = [[] for _ in now]
        active = list(range(len(now)))
        self.model.eval()
        while active:
            picks = self._sample([now[i] for i in active], rng.random(len(active)))
            going: dict[int, list[tuple[int, Node, int]]] = {}
            for i, pick in zip(active, picks, strict=True):
                paths[i].append((now[i], pick))
                if now[i].candidates[pick].is_search:
                    going.setdefault(id(where[i]), []).append((i, now[i], pick))
            active = []
            for steps in going.values():
                arena = where[steps[0][0]]
                nodes = arena.follow([(n, p) for _, n, p in steps], watch)
                for (i, _, _), node in zip(steps, nodes, strict=True):
                    now[i] = node
                    active.append(i)
            active.sort()
        return paths, [path[-1] for path in paths]

    def _sample(self, nodes: Sequence[Node], draws: np.ndarray) -> list[int]:
        unique = list({id(n): n for n in nodes}.values())
        place = {id(n): k for k, n in enumerate(unique)}
        with torch.inference_mode():
            rows, state, starts = stack([n.features for n in unique])
            logits = self.model(rows, state, len(unique))
            logp = segment_log_softmax(logits, state, len(unique)).numpy()
        out = []
        for node, draw in zip(nodes, draws.tolist(), strict=True):
            start = starts[place[id(node)]]
            out.append(inverse_cdf(logp[start : start + len(node.candidates)], draw))
        return out

    # -- learning --------------------------------------------------------------------------------
    def _step(self, paths: Sequence[Sequence[tuple[Node, int]]], adv: Tensor, done: float) -> None:
        config = self.config
        unique = list({id(n): n for path in paths for n, _ in path}.values())
        place = {id(n): k for k, n in enumerate(unique)}
        rows, state, starts = stack([n.features for n in unique])
        width = max(len(p) for p in paths)
        index = torch.zeros(len(paths), width, dtype=torch.long)
        mask = torch.zeros(len(paths), width)
        visits = torch.zeros(len(unique))
        for b, path in enumerate(paths):
            for t, (node, pick) in enumerate(path):
                index[b, t] = starts[place[id(node)]] + pick
                mask[b, t] = 1
                visits[place[id(node)]] += 1
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = config.lr * min(1.0, (self.updates + 1) / 20) * (1 - 0.9 * done)
        self.model.train()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(config.seed, "dropout", self.updates))
            logits = self.model(rows, state, len(unique))
        logp = segment_log_softmax(logits, state, len(unique))
        taken = logp[index]
        loss, _ = policy_loss(taken, taken.detach(), adv, mask, aggregate="seq-mean-token-sum")
        entropy = torch.zeros(len(unique)).index_add_(0, state, -logp.exp() * logp)
        spread = config.entropy[0] + (config.entropy[1] - config.entropy[0]) * done
        loss = loss - spread * (entropy * visits).sum() / visits.sum()
        if config.answer_weight > 0:
            loss = loss + config.answer_weight * _answer_loss(unique, rows, logits, state)
        self._descend(loss)
        self._read(unique)
        decay = min(config.average, (self.updates + 1) / (self.updates + 10))
        with torch.no_grad():
            for kept, new in zip(self.mean.parameters(), self.model.parameters(), strict=True):
                kept.lerp_(new, 1 - decay)

    def _descend(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def _read(self, nodes: Sequence[Node]) -> None:
        """Steps on the answer choice alone."""
        config = self.config
        rng = stream(config.seed, "read", self.updates)
        for step in range(config.answer_steps if config.answer_weight > 0 else 0):
            size = max(1, len(nodes) // 3)
            part = [nodes[i] for i in rng.choice(len(nodes), size=size, replace=False).tolist()]
            rows, state, _ = stack([n.features for n in part])
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derive(config.seed, "dropout", self.updates, step))
                logits = self.model(rows, state, len(part))
            self._descend(config.answer_weight * _answer_loss(part, rows, logits, state))

    # -- measuring -------------------------------------------------------------------------------
    def _evaluate(self, done: float, started: float, report: Report | None) -> None:
        if self.dev is None:
            return
        scores = play_greedily(self.mean.eval(), self.dev, _watch(report) if done == 0 else None)
        point = Point(
            self.episodes, time.monotonic() - started, *(float(x) for x in scores.mean(0))
        )
        self.curve.append(point)
        if done >= self.config.keep_last and point.f1 > self.best_f1:
            self.best_f1 = point.f1
            self.best.load_state_dict(self.mean.state_dict())
        if report is not None:
            report("evaluated", done, point)

    def settings(self) -> dict[str, object]:
        """The configuration as JSON."""
        return dict(asdict(self.config))


def _answer_loss(nodes: Sequence[Node], rows: Tensor, logits: Tensor, state: Tensor) -> Tensor:
    """Mean over states of -log of the expected F1 of answering now, searches left aside.

    States none of whose answers scores anything do not count; they cannot teach which is right.
    """
    f1 = torch.from_numpy(np.concatenate([n.f1 for n in nodes]))
    useful = torch.tensor([float(n.f1.max()) > 0 for n in nodes])
    searches = rows[:, :SEARCH_FORMS].sum(1) > 0.5
    logp = segment_log_softmax(logits.masked_fill(searches, -1e4), state, len(nodes))
    expected = torch.zeros(len(nodes)).index_add_(0, state, logp.exp() * f1)
    losses = -(expected[useful] + 1e-3).log()
    return losses.sum() / max(1, len(nodes))


def play_greedily(
    model: CandidateScorer, arena: Arena, progress: Progress | None = None
) -> np.ndarray:
    """(tasks, 4): EM, F1, searches and evidence recall of the best-scored actions."""
    now = arena.roots(range(len(arena)), progress)
    out = np.zeros((len(arena), 4))
    active = list(range(len(arena)))
    while active:
        steps = []
        for start in range(0, len(active), 64):
            part = active[start : start + 64]
            rows, state, starts = stack([now[i].features for i in part])
            with torch.inference_mode():
                logits = model(rows, state, len(part)).numpy()
            for i, first in zip(part, starts, strict=True):
                node = now[i]
                steps.append((i, int(logits[first : first + len(node.candidates)].argmax())))
        going = []
        for i, pick in steps:
            node = now[i]
            if node.candidates[pick].is_search:
                going.append((i, pick))
            else:
                out[i] = node.em[pick], node.f1[pick], node.searches, node.evidence
        nodes = arena.follow([(now[i], pick) for i, pick in going], progress)
        for (i, _), node in zip(going, nodes, strict=True):
            now[i] = node
        active = [i for i, _ in going]
    return out


def _watch(report: Report | None) -> Progress | None:
    if report is None:
        return None
    return lambda done, total: report(f"encoding {done}/{total}", 0.0, None)
