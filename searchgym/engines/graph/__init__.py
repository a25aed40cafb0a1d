"""Look-up of entities in generated worlds and knowledge graphs, by name or by rank."""

from .engine import OBJECT_SCORE, SUBJECT_SCORE, GraphEngine, make

__all__ = ["OBJECT_SCORE", "SUBJECT_SCORE", "GraphEngine", "make"]
