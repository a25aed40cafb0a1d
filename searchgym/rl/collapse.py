"""Warnings for the known ways in which RL of search agents goes wrong while the reward looks fine.

Each compares a moving average with what the run began with. They are said once, as Python warnings
and in the log, and change nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

NAMES = ("reward", "em", "searches", "entropy", "tokens", "truncated")
"""What is followed."""


class CollapseWarning(UserWarning):
    """Training goes on; look at what is named."""


class Watch:
    """Follows the metrics of :mod:`searchgym.rl.measures`.

    Args:
        searchable: Whether there are tools at all.
        first: Steps whose mean is what the run began with.
        weight: Of the newest step in the moving average.
    """

    def __init__(self, *, searchable: bool = True, first: int = 5, weight: float = 0.3) -> None:
        self.searchable, self.first, self.weight = searchable, first, weight
        self.seen = 0
        self.began: dict[str, float] = {}
        self.now: dict[str, float] = {}
        self.warned: list[str] = []
        self.said: list[str] = []
        """Names of the warnings that the last step gave."""

    def look(self, metrics: Mapping[str, float]) -> None:
        """Take in a step."""
        self.said = []
        if not set(NAMES) <= set(metrics) or any(metrics[n] != metrics[n] for n in NAMES):
            return  # no sound episode
        self.seen += 1
        for name in NAMES:
            new = metrics[name]
            if self.seen <= self.first:
                self.began[name] = self.began.get(name, 0.0) + new / self.first
            self.now[name] = (1 - self.weight) * self.now.get(name, new) + self.weight * new
        if self.seen <= self.first:
            return
        for name, text in self._found().items():
            if name not in self.warned:
                self.warned.append(name)
                self.said.append(name)
                warnings.warn(f"{name}: {text}", CollapseWarning, stacklevel=3)

    def _found(self) -> dict[str, str]:
        """Name → what is wrong."""
        began, now = self.began, self.now
        found: dict[str, str] = {}
        if self.searchable and began["searches"] >= 0.5 and now["searches"] < 0.2:
            found["no_search"] = (
                f"{now['searches']:.2f} searches per episode, {began['searches']:.2f} at first: "
                "the policy answers from memory. Are tasks answerable without searching?"
            )
        if began["entropy"] > 0.05 and now["entropy"] < 0.05 * began["entropy"]:
            found["entropy_collapse"] = (
                f"{now['entropy']:.4f} nats per token, {began['entropy']:.4f} at first: hardly "
                "anything new is tried. Lower lr, add an entropy loss, or raise clip_high"
            )
        if now["reward"] - began["reward"] > 0.1 and now["em"] - began["em"] < 0.02:
            found["format_hacking"] = (
                f"reward rose from {began['reward']:.2f} to {now['reward']:.2f}, exact match went "
                f"from {began['em']:.2f} to {now['em']:.2f}: what is rewarded is not the answer"
            )
        if now["tokens"] > 3 * began["tokens"] or (
            now["truncated"] > 0.5 and now["truncated"] > 2 * began["truncated"]
        ):
            found["length_blow_up"] = (
                f"{now['tokens']:.0f} tokens per episode ({began['tokens']:.0f} at first), "
                f"{now['truncated']:.0%} truncated. Penalise length, or divide by tokens"
            )
        return found

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen, "began": self.began, "now": self.now, "warned": self.warned}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.seen, self.warned = int(state["seen"]), list(state["warned"])
        self.began, self.now = dict(state["began"]), dict(state["now"])
