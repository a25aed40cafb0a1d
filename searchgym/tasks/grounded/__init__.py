"""Questions made from any text by rules: facts, gaps, bridges, comparisons; no labels, no model."""

from .build import FAMILIES, GroundedTasks, ground

__all__ = ["FAMILIES", "GroundedTasks", "ground"]
