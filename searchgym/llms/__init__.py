"""Text generators behind one protocol: transformers, vLLM in process, OpenAI-compatible servers."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
