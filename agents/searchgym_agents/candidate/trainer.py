"""Trains the candidate agent by an on-policy, group-relative policy gradient in generated worlds.

Per update: one walk down the tree of each of some questions, following a search the policy might
take; then one gradient step on every visited state under them. A state's group is all its legal
actions (``tree``), so advantages carry no sampling noise. Rewards: F1, a small cost
per search, and evidence shaping (the share of gold passages a search brings, weight annealed to 0:
this is what teaches a second search before answers can).
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from searchgym.errors import CardError, DataError
from searchgym.objects import check_number, check_whole
from searchgym.seeding import derive, stream
from searchgym.storage.checkpoint import (
    load_optimizer,
    optimizer_tensors,
    read_state,
    under,
    write_state,
)
from searchgym.utils.hardware import one_blas_thread, one_thread, side_by_side

from .arena import Arena, GreedyPoint, Node, follow, play_greedily, roots
from .encoder import Progress
from .scorer import CandidateScorer, segment_log_softmax, stack
from .tree import Floats, Tree, action_values, choose_search, enumerated_advantages

FEW = 60
"""Development questions, about, that are asked before the first update: an agent that has learnt
nothing searches as long as it may, and what only it sees would have to be read."""


@dataclass(frozen=True, slots=True)
class CandidateTrainConfig:
    """Hyperparameters of a run."""

    seed: int = 0
    episodes: int = 60_000
    """Walks, each of one question to its last search."""
    seconds: float | None = None
    """Stop (and anneal) by wall clock as well, counted from the first update: an optional bound.
    Runs are reproducible only without it."""
    questions: int = 40
    """Walks per update."""
    lr: float = 2e-3
    weight_decay: float = 1e-2
    members: int = 3
    """Networks trained side by side, whose mean acts."""
    width: int = 64
    dropout: float = 0.2
    entropy: float = 0.005
    """Entropy bonus at the start; annealed to 0."""
    evidence: float = 0.4
    """Shaping weight at the start; annealed to 0 at ``evidence_until``."""
    evidence_until: float = 0.7
    search_cost: float = 0.02
    branches: tuple[int, ...] = (1, 2, 1)
    """Number of searches that may be followed from a state after 0, 1, 2 … searches: building the
    states they lead to is what training costs."""
    explore: float = 0.2
    """Share of uniform odds in the choice of the search to follow."""
    average: float = 0.98
    """Decay of the weights' running average, which is what is evaluated and kept."""
    evaluate_every: int = 100
    """Updates between evaluations."""
    patience: int = 0
    """Stop once so many evaluations in a row, after the shaping has ended, are no better than the
    best before them: the development curve is flat. 0: play all episodes."""

    def __post_init__(self) -> None:
        for name in ("episodes", "questions", "members", "width", "evaluate_every"):
            check_whole(name, getattr(self, name), 1)
        for name in ("seed", "patience"):
            check_whole(name, getattr(self, name), 0)
        if self.seconds is not None:
            check_number("seconds", self.seconds, 0)
        for name in ("lr", "weight_decay", "entropy", "evidence", "evidence_until", "search_cost"):
            check_number(name, getattr(self, name), 0)
        for name in ("dropout", "explore", "average"):
            check_number(name, getattr(self, name), 0, 1)
        if not isinstance(self.branches, list | tuple):
            raise CardError(f"branches is a list of whole numbers, (1, 2, 1), got {self.branches}")
        for number in self.branches:
            check_whole("a number of branches", number, 1)


@dataclass
class TrainedScorer:
    """The selected model and its learning curve."""

    model: CandidateScorer
    curve: list[GreedyPoint]
    episodes: int
    updates: int
    seconds: float


_COUNTERS = ("updates", "episodes", "spent", "best_f1")
Report = Callable[[str, float, GreedyPoint | None], None]
"""Callback that gets the current phase, the fraction done, and a new evaluation if there is one."""


