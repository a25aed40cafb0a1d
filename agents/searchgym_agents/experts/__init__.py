"""Agents that know the answers of an environment's questions and show a model how to find them."""

from __future__ import annotations

from searchgym.utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
