"""Parts that candidate wrappers share: spaces, and the candidates of turn requests as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction
from numpy.typing import NDArray

from searchgym.agents.state import read_state
from searchgym.dialects.base import Dialect, get_dialect
from searchgym.errors import CardError, unknown
from searchgym.types import TurnRequest

from .actions import DEFAULT_LIMITS, Candidate, CandidateLimits
from .encoder import WordEncoder
from .features import FEATURE_NAMES, FeatureBuilder

Observation = dict[str, NDArray[Any]]
LAYOUTS = {"rows": ("features", "mask"), "rllib": ("observations", "action_mask")}
"""Keys of the rows and of the mask, by layout."""


class Menu:
    """Turns requests into candidates, their rows and masks, and numbers into texts.

    Args:
        encoder, max_actions, limits, layout, states: as of :class:`CandidateActions`.

    Raises:
        CardError: an argument is out of range or unknown.
    """

    def __init__(
        self,
        encoder: WordEncoder | Mapping[str, Any] | bool | None,
        max_actions: int,
        limits: CandidateLimits | Mapping[str, int],
        layout: str,
        states: int,
    ) -> None:
        if max_actions < 1:
            raise CardError(f"max_actions must be at least 1, got {max_actions}")
        if states < 1:
            raise CardError(f"states must be at least 1, got {states}")
        if layout not in LAYOUTS:
            raise CardError(unknown("layout", layout, LAYOUTS))
        limits = limits if isinstance(limits, CandidateLimits) else _limits(limits)
        self.max_actions, self.limits, self.layout = max_actions, limits, layout
        self.builder = FeatureBuilder(_encoder(encoder), limits=limits, states=states)
        self.action_space = spaces.Discrete(max_actions)
        shape, rows, mask = (max_actions, len(FEATURE_NAMES)), *LAYOUTS[layout]
        of_mask: spaces.Space[Any] = spaces.MultiBinary(max_actions)
        if layout == "rllib":  # its networks read flat rows, and add the logarithm of the mask
            shape = (max_actions * len(FEATURE_NAMES),)  # type: ignore[assignment]
            of_mask = spaces.Box(0.0, 1.0, (max_actions,), np.float32)
        self.observation_space = spaces.Dict(
            {rows: spaces.Box(-1e4, 1e4, shape, np.float32), mask: of_mask}
        )

    def offer(
        self, requests: Sequence[TurnRequest | None]
    ) -> tuple[list[tuple[Candidate, ...]], Observation]:
        """The candidates of each request and the observations, stacked: (n, …) each.

        No request, as after an episode's end, offers nothing: zeros.
        """
        states = [None if r is None else read_state(r) for r in requests]
        self.builder.prepare([state for state in states if state is not None])
        n = len(requests)
        rows = np.zeros((n, self.max_actions, len(FEATURE_NAMES)), dtype=np.float32)
        offers: list[tuple[Candidate, ...]] = []
        for i, state in enumerate(states):
            offered: tuple[Candidate, ...] = ()
            if state is not None:
                offered, features = self.builder(state)
                if len(offered) > self.max_actions:  # refusing, always last, is kept
                    keep = [*range(self.max_actions - 1), len(offered) - 1]
                    offered, features = tuple(offered[k] for k in keep), features[keep]
                rows[i, : len(offered)] = features
            offers.append(offered)
        mask = self.mask(offers)
        names = LAYOUTS[self.layout]
        if self.layout == "rllib":
            return offers, {
                names[0]: rows.reshape(n, -1), names[1]: mask.astype(np.float32)
            }  # fmt: skip
        return offers, {names[0]: rows, names[1]: mask.astype(np.int8)}

    def mask(self, offers: Sequence[Sequence[Candidate]]) -> NDArray[np.bool_]:
        """(n, max_actions) bool: True where a candidate stands."""
        counts = np.asarray([len(offered) for offered in offers])
        return np.arange(self.max_actions) < counts[:, None]

    def text(
        self, offered: Sequence[Candidate], action: Any, dialect: str | Mapping[str, Any] | Dialect
    ) -> str:
        """The text of a candidate; "", which is no action, for a number that is masked.

        Raises:
            InvalidAction: the number is no element of ``action_space``.
        """
        index = int(action)
        if not 0 <= index < self.max_actions:
            raise InvalidAction(f"{index} is no action of {self.action_space}")
        if index >= len(offered):
            return ""
        return get_dialect(dialect).render_action(offered[index].action)


def _limits(given: Mapping[str, int]) -> CandidateLimits:
    known = asdict(DEFAULT_LIMITS)
    for name in given:
        if name not in known:
            raise CardError(unknown("limit", name, known))
    return CandidateLimits(**given)


def _encoder(given: WordEncoder | Mapping[str, Any] | bool | None) -> WordEncoder | None:
    if isinstance(given, Mapping):
        return WordEncoder(**given)
    if isinstance(given, bool):
        return WordEncoder() if given else None
    return given