class CandidateTrainer:
    """One training run; ``run`` may be called after ``restore`` to continue.

    Args:
        arenas: where to train.
        dev: where the model is selected, one or several, or ``None`` to keep the last one.
        init: start from this model (fine-tuning) instead of a fresh one.
        about: names what the configuration does not, such as the arenas' recipe; a checkpoint of
            another one is refused.
        shares: of the questions that are drawn from each arena; None: all questions are as likely.
    """

    def __init__(
        self,
        arenas: Sequence[Arena],
        config: CandidateTrainConfig,
        *,
        dev: Arena | Sequence[Arena] | None = None,
        init: CandidateScorer | None = None,
        about: str = "",
        shares: Sequence[float] | None = None,
    ) -> None:
        self.arenas, self.config = list(arenas), config
        self.dev = [dev] if isinstance(dev, Arena) else list(dev or ())
        self.about = about
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive(config.seed, "candidate-scorer"))
            self.model = CandidateScorer(
                width=config.width, dropout=config.dropout, members=config.members
            )
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
        self.tree = Tree(self.arenas)
        self.pairs = [(a, i) for a, arena in enumerate(self.arenas) for i in range(len(arena))]
        self.odds: NDArray[np.float64] | None = None
        if shares is not None:
            odds = [shares[a] / len(self.arenas[a]) for a, _ in self.pairs]
            self.odds = np.asarray(odds) / sum(odds)
        self.updates = self.episodes = 0
        self.spent = 0.0
        self.best_f1 = -1.0
        self.curve: list[GreedyPoint] = []

    # -- the run ---------------------------------------------------------------------------------
    def run(
        self, report: Report | None = None, checkpoint: str | os.PathLike[str] | None = None
    ) -> TrainedScorer:
        """Train until the episodes or seconds are spent or the development curve is flat; returns
        the selected model."""
        collecting, exact = gc.isenabled(), torch.are_deterministic_algorithms_enabled()
        gc.disable()  # visited states live to the end and form no garbage: tracing them is waste
        torch.use_deterministic_algorithms(True)  # else gradients of gathers depend on threads
        try:
            with one_blas_thread():
                return self._run(report, checkpoint)
        finally:
            torch.use_deterministic_algorithms(exact)
            if collecting:
                gc.enable()

    def _run(
        self, report: Report | None, checkpoint: str | os.PathLike[str] | None
    ) -> TrainedScorer:
        if self.updates == 0:
            self._begin(report)
            self._evaluate(0.0, None, report)  # the curve begins before the first update
        started = time.monotonic() - self.spent  # preparation does not count
        while (done := self._progress(started)) < 1 and not self._flat(done):
            self._update(done, report)
            if self.updates % self.config.evaluate_every == 0:
                self._evaluate(done, started, report)
                if checkpoint is not None:
                    self.spent = time.monotonic() - started
                    self._save(checkpoint)
        if self.dev and self.curve[-1].episodes < self.episodes:
            self._evaluate(1.0, started, report)
        self.spent = time.monotonic() - started
        model = self.best if self.best_f1 >= 0 else self.mean
        return TrainedScorer(model.eval(), self.curve, self.episodes, self.updates, self.spent)

    def restore(self, checkpoint: str | os.PathLike[str]) -> None:
        """Continue a run from what ``run(checkpoint=…)`` wrote.

        Raises:
            DataError: no such file, not a checkpoint, or one of another configuration.
        """
        path = Path(checkpoint)
        tensors, header = read_state(path, "the candidate trainer")
        if "config" not in header:
            raise DataError(f"{path}: not a checkpoint of the candidate trainer: no configuration")
        ours = json.loads(json.dumps(self.settings()))
        if header["config"] != ours:
            changed = sorted(k for k in ours if ours[k] != header["config"].get(k))
            raise DataError(
                f"{path}: made with other settings ({', '.join(changed)}); start afresh"
            )
        for name in ("model", "mean", "best"):
            getattr(self, name).load_state_dict(under(tensors, name))
        load_optimizer(self.optimizer, tensors)
        for name in _COUNTERS:
            setattr(self, name, header[name])
        self.curve = [GreedyPoint(**p) for p in header["curve"]]
        self.tree.regrow(header["tree"])

    def _save(self, checkpoint: str | os.PathLike[str]) -> None:
        """Save models, optimizer state, counters and curve in one safetensors file; the old one
        stays until this is whole."""
        tensors: dict[str, Tensor] = {}
        for name in ("model", "mean", "best"):
            for key, value in getattr(self, name).state_dict().items():
                tensors[f"{name}/{key}"] = value.detach().clone()
        tensors |= optimizer_tensors(self.optimizer)
        header = {
            "config": self.settings(), **{name: getattr(self, name) for name in _COUNTERS},
            "curve": [asdict(p) for p in self.curve], "tree": self.tree.to_json(),
        }  # fmt: skip
        write_state(Path(checkpoint), tensors, header)

    def _progress(self, started: float) -> float:
        done = self.episodes / self.config.episodes if self.config.episodes else 1.0
        if self.config.seconds is not None:
            done = max(done, (time.monotonic() - started) / self.config.seconds)
        return done

    def _flat(self, done: float) -> bool:
        patience, f1 = self.config.patience, [point.f1 for point in self.curve]
        if not patience or done < self.config.evidence_until or len(f1) <= patience:
            return False
        return max(f1[-patience:]) <= max(f1[:-patience])

    def _begin(self, report: Report | None) -> None:
        """Fix the input scaling on first and second states of questions of every kind."""
        if self.fresh:
            watch = _watch(report)
            spread = [
                (arena, i)
                for arena in self.arenas
                for i in range(0, len(arena), max(1, len(arena) // 64))
            ]
            nodes = roots(spread, watch)
            nodes += follow([(root, 0) for root in nodes if root.is_search[0]], watch)
            self.model.standardise(stack([n.features for n in nodes])[0].numpy())
        self.mean.load_state_dict(self.model.state_dict())

    def _update(self, done: float, report: Report | None) -> None:
        config = self.config
        rng = stream(config.seed, "walk", self.updates)
        drawn = len(self.pairs) if self.odds is None else int(np.count_nonzero(self.odds))
        size = min(config.questions, drawn)
        picks = rng.choice(len(self.pairs), size=size, replace=False, p=self.odds)
        chosen = [self.pairs[p] for p in picks.tolist()]
        watch = _watch(report) if self.updates < 20 else None
        first = self.tree.roots(chosen, watch)
        self._walk(first, rng, watch)
        half = -(-len(first) // 2)
        parts = [
            [n for r in part for n in self.tree.under(r)] for part in (first[:half], first[half:])
        ]
        self._step([nodes for nodes in parts if nodes], done)
        self.updates += 1
        self.episodes += size
        if report is not None:
            report("training", done, None)

    def weights(self, done: float) -> Mapping[str, float]:
        """Reward weights at a fraction of the run; ``evidence`` anneals linearly."""
        c = self.config
        part = min(1.0, done / c.evidence_until) if c.evidence_until > 0 else 1.0
        return {"f1": 1.0, "search": -c.search_cost, "evidence": c.evidence * (1 - part)}

    def _walk(self, now: Sequence[Node], rng: np.random.Generator, watch: Progress | None) -> None:
        """Follow one search from every state on the way, as deep as ``branches`` is long."""
        for branches in self.config.branches:
            steps = []
            for node, logp in zip(now, self._logp(now), strict=True):
                followed = self.tree.children(node)
                room = len(followed) < branches
                pick = choose_search(
                    node, followed, logp, room=room, explore=self.config.explore, rng=rng
                )
                if pick is not None:
                    steps.append((node, pick))
            if not steps:
                return
            now = self.tree.follow(steps, watch)

    def _logp(self, nodes: Sequence[Node]) -> list[Floats]:
        rows, state, starts = stack([n.features for n in nodes])
        networks = self.model.eval().networks(rows, state, len(nodes))

        def logits(network: Callable[[], Tensor]) -> Tensor:
            with torch.inference_mode():
                return network()

        with side_by_side(len(networks)) as mapped, torch.inference_mode():
            mean = torch.stack(list(mapped(logits, networks))).mean(0)
            logp = segment_log_softmax(mean, state, len(nodes))
        return np.split(logp.numpy(), starts[1:])

    # -- learning --------------------------------------------------------------------------------
    def _step(self, parts: Sequence[Sequence[Node]], done: float) -> None:
        """One step of every network, which is a policy of its own until they vote. Each part's
        gradient of each network is found by itself, as many at once as PyTorch has threads: there
        are more than networks, so that two threads have as much to do."""
        config, count = self.config, sum(map(len, parts))

        def gradient(
            network: Callable[[], Tensor],
            parameters: Sequence[Tensor],
            nodes: Sequence[Node],
            state: Tensor,
            starts: list[int],
        ) -> Sequence[Tensor]:
            logp = segment_log_softmax(network(), state, len(nodes))
            policy = np.split(logp.detach().exp().numpy(), starts[1:])
            worth = np.concatenate(action_values(nodes, policy, self.tree, self.weights(done)))
            adv = enumerated_advantages(torch.from_numpy(worth), logp, state, len(nodes))
            loss = -(adv.detach() * logp).sum() / count
            entropy = -(logp.exp() * logp).sum() / count
            return torch.autograd.grad(loss - config.entropy * (1 - done) * entropy, parameters)

        self.model.train()
        jobs: list[Callable[[], Sequence[Tensor]]] = []
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive(config.seed, "dropout", self.updates))
            for nodes in parts:
                rows, state, starts = stack([n.features for n in nodes])
                networks = self.model.networks(rows, state, len(nodes))
                jobs += [
                    partial(gradient, network, list(member.parameters()), nodes, state, starts)
                    for network, member in zip(networks, self.model.members, strict=True)
                ]
        with side_by_side(len(jobs)) as mapped:
            found = list(mapped(lambda job: job(), jobs))
        for k, member in enumerate(self.model.members):
            shares = zip(*found[k :: len(self.model.members)], strict=True)
            for parameter, share in zip(member.parameters(), shares, strict=True):
                parameter.grad = torch.stack(share).sum(0)
        self._descend(done)

    @one_thread()
    def _descend(self, done: float) -> None:
        config = self.config
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = config.lr * min(1.0, (self.updates + 1) / 20) * (1 - 0.9 * done)
        for member in self.model.members:
            torch.nn.utils.clip_grad_norm_(member.parameters(), 1.0)
        self.optimizer.step()
        decay = min(config.average, (self.updates + 1) / (self.updates + 10))
        with torch.no_grad():
            for kept, new in zip(self.mean.parameters(), self.model.parameters(), strict=True):
                kept.lerp_(new, 1 - decay)

    # -- measuring -------------------------------------------------------------------------------
    def _evaluate(self, done: float, started: float | None, report: Report | None) -> None:
        if not self.dev:
            return
        watch = _watch(report) if done == 0 else None
        mean = self.mean.eval()
        every = 1 if self.updates else max(1, sum(map(len, self.dev)) // FEW)
        scores = play_greedily(mean, self.dev, watch, every)
        seconds = 0.0 if started is None else time.monotonic() - started
        point = GreedyPoint(self.episodes, seconds, *(float(x) for x in scores.mean(0)))
        self.curve.append(point)
        if point.f1 > self.best_f1:
            self.best_f1 = point.f1
            self.best.load_state_dict(self.mean.state_dict())
        if report is not None:
            report("evaluated", done, point)

    def settings(self) -> dict[str, object]:
        """Settings that a checkpoint must agree with, as JSON."""
        return {**asdict(self.config), "about": self.about}


def _watch(report: Report | None) -> Progress | None:
    if report is None:
        return None
    return lambda done, total: report(f"encoding {done}/{total}", 0.0, None)
