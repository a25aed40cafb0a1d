"""Compiled BM25 retrieval over bm25s's score matrix. Importing this module imports numba.

bm25s's own kernel leaves the order of tied documents open, at the cut-off too. :func:`best_k`
orders them by position, and does not read what cannot matter (MaxScore; Turtle and Flood, 1995):

1. Lists are added up in the order of their largest score, so rare words come first.
2. Now and then it probes: the best documents so far are looked up in all remaining lists. Hits must
   reach the k-th best of these complete scores.
3. Once all remaining lists together cannot give as much, only documents already seen can still be
   hits, and each of these only while its score and what remains reach the threshold.

:func:`best_of_all` scores every matching passage, which is faster where more than ``MOST`` hits are
asked for. Both give the same bits, because every score is summed in the same order.

The type of an index's ``data`` tells what a posting holds. float32: its score. Integers: a term's
frequency, from which the score is computed (:func:`score_of`) as the stored ones were, with the
same roundings, so that both kinds of index rank alike bit for bit.

The kernels do not check where they read and write: :func:`fault` does, for an index that may have
been altered.

``cache=True`` keeps the machine code on disk: compilation is waited for once per installation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError
from ._plain import Postings, QueryTerms, Room, Weighting

try:
    from numba import njit, types
    from numba.extending import overload
except ModuleNotFoundError as error:  # an index in memory does without: ``_plain.kernels``
    raise MissingExtraError("a BM25 index on disk (numba)", "fast") from error

_SLACK = np.float32(1.00001)  # covers the rounding of the bounds, never that of the scores
_HOPE = np.float32(0.4)  # of all bounds' sum: about what the k-th best document has in the end
_PROBE_PRICE = 4  # a probe reads each document seen, at a fraction of the price of adding a posting
_LOOK_UP_PRICE = 4  # postings that are added in the time of one look-up
_PAIRS, _QUADS, _BYTES, _ONES = map(
    np.uint64, (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x0101010101010101)
)


def score_of(data: NDArray[Any], posting: Any, idf: float, weighting: Weighting, doc: Any) -> Any:
    """Return a posting's score: what ``data`` holds, or Lucene's BM25 of the frequency there."""
    times = float(data[posting])
    return np.float32(
        times if data.dtype == np.float32 else idf * (times / (weighting.norms[doc] + times))
    )


@overload(score_of, jit_options={"error_model": "numpy"})
def _score_of(data: Any, posting: Any, idf: Any, weighting: Any, doc: Any) -> Any:
    def stored(data: Any, posting: Any, idf: Any, weighting: Any, doc: Any) -> Any:
        return data[posting]

    def computed(data: Any, posting: Any, idf: Any, weighting: Any, doc: Any) -> Any:
        times = np.float64(data[posting])
        return np.float32(idf * (times / (weighting.norms[doc] + times)))

    return stored if isinstance(data.dtype, types.Float) else computed


def idf_of(data: NDArray[Any], weighting: Weighting, column: int) -> Any:
    """Return the idf of a column's term; 0 where ``data`` holds scores."""
    return np.float32(0) if data.dtype == np.float32 else weighting.idf[weighting.numbers[column]]


@overload(idf_of)
def _idf_of(data: Any, weighting: Any, column: Any) -> Any:
    def none(data: Any, weighting: Any, column: Any) -> Any:
        return np.float32(0)

    def found(data: Any, weighting: Any, column: Any) -> Any:
        return weighting.idf[weighting.numbers[column]]

    return none if isinstance(data.dtype, types.Float) else found


@njit(nogil=True, cache=True)
def _insert(
    docs: NDArray[np.int32], best: NDArray[np.float32], count: int, doc: int, score: float
) -> int:
    """Put (score, doc) into its place among the ``count`` best; returns how many there are now."""
    k = docs.shape[0]
    if count == k:
        last = best[k - 1]
        if score < last or (score == last and doc > docs[k - 1]):
            return count
        place = k - 1
    else:
        place = count
        count += 1
    while place > 0 and (
        best[place - 1] < score or (best[place - 1] == score and docs[place - 1] > doc)
    ):
        best[place] = best[place - 1]
        docs[place] = docs[place - 1]
        place -= 1
    best[place] = score
    docs[place] = doc
    return count


