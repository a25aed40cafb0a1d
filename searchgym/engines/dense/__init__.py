"""Dense search over any corpus: a sentence encoder and FAISS, with exact scores and ties."""

from .engine import NUMBERS, DenseEngine, encoder_of, make

__all__ = ["NUMBERS", "DenseEngine", "encoder_of", "make"]
