"""Metrics of each question, and their means over questions.

``em``, ``cover_em`` and ``f1`` are distinct names for distinct numbers (papers call two of them
EM); none of them is ever reported under another's name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.episode import Episode
from ..errors import EvaluationError, unknown
from ..objects import load_known
from ..rewards import REWARDS
from ..rewards.outcome import CUT, MEASURES
from ..scoring.evidence import mean_defined, ndcg_at, precision_at, reciprocal_rank
from ..scoring.metrics import EVALUATION
from ..text import is_abstention
from ..types import Failure, Invalid
from .intervals import RESAMPLES, Interval, mean_interval

_SHOWN = 160
"""Characters of a turn that is quoted."""


class Row(NamedTuple):
    """One question, answered by one agent; ``scoring.metrics.EVALUATION`` says what its measures
    are. NaN: not known, or, of evidence, the task names none."""

    task_id: str
    family: str
    hops: int
    em: float
    f1: float
    cover_em: float
    """ZeroSearch's EM, which takes any substring, is close to it."""
    evidence_recall: float
    searches: int
    """Number of queries as ``max_queries`` counts them: parallel queries one by one, and calls of
    other tools."""
    turns: int
    invalid: int
    end: str
    """answered | unanswered | max_turns | max_chars | max_tokens | infra_error"""
    retries: int
    """Failed calls that were tried again."""
    answer: str
    evidence_precision: float = math.nan
    evidence_mrr: float = math.nan
    evidence_ndcg: float = math.nan
    should_abstain: bool = False
    """The task's only right answer is a refusal."""
    accesses: int = 0
    tokens_in: float = math.nan
    """Number of tokens; what was read again counts again. The counter stands in the settings."""
    tokens_out: float = math.nan
    cost: float = 0.0
    judge: float = math.nan
    """NaN where the judge was not asked, or in vain."""
    overflowed: float = math.nan
    length_cut: float = math.nan
    failure: str = ""
    """Failure of the infrastructure that ended the episode, if one did."""
    reward: float = math.nan
    set_f1: float = math.nan
    own: Mapping[str, float] = {}
    """The reward's own parts by name, unweighted, each summed over the episode."""
    no_action: str = ""
    """The first turn that was not a legal action, shortened, with the reason, where most turns of
    the episode were not."""

    @property
    def infra_error(self) -> bool:
        """True if the infrastructure, not the agent, ended the episode."""
        return self.end == "infra_error"

    @property
    def abstained(self) -> bool:
        """True if the agent refused, in words. Silence is no refusal."""
        return self.end == "answered" and is_abstention(self.answer)

    @property
    def truncated(self) -> bool:
        """True if a budget cut the episode before it was answered."""
        return self.end in CUT

    @property
    def invalid_rate(self) -> float:
        """Share of the turns that were not a legal action; NaN without turns."""
        return self.invalid / self.turns if self.turns else math.nan


METRICS: Mapping[str, bool] = {name: m.unit == "share" for name, m in EVALUATION.items()}
"""Every measure with a mean, and whether it lies in [0, 1] by definition. A reward's own parts
come in addition (:func:`own_metrics`)."""


def limits(metric: str) -> tuple[float, float]:
    """Return what no mean of a metric can lie beyond: a count not below 0, a rate not above 1;
    rewards may be anything."""
    known = metric in METRICS and metric != "reward"
    return 0.0 if known else -math.inf, 1.0 if METRICS.get(metric, False) else math.inf


def own_metric(rules: Mapping[str, Any]) -> str:
    """Return the metric by which an environment's agents are ranked: "reward" where the first
    search ends the episode (``one_search``), so that no answer is given, and where a part of the
    reward says so by ``ranks = True`` (it pays what was done, of which an answer tells too little),
    else "f1"."""
    reward = rules.get("reward", ())
    names = [reward] if isinstance(reward, str) else reward
    known = [REWARDS[name] for name in names if isinstance(name, str) and name in REWARDS]
    ranks = any(getattr(load_known(where), "ranks", False) for where in known)
    return "reward" if rules.get("one_search") or ranks else "f1"


def declared_shares(rules: Mapping[str, Any]) -> frozenset[str]:
    """Return the metrics that lie in [0, 1] because an environment's reward says so: its parts that
    declare ``unit = True``, and "reward" where one such part, or one measure that is a share, is
    all of it, with weight 1."""
    reward = rules.get("reward", ())
    names = {reward: 1.0} if isinstance(reward, str) else reward
    weights = names if isinstance(names, Mapping) else dict.fromkeys(names, 1.0)
    known = {n for n in weights if n in REWARDS and getattr(load_known(REWARDS[n]), "unit", False)}
    if len(weights) != 1:
        return frozenset(known)
    ((only, weight),) = weights.items()
    weight = weight.get("weight", 1) if isinstance(weight, Mapping) else weight
    whole = weight == 1 and (only in known or METRICS.get(only, False))
    return frozenset((*known, "reward") if whole else known)


