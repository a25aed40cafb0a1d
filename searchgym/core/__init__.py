"""One episode, free of input and output: its rules, contexts, turns, replay and records."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
