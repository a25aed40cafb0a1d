"""Retrieval test collections in BEIR's layout: passages, queries, graded judgements."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from .corpus import Corpus
from .lines import Line, Unique, id_of, read_json, read_lines, text_of
from .load import load_corpus


class Topics(NamedTuple):
    """A test collection. ``qrels[query id][passage id]`` is the grade (> 0: relevant)."""

    corpus: Corpus
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def load_beir(directory: str | Path, *, split: str = "test", name: str | None = None) -> Topics:
    """Read ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv`` (each may be gzipped; a
    single ``qrels.tsv`` will do). Only judged queries are returned. Raises ``DataError``."""
    folder = Path(directory)
    corpus = load_corpus(_one_of(folder, "corpus.jsonl"), name=name or folder.name)
    texts: dict[str, str] = {}
    unique = Unique()
    for where, record in read_json(_one_of(folder, "queries.jsonl")):
        key = id_of(record, where)
        unique.check(key, where)
        texts[key] = text_of(record, "text" if "text" in record else "question", where)
    qrels: dict[str, dict[str, int]] = {}
    for where, query, passage, grade in _judgements(
        _one_of(folder, f"qrels/{split}.tsv", "qrels.tsv")
    ):
        if query not in texts:
            raise DataError(f"{where}: query {query!r} is not among the queries")
        if passage not in corpus:
            raise DataError(f"{where}: passage {passage!r} is not in the corpus")
        if passage in qrels.setdefault(query, {}):
            raise DataError(f"{where}: query {query!r}, passage {passage!r} is judged twice")
        qrels[query][passage] = grade
    if not qrels:
        raise DataError(f"{folder}: no judgements")
    return Topics(corpus, {key: texts[key] for key in texts if key in qrels}, qrels)


def _judgements(path: Path) -> list[tuple[Line, str, str, int]]:
    """Rows ``query, passage, grade`` (BEIR, with header) or ``query, 0, passage, grade`` (TREC)."""
    rows: list[tuple[Line, str, str, int]] = []
    for where, line in read_lines(path):
        # BEIR's columns are parted by tabs, and its ids may hold blanks; TREC's by either
        cells = [c.strip() for c in line.rstrip().split("\t")] if "\t" in line else line.split()
        if where.number == 1 and cells[-1:] == ["score"]:
            continue
        if len(cells) not in (3, 4):
            raise DataError(f"{where}: expected query, passage and grade, got {line[:80]!r}")
        try:
            rows.append((where, cells[0], cells[-2], int(cells[-1])))
        except ValueError:
            raise DataError(f"{where}: the grade {cells[-1]!r} is not a whole number") from None
    return rows


def _one_of(folder: Path, *names: str) -> Path:
    tried = [folder / (name + end) for name in names for end in ("", ".gz")]
    for path in tried:
        if path.is_file():
            return path
    raise DataError(f"{folder} has none of {', '.join(str(p.relative_to(folder)) for p in tried)}")
