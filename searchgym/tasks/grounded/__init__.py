"""Questions and graphs made from any text by rules; no labels, no model."""

from .build import FAMILIES, GroundedTasks, findable, ground
from .graph import TextFacts, read_facts
from .writer import Writer

__all__ = ["FAMILIES", "GroundedTasks", "TextFacts", "Writer", "findable", "ground", "read_facts"]
