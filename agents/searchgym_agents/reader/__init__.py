"""A small causal LM learns to search from nothing: worked examples, a tokenizer, a model."""

from __future__ import annotations

from searchgym.utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
