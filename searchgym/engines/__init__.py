"""Search engines behind one interface; see :mod:`searchgym.engines.registry` for their names."""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
