"""Names of agents in reports, and sentences that list them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from ..charts.palette import CLOSED
from ..evaluation.result import EvalResult

_FOLDERS = ("agents", "model", "models", "checkpoints")
"""Folders that runs keep weights in, and whose names say nothing."""


def short_name(agent: str) -> str:
    """Return what an agent is called in charts: of weights, the run's folder and the file's stem
    (``runs/cand/agents/seed-0.safetensors``: ``cand/seed-0``); of a model's folder, the run's."""
    path = PurePath(agent)
    if len(path.parts) < 2 or ":" in agent:
        return agent
    kept = [part for part in path.with_suffix("").parts if part not in _FOLDERS]
    if path.suffix != ".safetensors":
        kept = [part for part in path.parts if part not in _FOLDERS][-1:]
    return "/".join(kept[-2:]) or agent


def closed_book(result: EvalResult) -> bool:
    """Return whether it was played without any tool."""
    return not result.settings.get("search_enabled", True)


def named(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Results with names that tell them apart: short ones; where these are equal, the names that
    were given; of equal ones the set is added, then a number."""
    ends = [CLOSED if closed_book(r) else "" for r in results]
    own = [r.agent for r in results]
    for names in (
        [short_name(name) for name in own],
        own,
        [f"{name} ({r.set})" for name, r in zip(own, results, strict=True)],
        [f"{name} #{i}" for i, name in enumerate(own, 1)],
    ):
        full = [name + end for name, end in zip(names, ends, strict=True)]
        if len(set(full)) == len(full):
            return [replace(r, agent=n) for r, n in zip(results, full, strict=True)]
    raise AssertionError("numbers differ")  # pragma: no cover


def quoted(name: str) -> str:
    """Return a name as sentences show it: in quotes where it holds a comma."""
    return f"“{name}”" if "," in name or ";" in name else name


def percent(share: float) -> str:
    """Return a share as sentences show it: "46 %"."""
    return f"{100 * share:.0f} %"


def listed(parts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
