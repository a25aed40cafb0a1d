"""BM25 with passages and index on disk, for corpora that memory does not hold."""

from .engine import TantivyEngine, make
from .index import analysis_of, build, is_index
from .stored import StoredCorpus

__all__ = ["StoredCorpus", "TantivyEngine", "analysis_of", "build", "is_index", "make"]
