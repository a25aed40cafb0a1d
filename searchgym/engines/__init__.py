"""Search engines behind one interface; see :mod:`searchgym.engines.registry` for their names."""

from .registry import ENGINES, build_engine

__all__ = ["ENGINES", "build_engine"]
