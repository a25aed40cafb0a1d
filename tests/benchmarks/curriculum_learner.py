"""A small learner for comparing curricula: sampled episodes, RLOO, a net over candidate actions.

It knows nothing of curricula: it is handed episodes and tells how they ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from searchgym.agents import read_state
from searchgym.core import Episode, run_tools
from searchgym.curricula import Curriculum
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.rl import rloo_advantages
from searchgym.seeding import derive, stream
from searchgym_agents.candidate.features import FeatureBuilder
from searchgym_agents.candidate.scorer import CandidateScorer, segment_log_softmax, stack

LR, ENTROPY, WIDTH = 3e-3, 0.003, 48
"""Learning rate and entropy bonus, which fall during the run; hidden width."""
QUESTIONS, GROUP = 16, 4
"""Per update; episodes of each question."""
EPISODES = QUESTIONS * GROUP


class Move(NamedTuple):
    """One decision: the candidates' features (n, F), and which was taken."""

    features: NDArray[np.float32]
    pick: int


class Learner:
    """One training run of ``updates`` updates in ``env``."""

    def __init__(self, env: SearchEnv, builder: FeatureBuilder, seed: int, updates: int) -> None:
        self.env, self.builder, self.seed, self.updates = env, builder, seed, updates
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(seed, "curriculum-learner"))
            self.model = CandidateScorer(width=WIDTH, dropout=0.0, members=1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LR, weight_decay=1e-2)
        self.dialect = get_dialect(env.rules.dialect)
        self.samples = 0

    def train(self, curriculum: Curriculum) -> Iterator[int]:
        """All updates; yields the number of each when it is done, and first -1, when nothing is
        learned but the inputs' scaling."""
        env = self.env.copy()
        env.curriculum = curriculum
        for update in range(self.updates):
            set_step = getattr(curriculum, "set_step", None)
            if set_step is not None:
                set_step(update)
            episodes = self._episodes(env, update)
            moves = self.play(episodes, stream(self.seed, "act", update))
            for episode in episodes:
                env.ended(episode)
            if update == 0:
                rows = [m.features for episode in moves for m in episode]
                self.model.standardise(np.concatenate(rows))
                yield -1
            self._update(moves, [sum(t.reward for t in e.turns) for e in episodes], update)
            self.samples += len(episodes)
            yield update

    def _episodes(self, env: SearchEnv, update: int) -> list[Episode]:
        """GROUP episodes for each of QUESTIONS tasks; the members' luck differs."""
        made = []
        for place in range(QUESTIONS):
            key = derive(self.seed, "task", update, place)
            task = env.start(key).config.task
            made += [env.start(derive(key, member), task=task) for member in range(GROUP)]
        return made

    def play(
        self,
        episodes: Sequence[Episode],
        rng: np.random.Generator | None,
        env: SearchEnv | None = None,
    ) -> list[list[Move]]:
        """Play to the end, by drawn actions or, without ``rng``, by the best ones. ``env``:
        whose episodes they are, if not the training world's."""
        toolbox = (env or self.env).toolbox
        moves: list[list[Move]] = [[] for _ in episodes]
        while active := [i for i, e in enumerate(episodes) if e.phase != "done"]:
            scored = [self.builder(read_state(episodes[i].requests()[0])) for i in active]
            rows, owner, starts = stack([s.features for s in scored])
            with torch.inference_mode():
                logits = self.model(rows, owner, len(scored))
                logp = segment_log_softmax(logits, owner, len(scored)).numpy()
            if rng is not None:
                logp = logp + rng.gumbel(size=len(logp))  # Gumbel-max: one draw from the odds
            for i, s, at in zip(active, scored, starts, strict=True):
                pick = int(logp[at : at + len(s.candidates)].argmax())
                moves[i].append(Move(s.features, pick))
                episodes[i].act(self.dialect.render_action(s.candidates[pick].action))
            run_tools([episodes[i] for i in active], toolbox)
        return moves

    def _update(
        self, moves: Sequence[Sequence[Move]], returns: Sequence[float], update: int
    ) -> None:
        group = torch.arange(len(returns)) // GROUP
        adv = rloo_advantages(torch.tensor(returns, dtype=torch.float32), group).tolist()
        flat = [(move, a) for episode, a in zip(moves, adv, strict=True) for move in episode]
        rows, owner, starts = stack([move.features for move, _ in flat])
        logp = segment_log_softmax(self.model(rows, owner, len(flat)), owner, len(flat))
        taken = logp[torch.tensor(starts) + torch.tensor([m.pick for m, _ in flat])]
        gain = (taken * torch.tensor([a for _, a in flat])).sum() / len(moves)
        left = 1 - update / self.updates
        entropy = -(logp.exp() * logp).sum() / len(flat)
        loss = -gain - ENTROPY * left * entropy
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = LR * (0.1 + 0.9 * left)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
