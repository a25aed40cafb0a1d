"""Wrapper that makes any engine worse at adjustable rates: noise, failures and outdated pages.

Every degradation is a rate in [0, 1] which an episode's difficulty parameters of the same name
override (``reset(options={"params": {"noise": 0.3}})``, ``set_params`` or a curriculum). With all
rates 0 the inner engine's own answers come back, the very objects. Where and how a degradation
strikes is a pure function of the call's key (ranking, failures) or of the episode (which pages are
old or dead), so equal seeds give equal bytes in any batching.
"""

from .engine import DegradedEngine, make

__all__ = ["DegradedEngine", "make"]
