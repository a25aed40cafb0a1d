"""Questions and graphs made from any text by rules; no labels, no model."""

from .build import FAMILIES, GroundedTasks, ground
from .graph import TextFacts, read_facts

__all__ = ["FAMILIES", "GroundedTasks", "TextFacts", "ground", "read_facts"]
