"""Fine-tunes a pretrained language model to search, by demonstrations from generated worlds."""

from __future__ import annotations

from searchgym.utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