def row_of(episode: Episode, usage: Mapping[str, float] | None = None) -> Row:
    """The row of a finished episode. An episode cut by a budget scores 0.

    ``usage``: what the agent's turns took (``tokens_in``, ``tokens_out``, ``cost``).

    Raises:
        EvaluationError: the episode still runs.
    """
    outcome, task, end = episode.outcome(), episode.config.task, episode.end
    if outcome is None or end is None:
        raise EvaluationError(f"episode {episode.config.episode_id} has not ended")
    parts, shown, took = outcome.parts, list(episode.seen), usage or {}
    gold = () if episode.self_search else task.evidence  # who writes its own results shows none
    return Row(
        task_id=task.id,
        family=task.family,
        hops=task.hops,
        em=parts["em"],
        f1=parts["f1"],
        cover_em=parts["cover_em"],
        evidence_recall=parts["evidence_recall"],
        searches=episode.queries,
        turns=len(episode.turns),
        invalid=int(parts["invalid"]),
        end=end,
        retries=episode.retries,
        answer=outcome.answer,
        evidence_precision=precision_at(shown, gold),
        evidence_mrr=reciprocal_rank(shown, gold),
        evidence_ndcg=ndcg_at(shown, dict.fromkeys(gold, 1)),
        should_abstain=task.should_abstain,
        accesses=int(parts["accesses"]),
        tokens_in=took.get("tokens_in", math.nan),
        tokens_out=took.get("tokens_out", math.nan),
        cost=took.get("cost", 0.0) + outcome.cost,
        overflowed=took.get("overflowed", math.nan),
        length_cut=took.get("length_cut", math.nan),
        failure=_failure(episode) if outcome.end == "infra_error" else "",
        reward=sum(turn.reward for turn in episode.turns),
        set_f1=outcome.set_f1 if task.items else math.nan,
        own={name: value for name, value in parts.items() if name not in (*MEASURES, "set_f1")},
        no_action=_no_action(episode) if 2 * parts["invalid"] > len(episode.turns) else "",
    )


def own_metrics(rows: Sequence[Row]) -> tuple[str, ...]:
    """Names of the reward's own parts, in the order of the rewards."""
    return tuple(dict.fromkeys(name for row in rows for name in row.own))


def _failure(episode: Episode) -> str:
    results = [result for turn in episode.turns for result in turn.results]
    failures = [result for result in results if isinstance(result, Failure)]
    return f"{failures[-1].kind}: {failures[-1].message}" if failures else ""


def _no_action(episode: Episode) -> str:
    for turn in episode.turns:
        if isinstance(turn.action, Invalid):
            written = " ".join(turn.text.split())
            shown = f"{written[:_SHOWN]} …" if len(written) > _SHOWN else written
            return f"{shown!r} ({turn.action.reason})"
    return ""


def column(rows: Sequence[Row], metric: str) -> NDArray[np.float64]:
    """A metric of every row (n,); NaN where it is missing or the infrastructure failed.

    Episodes that ended in ``infra_error`` say nothing about the agent; they are left out of means
    and counted by :func:`infra_by_searches`, because leaving them out favours agents that search
    less.
    """
    own = metric not in METRICS
    if own and metric not in (known := own_metrics(rows)):
        raise EvaluationError(unknown("metric", metric, [*METRICS, *known]))
    values = [
        math.nan if row.infra_error
        else row.own.get(metric, math.nan) if own
        else getattr(row, metric)
        for row in rows
    ]  # fmt: skip
    return np.array(values, dtype=np.float64)


class Means(Mapping[str, Interval]):
    """Mean and 95 % interval over questions of every metric, resampled when first asked for."""

    def __init__(
        self, rows: Sequence[Row], *, seed: int = 0, resamples: int = RESAMPLES,
        shares: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._rows, self._seed, self._resamples = rows, seed, resamples
        own = [name for name in own_metrics(rows) if name not in METRICS]
        self._units: dict[str, bool] = {**METRICS, **dict.fromkeys(own, False)}
        self._units |= {name: True for name in shares if name in self._units}
        self._found: dict[str, Interval] = {}

    def __getitem__(self, name: str) -> Interval:
        if name not in self._found:
            values, unit = column(self._rows, name), self._units[name]
            if unit and not METRICS.get(name, False):  # a wrapper may have changed what is paid
                unit = not ((values < 0) | (values > 1)).any()
            found = mean_interval(values, seed=self._seed, resamples=self._resamples, unit=unit)
            self._found[name] = found._replace(low=max(found.low, limits(name)[0]))
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)

    def __repr__(self) -> str:
        return repr(dict(self))


def by_family(rows: Sequence[Row], metric: str = "em") -> dict[str, float]:
    """Mean of a metric per task family, families in alphabetical order."""
    values = column(rows, metric)
    names = np.array([row.family for row in rows])
    return {name: mean_defined(values[names == name]) for name in sorted(set(names.tolist()))}


def infra_by_searches(rows: Sequence[Row]) -> dict[int, tuple[int, int]]:
    """Searches run → (episodes lost to the infrastructure, episodes), ascending."""
    out: dict[int, tuple[int, int]] = {}
    for row in sorted(rows, key=lambda r: r.searches):
        lost, total = out.get(row.searches, (0, 0))
        out[row.searches] = (lost + row.infra_error, total + 1)
    return out
