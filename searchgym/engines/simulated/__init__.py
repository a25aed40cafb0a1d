"""A language model plays the search engine, useful or noisy on demand (ZeroSearch)."""

from .engine import SimulatedEngine, make

__all__ = ["SimulatedEngine", "make"]
