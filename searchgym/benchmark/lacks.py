"""Gap analysis: relates traits of real questions to the points that agents lose on them.

Points are lost in two ways. Real sets hold more of the questions that are hard everywhere, and
questions of one kind are harder there. For each trait the first part is what would come back if the
real questions were mixed as the simulated ones are, stratum by stratum:

    explained = Σ_g (p_sim(g) - p_real(g)) · (real score of g - real score)

(DiNardo, Fortin & Lemieux 1996; Oaxaca 1973 with one categorical regressor.) Traits overlap, so
their shares do not add up, and none of them is shown to be a cause. Strata that simulation has and
the real set lacks cannot be reweighted to: their share is told, and the others are rescaled.
"""

from __future__ import annotations

import json
import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from ..batching import run_batch
from ..corpora.corpus import AnswerIndex, Corpus, is_aggregated
from ..envs.search import SearchEnv
from ..evaluation.differences import crossed_interval
from ..evaluation.intervals import Floats, Interval, mean_interval
from ..evaluation.metrics import METRICS
from ..seeding import derive, stream
from ..text import bare_title, normalise_answer
from ..types import CallContext, Failure, Query, Task
from ..utils.english import STOP, WORD, stem
from .gains import aligned
from .ladder import Rung
from .table import TransferTable, plain

FEW = 20
"""Strata of fewer questions say little; they are marked."""
RESAMPLES = 2_000


class Stratum(NamedTuple):
    """Questions of one kind, simulated and real."""

    name: str
    simulated_n: int
    real_n: int
    simulated: Interval
    """Score there; NaN without questions."""
    real: Interval
    points: Interval
    """Points that this stratum adds to ``Breakdown.explained``."""
    few: bool
    """True if either side has fewer than :data:`FEW` questions."""


class Breakdown(NamedTuple):
    """One trait's account of the points that are lost between two rungs."""

    trait: str
    lost: float
    """Simulated score minus real score."""
    explained: Interval
    """Points that come back when real questions are mixed as simulated ones."""
    uncovered: float
    """Share of the simulated questions in strata without real ones."""
    strata: tuple[Stratum, ...]


def breakdown(
    trait: str,
    simulated: tuple[Sequence[str], Floats],
    real: tuple[Sequence[str], Floats],
    *,
    seed: int = 0,
    unit: bool = True,
) -> Breakdown:
    """Lay two rungs side by side, stratum by stratum: of each, stratum (Q,) and scores (S, Q) of
    the questions, without NaN. The bootstrap is over questions; seeds are averaged before."""
    names = sorted({*simulated[0], *real[0]}, key=_order)
    place = {name: i for i, name in enumerate(names)}
    sim_of, real_of = (np.array([place[s] for s in side[0]]) for side in (simulated, real))
    sim, got = simulated[1].mean(axis=0), real[1].mean(axis=0)
    points = _points(sim_of, real_of, got, len(names))
    rng = stream(seed, "lacks", trait, len(sim), len(got))
    drawn = np.empty((RESAMPLES, len(names)))
    for b in range(RESAMPLES):
        a, c = rng.integers(len(sim), size=len(sim)), rng.integers(len(got), size=len(got))
        drawn[b] = _points(sim_of[a], real_of[c], got[c], len(names))
    n_sim, n_real = (np.bincount(of, minlength=len(names)) for of in (sim_of, real_of))
    rows = tuple(
        Stratum(
            name, int(n_sim[i]), int(n_real[i]),
            _score(simulated[1][:, sim_of == i], seed, unit),
            _score(real[1][:, real_of == i], seed, unit),
            _around(points[i], drawn[:, i], int(n_real[i])),
            bool(min(n_sim[i], n_real[i]) < FEW),
        )
        for i, name in enumerate(names)
    )  # fmt: skip
    uncovered = float(n_sim[n_real == 0].sum() / len(sim))
    explained = _around(points.sum(), drawn.sum(axis=1), len(got))
    return Breakdown(trait, float(sim.mean() - got.mean()), explained, uncovered, rows)