@njit(nogil=True, cache=True)
def _look_up(
    docs: NDArray[np.int32], scores: NDArray[np.float32], weight: float, term: int,
    postings: Postings,
) -> None:  # fmt: skip
    """Add what a term's list gives these documents to their scores.

    A short list, which has no row of ``marks``, is searched by halves. No branches: whether a
    document is in the list cannot be predicted.
    """
    data, indices, indptr, _, rows, marks, weighting = postings
    first, last, row = indptr[term], indptr[term + 1], rows[term]
    idf = idf_of(data, weighting, term)
    one = np.uint64(1)
    if row >= 0:
        for j in range(docs.shape[0]):
            doc = np.uint32(docs[j])
            block = doc >> np.uint32(6)
            word = marks[row, block, 0]
            place = np.uint64(doc & np.uint32(63))
            before = word & ((one << place) - one)
            before = before - ((before >> one) & _PAIRS)  # compiled to one "count the ones"
            before = (before & _QUADS) + ((before >> np.uint64(2)) & _QUADS)
            before = (((before + (before >> np.uint64(4))) & _BYTES) * _ONES) >> np.uint64(56)
            there = (word >> place) & one
            at = np.uint64(first) + there * (marks[row, block, 1] + before)
            scores[doc] += weight * score_of(data, at, idf, weighting, doc) * np.float32(there)
        return
    for j in range(docs.shape[0]):
        doc = np.uint32(docs[j])
        spot, length = first, last - first
        while length > 1:
            half = length >> 1
            spot += half * int(np.uint32(indices[np.uint64(spot + half)]) <= doc)
            length -= half
        if length == 1 and np.uint32(indices[np.uint64(spot)]) == doc:
            scores[doc] += weight * score_of(data, np.uint64(spot), idf, weighting, doc)


@njit(nogil=True, cache=True)
def by_largest(
    batch: QueryTerms, query: int, largest: NDArray[np.float32], own: NDArray[np.int32],
    weight: NDArray[np.float32], bound: NDArray[np.float32],
) -> int:  # fmt: skip
    """Put a query's terms, the largest possible score first, into the last three; returns how many
    there are. Scores are summed in this order, whatever k is."""
    here = slice(batch.starts[query], batch.starts[query + 1])
    terms, weights, order = batch.terms[here], batch.weights[here], batch.order[here]
    n = 0
    given = order.shape[0] > 0
    rank = np.empty(terms.shape[0], np.float32)
    for t in range(terms.shape[0]):  # insertion sort
        term = terms[t]
        if term < 0:
            continue
        most = weights[t] * largest[term]
        key = order[t] if given else most
        i = n
        while i > 0 and (rank[i - 1] < key or (rank[i - 1] == key and own[i - 1] > term)):
            own[i] = own[i - 1]
            weight[i] = weight[i - 1]
            bound[i] = bound[i - 1]
            rank[i] = rank[i - 1]
            i -= 1
        own[i] = term
        weight[i] = weights[t]
        bound[i] = most
        rank[i] = key
        n += 1
    return n


@njit(nogil=True, cache=True)
def best_k(batch: QueryTerms, floor: NDArray[np.float32], postings: Postings, room: Room) -> None:
    """Write each query's best documents, best first, ties by position; for k of at most ``MOST``.

    ``floor`` (Q,) or empty: scores that documents must reach; where there is one, nothing is probed
    for a better one.
    """
    starts = batch.starts
    data, indices, indptr, largest, _, _, weighting = postings
    scores, seen, out_docs, out_scores = room
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
    probe_docs = np.empty(2 * k + 2, np.int32)  # the k best at the end are mostly among these
    probe = np.empty(2 * k + 2, np.float32)
    candidates = np.empty(scores.shape[0] + 1, np.int32)
    for q in range(starts.shape[0] - 1):
        n = by_largest(batch, q, largest, own, weight, bound)
        rest[n] = np.float32(0.0)
        for i in range(n - 1, -1, -1):
            rest[i] = rest[i + 1] + bound[i]

        n_seen = 0
        done = 0
        threshold = floor[q] if floor.shape[0] > 0 else np.float32(0.0)
        given = threshold > 0
        while done < n and threshold <= rest[done] * _SLACK:
            w = weight[done]
            own_idf = idf_of(data, weighting, own[done])
            for p in range(indptr[own[done]], indptr[own[done] + 1]):
                doc = np.uint32(indices[p])
                score = scores[doc]
                seen[n_seen] = doc  # kept only if new; no branch, it could not be predicted
                n_seen += score == 0.0
                scores[doc] = score + w * score_of(data, p, own_idf, weighting, doc)
            done += 1
            # Probe where it can succeed and where the next list costs more than the attempt.
            if (
                given
                or done == n
                or n_seen < k
                or _HOPE * rest[0] < rest[done]
                or _PROBE_PRICE * (indptr[own[done] + 1] - indptr[own[done]]) < n_seen
            ):
                continue
            count = 0
            for j in range(n_seen):
                score = scores[np.uint32(seen[j])]
                if count < probe.shape[0] or score > probe[count - 1]:
                    count = _insert(probe_docs, probe, count, seen[j], score)
            for i in range(done, n):
                _look_up(probe_docs[:count], scores, weight[i], own[i], postings)
            complete = 0
            for j in range(count):
                doc = np.uint32(probe_docs[j])
                complete = _insert(top_docs, top, complete, probe_docs[j], scores[doc])
                scores[doc] = probe[j]
            threshold = max(threshold, top[k - 1])

        left = n_seen
        for j in range(left):
            candidates[j] = seen[j]
        for i in range(done, n):
            kept = 0
            for j in range(left):
                doc = np.uint32(candidates[j])
                candidates[kept] = doc
                kept += (scores[doc] + rest[i]) * _SLACK >= threshold
            left = kept
            t, w = own[i], weight[i]
            first, last = indptr[t], indptr[t + 1]
            if _LOOK_UP_PRICE * left < last - first:
                _look_up(candidates[:left], scores, w, t, postings)
            else:
                own_idf = idf_of(data, weighting, t)
                for p in range(first, last):
                    doc = np.uint32(indices[p])
                    score = scores[doc]
                    more = w * score_of(data, p, own_idf, weighting, doc)
                    scores[doc] = score + more * np.float32(score > 0.0)
        count = 0
        for j in range(left):
            score = scores[np.uint32(candidates[j])]
            if score >= threshold and (count < k or score >= top[k - 1]):
                count = _insert(top_docs, top, count, candidates[j], score)
        for j in range(count):
            out_docs[q, j] = top_docs[j]
            out_scores[q, j] = top[j]
        for j in range(n_seen):
            scores[np.uint32(seen[j])] = np.float32(0.0)


