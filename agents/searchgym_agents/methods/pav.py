"""PAV: a turn is paid what it added to the chance that a prover, the best of four tries, succeeds
from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch

from searchgym import Episode, run_episodes
from searchgym.llms.base import Completion
from searchgym.policies.record import Written
from searchgym.rl import (
    Batch,
    Coef,
    Estimate,
    Floats,
    Group,
    Over,
    Played,
    Reduction,
    Signal,
    Signals,
    Workers,
    rloo_advantages,
    total,
)
from searchgym.rl.ops import on_turns, spread, turn_ends


def best_of(value: Floats, k: int) -> Floats:
    """Chance 1 - (1 - V)^``k`` that the best of ``k`` tries succeeds, of chances V in [0, 1]."""
    chance: Floats = 1 - (1 - np.clip(value, 0.0, 1.0)) ** k
    return chance


class ProverProgress(Signal):
    """``turn_progress_prover``: (M, K) V^μ after each turn - V^μ before it, with the prover μ the
    best of ``best_of`` tries of the policy itself: V^μ = 1 - (1 - V)^K (Rewarding Progress, Setlur
    et al., arXiv 2410.08146).

    V before a turn is the mean return of ``samples`` episodes that the policy plays on from there;
    after the last turn it is the episode's own return. So the sum over an episode is what its end
    is worth to the prover minus what the question was. Returns are taken as chances, within [0, 1].
    The first state is played on once for the whole group. NaN where the infrastructure failed.

    It costs ``samples`` episodes a turn: 4 turns of 8 members and 4 samples are a hundred.

    Args:
        samples: Episodes that are played on from each state.
        best_of: Tries of the prover; 1: the policy itself.
    """

    registered = "signal:prover_progress"
    provides = frozenset({"turn_progress_prover"})

    def __init__(self, samples: int = 4, best_of: int = 4) -> None:
        if samples < 1 or best_of < 1:
            raise ValueError(f"samples and best_of are at least 1, got {samples} and {best_of}")
        self.samples, self.best_of = samples, best_of

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [{"turn_progress_prover": self._progress(group, workers)} for group in groups]

    def _progress(self, group: Group, workers: Workers) -> Floats:
        turns = max((len(m.episode.turns) for m in group.members), default=0)
        made = np.full((len(group.members), turns), np.nan)
        values = self._values(group, workers)
        for line, member, before in zip(made, group.members, values, strict=True):
            if not member.broken:
                ends = np.array([*before, total(member)])
                line[: len(before)] = np.diff(best_of(ends, self.best_of))
        return made

    def _values(self, group: Group, workers: Workers) -> list[list[float]]:
        """V before each turn of each member, all played on together."""
        states: list[tuple[int, int]] = []
        more: list[Episode] = []
        for i, member in enumerate(group.members):
            if member.broken:
                continue
            recall(member, workers)
            for turn in range(len(member.episode.turns)):
                if turn or not any(at == 0 for _, at in states):
                    states.append((i, turn))
                    more += [member.episode.fork(at=turn, branch=_branch(turn, n, self.samples))
                             for n in range(self.samples)]  # fmt: skip
        policy = workers.policy
        run_episodes(more, policy, workers.env.toolbox, batch=max(len(more), 1))
        policy.forget([e.config.episode_id for e in more])
        policy.forget([m.episode.config.episode_id for m in group.members])
        returns = [total(Played(e, ())) for e in more]
        worth: dict[tuple[int, int], float] = {}
        for n, state in enumerate(states):
            mine = np.array(returns[n * self.samples : (n + 1) * self.samples])
            worth[state] = float(np.nanmean(mine)) if not np.isnan(mine).all() else float("nan")
        first = next((v for (_, at), v in worth.items() if at == 0), float("nan"))
        return [
            [first if turn == 0 else worth[i, turn] for turn in range(len(m.episode.turns))]
            if not m.broken
            else []
            for i, m in enumerate(group.members)
        ]


def _branch(turn: int, sample: int, samples: int) -> int:
    """A number of its own for each fork of an episode, from 1."""
    return 1 + turn * samples + sample


def recall(member: Played, workers: Workers) -> None:
    """Make the policy remember an episode that it has forgotten, token by token from its rows, so
    that forks of it can be played on."""
    policy, episode = workers.policy, member.episode
    ids = dict(_written(member))
    for turn, done in enumerate(episode.turns):
        (request,) = episode.fork(at=turn).requests()
        history = policy.memory.at(request)
        pieces = policy.renderer.render(request, history.ids(request))
        spell = policy.renderer.spell
        prefill = spell(request.segments, request.prefill).ids if request.prefill else ()
        own = ids.get(turn, ())
        ends = (len(done.text),) * len(own)
        said = Completion(done.text, own, np.zeros(len(own), np.float32), ends)
        history.written[turn] = Written(turn, request.context, pieces, prefill, said)


def _written(member: Played) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(turn, the ids that were written in it)."""
    for row in member.rows:
        for index, uid in enumerate(row.turn_uids):
            ids = row.ids[row.turn_of_token == index]
            yield int(uid.rpartition("/")[2]), tuple(int(i) for i in ids)


Compared = Literal["no", "rloo"]


class TurnBonus(Over):
    """A = ``base`` + ``weight`` · s_k for the tokens of turn k, with s_k the turn's signal as it is
    (PAV, arXiv 2410.08146), or less the mean of all other turns' of the group (iStar, arXiv
    2509.19199). Earlier turns have no share in it: ``per_turn`` with reward-to-go gives them one.

    Args:
        signal: (M, K), a number for each turn; a turn without one gets ``base`` alone.
        weight: Weight of the signal, or ``coef["turn_bonus"]``.
        compared: ``"no"``, or ``"rloo"``: within the group.
    """

    registered = "advantage:turn_bonus"
    reads = frozenset({"turn_bonus"})
    reductions = (Reduction({"weight": 0.0}, {"use": "grpo"}),)

    def __init__(
        self, base: Any = "grpo", signal: str = "turn_return", weight: float = 1.0,
        compared: Compared = "no",
    ) -> None:  # fmt: skip
        super().__init__(base)
        if compared not in ("no", "rloo"):
            raise ValueError(f"compared is 'no' or 'rloo', got {compared!r}")
        self.signal, self.weight = signal, float(weight)
        self.compared: Compared = compared
        self.requires = self.requires | {signal}

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        values = batch.by_turn(self.signal).to(torch.float32)
        places = (turn_ends(batch.turn, mask) & ~values.isnan()).nonzero(as_tuple=True)
        score = values[places]
        if self.compared == "rloo" and len(score):
            score = rloo_advantages(score, batch.group[places[0]])
        more = coef.get("turn_bonus", self.weight) * score
        bonus = on_turns(more, (places[0], places[1]), batch.turn, mask)
        return made._replace(adv=spread(made.adv, batch.mask) + bonus)
