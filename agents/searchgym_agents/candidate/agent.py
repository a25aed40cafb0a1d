"""The candidate agent: picks one of a state's candidate actions. No language model, no GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from searchgym.agents.simple import State, read_state
from searchgym.dialects.base import get_dialect
from searchgym.errors import MissingExtraError
from searchgym.seeding import derive, unit
from searchgym.types import TurnRequest
from searchgym.utils.hardware import one_blas_thread, one_thread

from .features import FEATURE_VERSION, FeatureBuilder, ScoredActions

if TYPE_CHECKING:
    from .encoder import WordEncoder
    from .scorer import CandidateScorer


class CandidateAgent:
    """A trained (or untrained) scorer over candidate actions.

    Args:
        model: the scorer; ``CandidateAgent.untrained(seed)`` makes a random one.
        builder: turns states into features; must use the encoder the model was trained with.
        sample: draw from the policy with keys of (seed, episode, turn) instead of the best.
        device: torch device of the scorer.
    """

    def __init__(
        self,
        model: CandidateScorer,
        builder: FeatureBuilder,
        *,
        sample: bool = False,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.model, self.builder = model.to(device).eval(), builder
        self.sample, self.seed, self.device = sample, seed, device

    @classmethod
    def untrained(cls, builder: FeatureBuilder, seed: int = 0) -> CandidateAgent:
        """A randomly initialised agent (the bar called "untrained")."""
        torch = _torch()
        from .scorer import CandidateScorer

        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive(seed, "candidate-scorer") % (1 << 63))
            return cls(CandidateScorer(), builder, seed=seed)

    @classmethod
    def load(
        cls, path: Path | str, encoder: WordEncoder | None, *, device: str = "cpu"
    ) -> CandidateAgent:
        """A saved agent. Raises ``DataError`` if it was made for other features."""
        _torch()
        from .scorer import load_scorer

        return cls(load_scorer(path)[0], FeatureBuilder(encoder), device=device)

    @property
    def fingerprint(self) -> str:
        """Digest of weights, features and encoder: equal agents choose alike."""
        encoder = self.builder.encoder
        h = hashlib.sha256(f"{FEATURE_VERSION} {encoder.name if encoder else None}".encode())
        h.update(f"{self.builder.limits} {self.sample} {self.seed if self.sample else ''}".encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            h.update(name.encode())
            h.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return f"candidate:{h.hexdigest()[:16]}"

    def save(self, path: Path | str, **meta: object) -> None:
        from .scorer import save_scorer

        save_scorer(self.model, path, dict(meta))

    def act(self, requests: Sequence[TurnRequest]) -> list[str]:
        states = [read_state(r) for r in requests]
        scored, picks = self.choose(states, [self._draw(r) for r in requests])
        return [
            get_dialect(r.dialect).render_action(s.candidates[p].action)
            for r, s, p in zip(requests, scored, picks, strict=True)
        ]

    def choose(
        self, states: Sequence[State], draws: Sequence[float | None]
    ) -> tuple[list[ScoredActions], list[int]]:
        """Features of each state and the index of the chosen candidate.

        ``draws``: a number in [0, 1) to sample with, or ``None`` for the best candidate.
        """
        if not states:
            return [], []
        torch = _torch()
        from .scorer import segment_log_softmax, stack

        with one_blas_thread():
            self.builder.prepare(states)
            scored = [self.builder(s) for s in states]
        rows, state, starts = stack([s.features for s in scored])
        with torch.inference_mode(), one_thread():
            logits = self.model(rows.to(self.device), state.to(self.device), len(states))
            logp = segment_log_softmax(logits, state.to(self.device), len(states)).cpu().numpy()
        picks = []
        for start, s, draw in zip(starts, scored, draws, strict=True):
            mine = logp[start : start + len(s.candidates)]
            picks.append(int(mine.argmax()) if draw is None else inverse_cdf(mine, draw))
        return scored, picks

    def _draw(self, request: TurnRequest) -> float | None:
        if not self.sample:
            return None
        return unit(derive(self.seed, "sample", request.episode_id, request.turn, request.context))


def inverse_cdf(logp: np.ndarray, draw: float) -> int:
    """The candidate a uniform number in [0, 1) falls on."""
    cdf = np.cumsum(np.exp(logp.astype(np.float64)))
    return int(min(np.searchsorted(cdf, draw * cdf[-1], side="right"), len(cdf) - 1))


def _torch():  # type: ignore[no-untyped-def]
    try:
        import torch
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("the candidate agent", "train") from error
    return torch
