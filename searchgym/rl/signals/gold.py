"""Signal: the policy's likelihood of the gold answer before each of its turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from ...dialects.base import get_dialect
from ...dialects.masks import overlap
from ...policies.rows import Bools, Ints
from ..slots.protocols import Slot
from ..slots.records import Floats, Group, Played, Signals, Workers
from .influence import asked_row


class GoldLogp(Slot):
    """``gold_logp``: (M, K) the mean log-probability of the gold answer's tokens if it had to be
    given in place of each turn (IGPO, arXiv 2510.14967).

    The answer (a task's first) is teacher-forced: ``Dialect.force_answer`` says what stands before
    it. One forward pass over every turn's context. NaN for a turn that was never asked for, because
    no room was left, and for one whose context has no room for the answer.
    """

    registered = "gold_logp"
    by_turn = frozenset({"gold_logp"})
    provides = frozenset({"gold_logp"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        signals: list[Signals] = []
        context = workers.policy.context
        for group in groups:
            turns = max((len(m.episode.turns) for m in group.members), default=0)
            made = np.full((len(group.members), turns), np.nan)
            rows, places = [], []
            for i, member in enumerate(group.members):
                answer = self.target(member)
                if answer is None:
                    continue
                ids, scored = _forced(member, answer, workers)
                for number, prompt in _prompts(member):
                    if context is not None and len(prompt) + len(ids) > context:
                        continue
                    unasked = np.zeros(len(prompt), np.bool_)
                    rows.append(asked_row(np.r_[prompt, ids], np.r_[unasked, scored]))
                    places.append((i, number))
            if rows:
                with torch.no_grad():
                    logp = workers.lm.logp(rows).sum(1).cpu().double().numpy()
                counts = np.array([float(row.sampled.sum()) for row in rows])
                made[tuple(np.array(places).T)] = self.value(logp, counts)
            (name,) = self.provides
            signals.append({name: made})
        return signals

    def value(self, logp: Floats, counts: Floats) -> Floats:
        """(n,) numbers of n forced answers: of their log-probabilities and token counts."""
        return logp / counts

    def target(self, member: Played) -> str | None:
        """The answer that is forced; None: there is none to ask for."""
        return member.episode.config.task.answers[0]


def _forced(member: Played, text: str, workers: Workers) -> tuple[Ints, Bools]:
    """The forced answer's ids, and which of them are the answer itself."""
    config = member.episode.config
    bridge, target = get_dialect(config.rules.dialect).force_answer(text)
    answer = get_dialect(config.rules.dialect).parse(bridge + target).spans[-1]
    read = member.episode.contexts.visible(0)
    ids, ends = workers.policy.renderer.spell(read, bridge + target)
    return np.array(ids, np.int64), overlap(ends, [answer])


def _prompts(member: Played) -> Iterator[tuple[int, Ints]]:
    """(turn, the ids before its first token)."""
    for row in member.rows:
        for index, uid in enumerate(row.turn_uids):
            first = int(np.flatnonzero(row.turn_of_token == index)[0])
            yield int(uid.rpartition("/")[2]), row.ids[:first]
