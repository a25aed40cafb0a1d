"""A language model plays the search engine, useful or noisy on demand (ZeroSearch, 2505.04588).

Each query draws from its own key whether its documents are useful or noisy; the rate is the
episode's ``noise`` parameter, which a curriculum drives, or the engine's. The model is told, the
agent is not: which it was stands in ``ToolResult.meta["simulated"]`` and ``info["simulated"]``.
"""

from .engine import SimulatedEngine, make

__all__ = ["SimulatedEngine", "make"]
