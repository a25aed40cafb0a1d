"""Generated worlds: schemas, entities, facts, names and phrasings."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
