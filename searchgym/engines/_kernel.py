"""Compiled BM25 retrieval over bm25s's score matrix. Importing this module imports numba.

bm25s's own kernel leaves the order of tied documents open, at the cut-off too. This one orders them
by position, and does not read what cannot matter (MaxScore; Turtle and Flood, 1995): terms are
added in the order of their largest score; once the k-th best document so far beats what all
remaining terms can give together, only documents already seen can still be hits, and only those
close enough are looked up in the remaining, longest lists. The result equals the exhaustive one,
bit for bit, because every score is summed in the same order either way.

``cache=True`` keeps the machine code on disk: compilation is waited for once per installation.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_LARGE_K = 64
_SLACK = np.float32(1.00001)  # covers the rounding of the bounds, never that of the scores


@njit(nogil=True, cache=True)
def _insert(
    docs: NDArray[np.int32], best: NDArray[np.float32], found: int, doc: int, score: float
) -> int:
    """Put (score, doc) into its place among the ``found`` best; returns how many there are now."""
    k = docs.shape[0]
    if found == k:
        last = best[k - 1]
        if score < last or (score == last and doc > docs[k - 1]):
            return found
        place = k - 1
    else:
        place = found
        found += 1
    while place > 0 and (
        best[place - 1] < score or (best[place - 1] == score and docs[place - 1] > doc)
    ):
        best[place] = best[place - 1]
        docs[place] = docs[place - 1]
        place -= 1
    best[place] = score
    docs[place] = doc
    return found


@njit(nogil=True, cache=True)
def best_k(
    terms: NDArray[np.int32],
    weights: NDArray[np.float32],
    starts: NDArray[np.int64],
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int64],
    largest: NDArray[np.float32],
    scores: NDArray[np.float32],
    seen: NDArray[np.int32],
    out_docs: NDArray[np.int32],
    out_scores: NDArray[np.float32],
) -> None:
    """Write each query's best documents, best first, ties by position.

    ``terms[starts[q]:starts[q + 1]]``: term numbers of query q, negative ones are skipped;
    ``weights``: how often each counts. ``data, indices, indptr``: compressed sparse columns
    (column = term, row = document, ascending), values > 0; ``largest``: maximum of each column.
    ``scores`` (documents,) must be all zero and is left so; ``seen`` (documents + 1,) is scratch.
    ``out_docs`` (Q, k ≥ 1) filled with −1, ``out_scores`` (Q, k) with 0: unused places stay so.
    """
    k = out_docs.shape[1]
    longest = 0
    for q in range(starts.shape[0] - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    own = np.empty(longest, np.int32)
    weight = np.empty(longest, np.float32)
    bound = np.empty(longest, np.float32)
    rest = np.empty(longest + 1, np.float32)
    top_docs = np.empty(k, np.int32)
    top = np.empty(k, np.float32)
    for q in range(starts.shape[0] - 1):
        n = 0
        for t in range(starts[q], starts[q + 1]):  # insertion sort: largest possible score first
            term = terms[t]
            if term < 0:
                continue
            most = weights[t] * largest[term]
            i = n
            while i > 0 and (bound[i - 1] < most or (bound[i - 1] == most and own[i - 1] > term)):
                own[i] = own[i - 1]
                weight[i] = weight[i - 1]
                bound[i] = bound[i - 1]
                i -= 1
            own[i] = term
            weight[i] = weights[t]
            bound[i] = most
            n += 1
        rest[n] = np.float32(0.0)
        for i in range(n - 1, -1, -1):
            rest[i] = rest[i + 1] + bound[i]

        n_seen = 0
        done = 0
        threshold = np.float32(0.0)
        while done < n:
            w = weight[done]
            for p in range(indptr[own[done]], indptr[own[done] + 1]):
                doc = np.uint32(indices[p])
                score = scores[doc]
                seen[n_seen] = doc  # kept only if new; no branch, it could not be predicted
                n_seen += score == 0.0
                scores[doc] = score + w * data[p]
            done += 1
            # A pass for the threshold pays only where it can succeed (the k-th best document has
            # about 0.6 of what the added terms can give) and much is left to skip.
            if (
                done == n
                or n_seen < k
                or k > _LARGE_K
                or 0.6 * (rest[0] - rest[done]) <= rest[done]
            ):
                continue
            if indptr[own[done] + 1] - indptr[own[done]] < n_seen:
                continue
            found = 0
            for i in range(n_seen):
                score = scores[np.uint32(seen[i])]
                if score >= threshold and (found < k or score > top[k - 1]):
                    found = _insert(top_docs, top, found, seen[i], score)
            threshold = top[k - 1]  # k documents have it now, and scores only grow
            if threshold > rest[done] * _SLACK:
                break

        candidates = n_seen
        for i in range(done, n):
            # Drop what cannot reach the threshold any more; dropped documents move to the back,
            # where they still get cleared.
            i_kept = 0
            for j in range(candidates):
                doc = np.uint32(seen[j])
                if (scores[doc] + rest[i]) * _SLACK >= threshold:
                    seen[j] = seen[i_kept]
                    seen[i_kept] = doc
                    i_kept += 1
            candidates = i_kept
            w = weight[i]
            first = indptr[own[i]]
            last = indptr[own[i] + 1]
            if candidates * 16 > last - first:
                for p in range(first, last):
                    doc = np.uint32(indices[p])
                    if scores[doc] > 0.0:
                        scores[doc] += w * data[p]
            else:
                for j in range(candidates):
                    doc = seen[j]
                    lo = first
                    hi = last
                    while lo < hi:
                        mid = (lo + hi) >> 1
                        if indices[mid] < doc:
                            lo = mid + 1
                        else:
                            hi = mid
                    if lo < last and indices[lo] == doc:
                        scores[np.uint32(doc)] += w * data[lo]

        if k <= _LARGE_K:
            found = 0
            for i in range(candidates):
                doc = seen[i]
                score = scores[np.uint32(doc)]
                if score >= threshold and (found < k or score >= top[k - 1]):
                    found = _insert(top_docs, top, found, doc, score)
            out_docs[q, :found] = top_docs[:found]
            out_scores[q, :found] = top[:found]
        else:
            docs = seen[:candidates].copy()
            if candidates > k:
                values = scores[docs]
                docs = docs[values >= np.partition(values, candidates - k)[candidates - k]]
            docs.sort()
            values = scores[docs]
            order = np.argsort(-values, kind="mergesort")
            for i in range(min(k, candidates)):
                out_docs[q, i] = docs[order[i]]
                out_scores[q, i] = values[order[i]]
        for i in range(n_seen):
            scores[np.uint32(seen[i])] = np.float32(0.0)
