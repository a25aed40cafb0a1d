"""Task families: questions asked about a world, and the proof that each has one answer."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
