"""Look-up of entities by name; modes for facts, neighbours, PageRank and communities: over
generated worlds and knowledge graphs."""

from .engine import OBJECT_SCORE, SUBJECT_SCORE, GraphEngine, make

__all__ = ["OBJECT_SCORE", "SUBJECT_SCORE", "GraphEngine", "make"]
