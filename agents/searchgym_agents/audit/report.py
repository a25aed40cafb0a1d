"""Shares of answerable questions, with intervals, by family and hops; as JSON, CSV and tables."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from searchgym.corpora.corpus import Corpus
from searchgym.errors import DataError
from searchgym.evaluation.intervals import Interval, proportion
from searchgym.storage.records import no_nan
from searchgym.types import SearchEngine, Task

from .searcher import Progress
from .verdicts import IN_CORPUS, REASONS, Verdict, judge

FORMATS = (".json", ".csv")


class GroupShares(NamedTuple):
    """Shares of one group of questions, with Wilson's intervals."""

    group: str
    questions: int
    """Number of questions that are judged."""
    apart: int
    """Number of questions left out: they are to be refused, or nothing is known of what they
    need."""
    in_corpus: Interval
    """Share whose evidence and answer the corpus holds."""
    one_search: Interval
    """Share whose evidence and answer are in the corpus and shown by one search."""
    within: Interval
    """Share whose evidence and answer one search shows, and so does the scripted searcher within
    the limit of turns."""


@dataclass(frozen=True)
class AnswerabilityReport:
    """Counts of the verdicts of :func:`judge`."""

    questions: str
    """Name of the question set."""
    corpus: str
    digest: str
    engine: str
    """Fingerprint."""
    k: int
    turns: int
    verdicts: tuple[Verdict, ...]

    def line(self, group: str, keep: Callable[[Verdict], bool] = lambda v: True) -> GroupShares:
        """The shares of the questions that ``keep`` keeps."""
        all_ = [v for v in self.verdicts if keep(v)]
        judged = [v for v in all_ if v.kind != "not judged"]
        n = len(judged)
        return GroupShares(
            group, n, len(all_) - n,
            proportion(sum(v.reason in IN_CORPUS for v in judged), n),
            proportion(sum(not v.reason and v.turns == 1 for v in judged), n),
            proportion(sum(not v.reason for v in judged), n),
        )  # fmt: skip

    def lines(self) -> list[GroupShares]:
        """All questions, then by family and by hops, where there are several."""
        out = [self.line("all")]
        families = sorted({v.family for v in self.verdicts})
        hops = sorted({v.hops for v in self.verdicts})
        kinds = sorted({v.kind for v in self.verdicts} - {"not judged"}, reverse=True)
        if len(kinds) > 1:
            names = {"stated": "answer stated", "aggregated": "yes/no or worked out"}
            out += [self.line(names[x], lambda v, x=x: v.kind == x) for x in kinds]  # type: ignore[misc]
        if len(families) > 1:
            out += [self.line(f"family {x}", lambda v, x=x: v.family == x) for x in families]  # type: ignore[misc]
        if len(hops) > 1:
            out += [self.line(f"hops {x}", lambda v, x=x: v.hops == x) for x in hops]  # type: ignore[misc]
        return out

    def reasons(self) -> dict[str, int]:
        """Questions per reason: those of :data:`REASONS` first, then why some are not judged."""
        counts = Counter(v.reason for v in self.verdicts if v.reason)
        order = [*(r for r in REASONS if counts[r]), *sorted(set(counts) - set(REASONS))]
        return {reason: counts[reason] for reason in order}

    def unanswerable(self) -> list[Verdict]:
        """The judged questions that cannot be answered, in the order of :data:`REASONS`."""
        unanswerable = [v for v in self.verdicts if v.reason in REASONS]
        return sorted(unanswerable, key=lambda v: REASONS.index(v.reason))

    def to_json(self) -> dict[str, Any]:
        """Settings, shares, reasons, and every question that cannot be answered."""
        return {
            "questions": self.questions, "corpus": self.corpus, "digest": self.digest,
            "engine": self.engine, "k": self.k, "turns": self.turns,
            "shares": [
                {**line._asdict(), **{n: _record(getattr(line, n)) for n in _SHARES}}
                for line in self.lines()
            ],
            "reasons": self.reasons(),
            "unanswerable": [asdict(v) for v in self.unanswerable()],
        }  # fmt: skip

    def save(self, path: Path) -> Path:
        """Write ``.json`` (everything) or ``.csv`` (one row per question, answerable ones too).

        Raises:
            DataError: another ending.
        """
        rows = [{**asdict(v), "queries": " | ".join(v.queries)} for v in self.verdicts]
        write_report(path, rows, self.to_json())
        return path


def write_report(path: Path, rows: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> None:
    """Write the record (``.json``) or the rows (``.csv``); ``DataError`` for another ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        text = json.dumps(no_nan(record), ensure_ascii=False, indent=1)
        path.write_text(text, encoding="utf-8")
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0] if rows else ()))
            writer.writeheader()
            writer.writerows(rows)
    else:
        raise DataError(f"{path}: reports are written as {' or '.join(FORMATS)}")


def measure_answerability(
    tasks: Sequence[Task],
    corpus: Corpus,
    engine: SearchEngine,
    *,
    k: int = 5,
    turns: int = 4,
    name: str = "questions",
    progress: Progress | None = None,
) -> AnswerabilityReport:
    """Judge every task (see :func:`judge`) and count."""
    verdicts = judge(tasks, corpus, engine, k=k, turns=turns, progress=progress)
    return AnswerabilityReport(
        name, corpus.name, corpus.digest, engine.fingerprint, k, turns, tuple(verdicts)
    )


_SHARES = ("in_corpus", "one_search", "within")


def _record(share: Interval) -> dict[str, Any]:
    part = round(share.mean * share.n) if share.n else 0
    return {"part": part, "of": share.n, "share": share.mean, "low": share.low, "high": share.high}
