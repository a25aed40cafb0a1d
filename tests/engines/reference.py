"""Ten-line BM25 (Lucene's formula) to hold the engine against."""

import math
from collections import Counter


def bm25(documents: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    counts = [Counter(d) for d in documents]
    mean = sum(map(len, documents)) / len(documents)
    scores = [0.0] * len(documents)
    for term in query:
        df = sum(term in c for c in counts)
        idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
        for i, c in enumerate(counts):
            tf = c[term]
            scores[i] += idf * tf / (tf + k1 * (1 - b + b * len(documents[i]) / mean))
    return scores
