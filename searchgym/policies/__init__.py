"""Language models as policies: exact token ids, what was sampled, and how likely it was."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
