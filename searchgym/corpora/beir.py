"""Retrieval test collections in BEIR's layout: passages, queries, graded judgements."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError, MissingExtraError
from ..storage.cache import cache_folder
from ..types import Passage
from .corpus import Corpus
from .lines import Line, Unique, id_of, read_lines, text_of
from .load import evidence_of, load_corpus, read_queries

Qrels = dict[str, dict[str, int]]


class Topics(NamedTuple):
    """A test collection. ``qrels[query id][passage id]`` is the grade (> 0: relevant); a passage
    that the corpus lacks cannot be found and counts all the same, as in trec_eval."""

    corpus: Corpus
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]
    notes: tuple[str, ...] = ()
    """Oddities of its files."""


def load_beir(directory: str | Path, *, split: str = "test", name: str | None = None) -> Topics:
    """Read ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv`` (each may be gzipped; a
    single ``qrels.tsv`` will do). Only judged queries are returned. See :func:`load_topics`."""
    folder = Path(directory)
    corpus = load_corpus(_one_of(folder, "corpus.jsonl"), name=name or folder.resolve().name)
    judged = _one_of(folder, f"qrels/{split}.tsv", "qrels.tsv")
    return load_topics(corpus, _one_of(folder, "queries.jsonl"), judged)


def load_topics(corpus: Corpus, queries: str | Path, qrels_file: str | Path | None) -> Topics:
    """Queries and judgements over passages, with the oddities of published files (``notes``).

    Judged passages that are not in the corpus count, judged queries that are not among the queries
    are left out, and a judgement may be repeated, though not with another grade.

    Args:
        corpus: The passages.
        queries: Records with ``_id`` (or ``id``) and ``text`` (or ``question``), in any file that
            ``read_queries`` reads; answers are not needed.
        qrels_file: BEIR's or TREC's judgements; None: the passages that the queries'
            ``supporting_ids`` name, each of grade 1.

    Raises:
        DataError: with file and line; or nothing is judged, or nothing of what is judged is there.
    """
    texts: dict[str, str] = {}
    qrels: Qrels = {}
    for key, where, record, text in _queries(Path(queries)):
        texts[key] = text
        if qrels_file is None:
            for passage in evidence_of(record, where):
                add_judgement(qrels, where, key, passage, 1)
    if not texts:
        raise DataError(f"{queries}: no queries")
    if qrels_file is None and not qrels:
        raise DataError(f"{queries}: no question names its 'supporting_ids': give --qrels FILE")
    if qrels_file is not None:
        for where, query, passage, grade in read_judgements(Path(qrels_file)):
            add_judgement(qrels, where, query, passage, grade)
        if not qrels:
            raise DataError(f"{qrels_file}: no judgements")
    return _topics(corpus, texts, qrels, qrels_file or queries)


def add_judgement(qrels: Qrels, where: object, query: str, passage: str, grade: int) -> None:
    """Add a grade; it may be there already.

    Raises:
        DataError: another one is.
    """
    if (before := qrels.setdefault(query, {}).setdefault(passage, grade)) != grade:
        raise DataError(
            f"{where}: {passage!r} is judged twice for query {query!r}: {before}, now {grade}"
        )


def _topics(corpus: Corpus, texts: dict[str, str], qrels: Qrels, source: object) -> Topics:
    kept = {query: grades for query, grades in qrels.items() if query in texts}
    judged = {passage for grades in kept.values() for passage in grades}
    notes = []
    for what, place, named, absent in (
        ("queries", "among the queries; they are left out", qrels, qrels.keys() - kept.keys()),
        ("passages", "in the corpus; they count as not found", judged,
         {passage for passage in judged if passage not in corpus}),
    ):  # fmt: skip
        if absent:
            some = ", ".join(map(repr, sorted(absent)[:3])) + ", …" * (len(absent) > 3)
            said = f"{len(absent):,} of {len(named):,} judged {what} are not {place}: {some}"
            if len(absent) == len(named):
                raise DataError(f"{source}: {said}")
            notes.append(said)
    return Topics(corpus, {key: texts[key] for key in texts if key in kept}, kept, tuple(notes))


def load_ir_dataset(name: str) -> Topics:
    """A test collection of the package ir_datasets ("beir/scifact/test", "vaswani", …), which
    downloads what it does not have.

    Downloads go to where the package keeps them (``IR_DATASETS_HOME``, or ``~/.ir_datasets`` if it
    is there already), else to the user's cache.

    Raises:
        MissingExtraError: the package is not installed.
        DataError: it knows no such collection, or one without passages, queries or judgements.
    """
    if not (Path.home() / ".ir_datasets").exists():  # the package makes it on its own
        os.environ.setdefault("IR_DATASETS_HOME", str(cache_folder("collections")))
    try:
        import ir_datasets
    except ImportError as error:
        raise MissingExtraError(f"the collection {name!r} (ir_datasets)", "ir-datasets") from error
    try:
        collection = ir_datasets.load(name)
    except KeyError:
        raise DataError(
            f"{name!r} is neither a path that exists nor a collection of ir_datasets, such as "
            "beir/scifact/test"
        ) from None
    if lacking := [
        part for part in ("docs", "queries", "qrels") if not getattr(collection, f"has_{part}")()
    ]:
        raise DataError(f"{name} of ir_datasets has no {' and no '.join(lacking)}")
    passages = []
    for doc in collection.docs_iter():
        title = str(getattr(doc, "title", ""))
        text = str(doc.text) if hasattr(doc, "text") else doc.default_text()
        passages.append(Passage(doc.doc_id, title, text, f"corpus://{name}/{doc.doc_id}"))
    qrels: Qrels = {}
    for row in collection.qrels_iter():
        add_judgement(qrels, name, row.query_id, row.doc_id, int(row.relevance))
    queries = {query.query_id: query.default_text() for query in collection.queries_iter()}
    return _topics(Corpus(name, passages), queries, qrels, name)


def _queries(path: Path) -> Iterator[tuple[str, Line, dict[str, Any], str]]:
    """Id, place, record and text of each query; those of other files than JSON lines may lack an
    id, and are called by the file's name and the line."""
    lines = path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    unique = Unique()
    for where, record in read_queries(path):
        own_id = lines or "id" in record or "_id" in record
        key = id_of(record, where) if own_id else f"{path.name.split('.')[0]}-{where.number}"
        unique.check(key, where)
        names = ("text", "question") if lines else ("question", "text")
        name = next((name for name in names if name in record), "question")
        yield key, where, record, text_of(record, name, where).strip()


def read_judgements(path: Path) -> list[tuple[Line, str, str, int]]:
    """Read rows ``query, passage, grade`` (BEIR, with header) or ``query, 0, passage, grade``
    (TREC).

    Raises:
        DataError: with file and line.
    """
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
