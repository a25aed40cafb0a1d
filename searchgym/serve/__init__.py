"""A search server: any engine behind every ``/retrieve`` dialect that search-agent code speaks."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
