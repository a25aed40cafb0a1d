"""Short names of agents, for tables and files: ``NAME=path``, or what tells a path from others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import CardError
from ..objects import is_path

_LAYOUT = ("agents", "model", "models", "checkpoints", "runs")
"""Folders that every run has: they say nothing about which run it is."""


def named(given: Sequence[str], *, several: bool = False) -> dict[str, list[str]]:
    """Return each agent's short name → what it is made of.

    ``NAME=path`` gives a name; a path without one is called by its run's folder
    (``runs/cand/agents/seed-0.safetensors`` is ``cand/seed-0``); all else by itself. Names that
    would fall together are written in full.

    Args:
        given: What the person typed.
        several: Whether ``NAME=A,B,C`` names the seeds of one entry.

    Raises:
        CardError: an empty name or path, or a name that occurs twice.
    """
    entries: list[tuple[str, list[str]]] = []
    for text in given:
        name, equals, path = text.partition("=")
        if equals and not Path(text).exists():
            parts = [p.strip() for p in path.split(",") if p.strip()] if several else [path]
            if not name or not parts or not parts[0]:
                more = "NAME=A,B,C names the agents of one entry" if several else "NAME=path"
                raise CardError(f"{text!r}: expected {more}")
            entries.append((name, parts))
        else:
            entries.append((short(text), [text]))
    names = [name for name, _ in entries]
    named_by_us = [name == short(parts[0]) for name, parts in entries]
    out: dict[str, list[str]] = {}
    for (name, parts), ours in zip(entries, named_by_us, strict=True):
        unique = parts[0] if ours and names.count(name) > 1 else name
        if unique in out:
            raise CardError(f"two agents are called {unique!r}; tell them apart by NAME=path")
        out[unique] = parts
    return out


def short(name: str) -> str:
    """Return the short form of a path to an agent; any other name as it is."""
    if not is_path(name):
        return name
    path = Path(name)
    parts = [p for p in path.parts if p not in (".", "..", "/")]
    last = parts[-1].removesuffix(".safetensors") if parts else name
    folders = [p for p in parts[:-1] if p not in _LAYOUT]
    if last in _LAYOUT and folders:  # runs/x/model is x
        return folders[-1]
    if path.suffix == ".safetensors" and folders:
        return f"{folders[-1]}/{last}"
    return last


def file_stem(name: str) -> str:
    """Return an agent's name as the stem of a file's name."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
