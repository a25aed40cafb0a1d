"""Traits that may make a question hard to transfer to: its passages, words, names and ranks.

Each trait sorts questions into a few strata, the same for every set, so that a real set and a
simulated one can be laid side by side.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from ..batching import run_batch
from ..corpora.corpus import AnswerIndex, Corpus, is_aggregated
from ..envs.search import SearchEnv
from ..seeding import derive
from ..text import bare_title, normalise_answer
from ..types import CallContext, Failure, Query, Task
from ..utils.english import STOP, WORD, stem

DEPTH = 100
"""Gold passages are looked for among so many results of the question."""
UNKNOWN = "unknown"
Strata = Mapping[str, tuple[str, ...]]
"""Trait → the stratum of every question, in order."""

TRAITS: Mapping[str, str] = {
    "hops": "facts that have to be joined",
    "passage length": "words of the gold passages (median)",
    "question vocabulary": "share of the question's words, names left out, never seen in training",
    "passage vocabulary": "the same share of the gold passages' words",
    "passages with the answer": "how many passages hold an accepted answer",
    "look-alike titles": "other pages whose titles hold all words of a gold page's",
    "gold in the corpus": "whether all gold passages are there",
    "rank of the first gold passage": "among the results of the question itself",
    "rank of the last gold passage": "the same, of the one ranked lowest",
}
SHOWN = "evidence the agent was shown"
"""A trait of what an agent did rather than of the question."""


def vocabulary(corpus: Corpus, tasks: Sequence[Task]) -> frozenset[str]:
    """Stems of all words of a world's passages and questions."""
    texts = [f"{p.title} {p.text}" for p in corpus] + [t.question for t in tasks]
    return frozenset(stem(word.lower()) for text in texts for word in WORD.findall(text))


def strata(env: SearchEnv, tasks: Sequence[Task], known: frozenset[str]) -> Strata:
    """The strata of ``tasks`` by every trait of :data:`TRAITS`.

    ``known``: the training world's vocabulary. Ranks come from the setting's own engine, one call.
    """
    corpus = env.corpus
    gold = [[corpus.passage(e) for e in task.evidence if e in corpus] for task in tasks]
    ranks = _ranks(env, tasks)
    index, alike = AnswerIndex(corpus), LookAlikes(corpus)

    def lengths(i: int) -> float:
        return median(len(p.text.split()) for p in gold[i]) if gold[i] else math.nan

    def told(i: int) -> float:
        return math.nan if is_aggregated(tasks[i]) else len(index.places(tasks[i].answers))

    def titles(i: int) -> float:
        return max((alike(p.title) for p in gold[i]), default=math.nan)

    def words(i: int) -> float:
        return _unseen(" ".join(p.text for p in gold[i]), known) if gold[i] else math.nan

    def there(i: int) -> str:
        if not tasks[i].evidence:
            return UNKNOWN
        return "all" if all(e in corpus for e in tasks[i].evidence) else "some missing"

    columns: dict[str, Callable[[int], str]] = {
        "hops": lambda i: _bin(tasks[i].hops, (2, 3, 4), ("1", "2", "3", "4 or more")),
        "passage length": lambda i: _bin(
            lengths(i), (50, 100, 200), ("under 50", "50–99", "100–199", "200 or more")
        ),
        "question vocabulary": lambda i: _share_bin(_unseen(tasks[i].question, known)),
        "passage vocabulary": lambda i: _share_bin(words(i)),
        "passages with the answer": lambda i: _bin(
            told(i), (1, 2, 6, 21), ("none", "1", "2–5", "6–20", "over 20")
        ),
        "look-alike titles": lambda i: _bin(titles(i), (1, 2, 6), ("none", "1", "2–5", "over 5")),
        "gold in the corpus": there,
        "rank of the first gold passage": lambda i: _rank(ranks[i], min),
        "rank of the last gold passage": lambda i: _rank(ranks[i], max),
    }
    return {name: tuple(of(i) for i in range(len(tasks))) for name, of in columns.items()}


def shown_strata(recalls: Sequence[float]) -> tuple[str, ...]:
    """Strata of :data:`SHOWN` from evidence recall per question, averaged over seeds."""
    return tuple(
        UNKNOWN if math.isnan(r) else "all" if r > 0.999 else "some" if r > 0.001 else "none"
        for r in recalls
    )


class LookAlikes:
    """Counts of the other pages whose titles hold every word of a title."""

    def __init__(self, corpus: Corpus) -> None:
        self._titles: dict[str, set[str]] = {}
        for passage in corpus:
            for word in _words(passage.title):
                self._titles.setdefault(word, set()).add(passage.title)

    def __call__(self, title: str) -> int:
        words = _words(bare_title(title))
        sets = sorted((self._titles.get(word, set()) for word in words), key=len)
        return len(set.intersection(*sets) - {title}) if sets else 0


def _words(title: str) -> frozenset[str]:
    return frozenset(normalise_answer(title).split())


def _unseen(text: str, known: frozenset[str]) -> float:
    """Share of the distinct words that are neither names, numbers nor function words."""
    words = {w for w in WORD.findall(text) if w.islower() and w.isalpha() and w not in STOP}
    return sum(stem(w) not in known for w in words) / len(words) if words else math.nan


def _ranks(env: SearchEnv, tasks: Sequence[Task]) -> list[list[float]]:
    """Ranks of each task's gold passages for its question; infinity for ranks beyond ``DEPTH`` and
    where the engine failed."""
    batch = [
        Query(t.question, DEPTH, CallContext(derive(0, t.id), t.id, {}, None, t)) for t in tasks
    ]
    out = []
    for task, result in zip(tasks, run_batch(env.engine, batch), strict=True):
        hits = () if isinstance(result, Failure) else result
        place = {hit.passage.id: float(i) for i, hit in enumerate(hits, 1)}
        out.append([place.get(e, math.inf) for e in task.evidence])
    return out


def _rank(ranks: Sequence[float], choose: Callable[..., float]) -> str:
    rank = choose(ranks) if ranks else math.nan
    names = ("1", "2–3", "4–10", "11–100", "beyond 100")
    return _bin(rank, (2, 4, 11, DEPTH + 1), names)


def _share_bin(share: float) -> str:
    names = ("none", "under 10 %", "10–25 %", "25–50 %", "half or more")
    return _bin(share, (1e-9, 0.1, 0.25, 0.5), names)


def _bin(value: float, edges: Sequence[float], names: Sequence[str]) -> str:
    """``names[i]``: the value reaches i of the edges, ascending."""
    return UNKNOWN if math.isnan(value) else names[bisect_right(edges, value)]