_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)


@njit(nogil=True, cache=True)
def best_of_all(batch: QueryTerms, postings: Postings, room: Room) -> None:
    """Find what :func:`best_k` finds, for any k.

    The lists are read twice: once to add up the scores, once to collect and clear them. A document
    is a key, its score's bits above its position's complement, so that keys order as hits do. Twice
    as many as are asked for are collected before all but the best k are let go.
    """
    starts = batch.starts
    data, indices, indptr, largest, _, _, weighting = postings
    scores, _, out_docs, out_scores = room
    bits = scores.view(np.uint32)
    k = out_docs.shape[1]
    longest = 0
    for q in range(starts.shape[0] - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    own = np.empty(longest, np.int32)
    weight = np.empty(longest, np.float32)
    bound = np.empty(longest, np.float32)
    keys = np.empty(max(2 * k, 256), np.uint64)
    high = np.empty(k, np.uint32)
    for q in range(starts.shape[0] - 1):
        n = by_largest(batch, q, largest, own, weight, bound)
        for i in range(n):
            w = weight[i]
            own_idf = idf_of(data, weighting, own[i])
            for p in range(indptr[own[i]], indptr[own[i] + 1]):
                doc = np.uint32(indices[p])
                scores[doc] += w * score_of(data, p, own_idf, weighting, doc)
        least = _LOW  # of any score above 0
        found = 0
        for i in range(n):
            for p in range(indptr[own[i]], indptr[own[i] + 1]):
                doc = np.uint32(indices[p])
                key = (np.uint64(bits[doc]) << _HIGH) | (_LOW - np.uint64(doc))
                bits[doc] = 0
                if key > least:
                    keys[found] = key
                    found += 1
                    if found == keys.shape[0]:
                        keys[:k] = np.partition(keys, found - k)[found - k :]
                        least = keys[:k].min()
                        found = k
        top = keys[:found]
        if found > k:
            top = np.partition(top, found - k)[found - k :]
        top.sort()
        m = top.shape[0]
        for i in range(m):
            key = top[m - 1 - i]
            out_docs[q, i] = np.int32(_LOW - (key & _LOW))
            high[i] = np.uint32(key >> _HIGH)
        out_scores[q, :m] = high[:m].view(np.float32)


@njit(nogil=True, cache=True)
def fault(postings: Postings, passages: int) -> int:
    """Return 0 for an index that :class:`Postings` describes, else a place in ``FAULTS``.

    Lengths and types are taken to be right, and so are the numbers of the weighting.
    """
    data, indices, indptr, largest, rows, marks, weighting = postings
    if indptr[0] != 0 or indptr[-1] != data.shape[0]:
        return 1
    for t in range(rows.shape[0]):
        if indptr[t + 1] < indptr[t] or indptr[t + 1] > data.shape[0]:
            return 1
        if rows[t] < -1 or rows[t] >= marks.shape[0]:
            return 2
    for t in range(rows.shape[0]):
        before = -1
        idf = idf_of(data, weighting, t)
        most = np.float32(0.0)
        for p in range(indptr[t], indptr[t + 1]):
            doc = int(indices[p])
            if doc <= before or doc >= passages:
                return 3
            before = doc
            score = score_of(data, p, idf, weighting, doc)
            if not (score > 0 and np.isfinite(score)):
                return 4
            most = max(most, score)
        if largest[t] != most:
            return 5
        row = rows[t]
        if row >= 0:
            p = indptr[t]
            for block in range(marks.shape[1]):
                if marks[row, block, 1] != np.uint64(p - indptr[t]):
                    return 6
                word = np.uint64(0)
                while p < indptr[t + 1] and np.int64(indices[p]) >> 6 == block:
                    word |= np.uint64(1) << np.uint64(np.int64(indices[p]) & 63)
                    p += 1
                if marks[row, block, 0] != word:
                    return 6
    return 0
