"""Evaluation: play every question once, measure, and compare agents with intervals and tests."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
