"""BM25 with passages and index on disk, for corpora that memory does not hold."""

from .build import build
from .engine import DiskBM25Engine, make
from .files import StoredCorpus, is_index

__all__ = ["DiskBM25Engine", "StoredCorpus", "build", "is_index", "make"]
