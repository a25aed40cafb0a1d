"""Measuring a scorer by its best-scored actions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from searchgym.utils.threads import one_thread

from .arena import Arena
from .encoder import Progress
from .scorer import CandidateScorer, stack


@dataclass(frozen=True, slots=True)
class GreedyPoint:
    """One evaluation on the development arena; ``rl.metrics`` explains the names."""

    episodes: int
    train_s: float
    em: float
    f1: float
    searches: float
    evidence_recall: float


def play_greedily(
    model: CandidateScorer, arena: Arena, progress: Progress | None = None
) -> NDArray[np.float64]:
    """(tasks, 4): EM, F1, searches and evidence recall of the best-scored actions."""
    now = arena.roots(range(len(arena)), progress)
    out = np.zeros((len(arena), 4))
    active = list(range(len(arena)))
    while active:
        steps = []
        for start in range(0, len(active), 64):
            part = active[start : start + 64]
            rows, state, starts = stack([now[i].features for i in part])
            with torch.inference_mode(), one_thread():
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
