"""Knowers: small causal LMs trained to recall a chosen share of their world's facts."""

from __future__ import annotations

from searchgym.utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
