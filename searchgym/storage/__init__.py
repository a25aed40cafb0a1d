"""Persistence: whole files, JSON records, checkpoints, bytes by key, the user's cache."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
