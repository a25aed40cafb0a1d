"""Router-R1's reward, which knows what the models of a pool cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from searchgym import CardError, Search
from searchgym.rewards import well_formed
from searchgym.rl import Coef, Group, Rewards, RewardTransform, Signals

from .model_pool import routed_query

PRICES: Mapping[str, float] = {"small": 1.0, "medium": 2.0, "large": 4.0}


def thrift(cost: float, window: Sequence[float]) -> float:
    """1 - clip((√cost - q05) / (q95 - q05), 0, 1), the quantiles of the window's √costs; .5 where
    these are equal."""
    low, high = np.quantile(np.sqrt(np.asarray(window, float)), [0.05, 0.95])
    if high - low <= 1e-12:
        return 0.5
    return float(1 - np.clip((np.sqrt(cost) - low) / (high - low), 0, 1))


class RoutedReward(RewardTransform):
    """Pays R = (1 - ``alpha``) · outcome + ``alpha`` · thrift where the outcome is above 0, else
    the outcome; ``malformed`` in the place of all where a turn is no action, the answer is missing,
    or a query names no model of ``prices`` (Router-R1, released code). An episode costs the sum of
    its queries' prices, and is compared with the last ``window`` episodes'.

    Args:
        prices: Model → price of one query (the source's are of tokens).
        alpha: Weight of the thrift; the source's default is 0.
    """

    registered = "outcome:routed"

    def __init__(
        self, prices: Mapping[str, float] = PRICES, alpha: float = 0.0, window: int = 1000,
        malformed: float = -1.0,
    ) -> None:  # fmt: skip
        if not prices or min(prices.values()) < 0 or not 0 <= alpha <= 1 or window < 1:
            raise CardError(
                f"prices ≥ 0, alpha in [0, 1] and window ≥ 1; got {dict(prices)}, {alpha}, {window}"
            )
        self.prices, self.alpha, self.malformed = dict(prices), float(alpha), float(malformed)
        self.costs: deque[float] = deque(maxlen=window)

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        asked = [self._asked(m.episode) for m in group.members]
        costs = [sum(self.prices.get(name, 0.0) for name in names) for names in asked]
        known = [i for i, m in enumerate(group.members) if not m.broken]
        self.costs.extend(costs[i] for i in known)
        outcome = np.array(rewards.outcome)
        for i in known:
            told = group.members[i].episode.outcome()
            if told is None or not well_formed(told) or not set(asked[i]) <= set(self.prices):
                outcome[i] = self.malformed
            elif outcome[i] > 0:
                saved = thrift(costs[i], tuple(self.costs))
                outcome[i] = (1 - self.alpha) * outcome[i] + self.alpha * saved
        return replace(rewards, outcome=outcome)

    def _asked(self, episode: Any) -> list[str]:
        """Names of the models that an episode's queries are addressed to."""
        searches = [t.action for t in episode.turns if isinstance(t.action, Search)]
        return [routed_query(query)[0] for action in searches for query in action.queries]

    def state_dict(self) -> dict[str, Any]:
        return {"costs": list(self.costs)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.costs.clear()
        self.costs.extend(state["costs"])
