"""Passages and questions: rendered from worlds, read from files, and real sets."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