def lacks(
    table: TransferTable,
    rungs: Sequence[Rung],
    agents: Sequence[str],
    path: Path | None = None,
    *,
    metric: str = "f1",
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Break down what each agent loses on every real rung against the rung above it (the
    reference rung where that was not played), most telling trait first; JSON values.

    ``path``: also written there.
    """
    by_name = {rung.name: rung for rung in rungs}
    real = [r for r in rungs if r.kind == "real" and r.step == "real" and r.name in table.rungs]
    breakdowns: list[dict[str, Any]] = []
    if not real or not agents:
        return breakdowns
    home = next((r for r in rungs if r.step == "source"), rungs[0]).env()
    known = vocabulary(home.corpus, home.tasks)
    by_rung: dict[str, tuple[list[str], Strata]] = {}

    def of(rung: Rung) -> tuple[list[str], Strata]:
        if rung.name not in by_rung:
            shared = rung.env()
            tasks = rung.tasks(shared, table.seed)
            by_rung[rung.name] = ([t.id for t in tasks], strata(shared, tasks, known))
        return by_rung[rung.name]

    for rung in real:
        near = rung.above if rung.above in by_name else table.reference
        for agent in agents:
            if near not in by_name or any(
                (name, agent) not in table.results for name in (near, rung.name)
            ):
                continue
            sides = [
                _side(table, name, agent, metric, *of(by_name[name])) for name in (near, rung.name)
            ]
            told = [
                breakdown(
                    trait, (sides[0][0][trait], sides[0][1]), (sides[1][0][trait], sides[1][1]),
                    seed=seed, unit=METRICS[metric],
                )
                for trait in (*TRAITS, SHOWN)
                if all(len(scores[0]) for _, scores in sides)
            ]  # fmt: skip
            told.sort(key=lambda b: -b.explained.mean)
            breakdowns += [
                {"rung": rung.name, "simulated": near, "agent": agent, "metric": metric, **plain(b)}
                for b in told
            ]
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(breakdowns, ensure_ascii=False, indent=1), encoding="utf-8")
    return breakdowns


def _side(
    table: TransferTable, rung: str, agent: str, metric: str, ids: Sequence[str], told: Strata
) -> tuple[Strata, Floats]:
    results = table.results[rung, agent]
    scores = aligned(results, metric)
    with warnings.catch_warnings():  # no gold at all: NaN, which is its own stratum
        warnings.simplefilter("ignore", RuntimeWarning)
        recall = np.nanmean(aligned(results, "evidence_recall"), axis=0)
    place = {task: i for i, task in enumerate(ids)}
    order = [place[row.task_id] for row in results[0].rows]
    kept = np.flatnonzero(~np.isnan(scores).any(axis=0)).tolist()
    by_trait = {name: tuple(column[order[i]] for i in kept) for name, column in told.items()}
    by_trait[SHOWN] = shown_strata(recall[kept].tolist())
    return by_trait, scores[:, kept]


def _points(sim_of: Any, real_of: Any, real: Floats, strata: int) -> Floats:
    n_sim = np.bincount(sim_of, minlength=strata).astype(float)
    n_real = np.bincount(real_of, minlength=strata).astype(float)
    both = n_real > 0
    if not n_sim[both].sum():  # nothing in common: nothing to reweight to
        return np.zeros(strata)
    wanted = np.where(both, n_sim, 0) / n_sim[both].sum()
    total = np.bincount(real_of, weights=real, minlength=strata)
    score = np.divide(total, n_real, out=np.full(strata, real.mean()), where=both)
    return np.asarray((wanted - n_real / n_real.sum()) * (score - real.mean()))


def _score(table: Floats, seed: int, unit: bool) -> Interval:
    if len(table) == 1:
        return mean_interval(table[0], seed=seed, unit=unit)
    return crossed_interval(table, seed=seed, unit=unit)


def _around(value: float, drawn: Floats, n: int) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(value), float(low), float(high), n, "percentile")


def _order(name: str) -> tuple[int, int, str]:
    """Strata as people expect them: none, numbers ascending, words, unknown last."""
    if name in ("none", "all"):
        return (0, 0, name)
    digits = "".join(c for c in name.split("–")[0] if c.isdecimal())
    more = name.startswith(("over", "beyond")) or name.endswith("more")
    rank = 3 if name == "unknown" else 1 if digits else 2
    return (rank, 2 * int(digits or 0) + more - name.startswith("under"), name)


# --- traits: strata of questions, the same for every set ------------------------------------------
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
    return UNKNOWN if math.isnan(value) else names[bisect_right(edges, value)]
