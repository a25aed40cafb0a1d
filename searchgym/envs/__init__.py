"""Environments: one episode at a time, many at once, and what people pass in their place."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
