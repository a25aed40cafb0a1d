"""Retrieval test collections in BEIR's layout: passages, queries, graded judgements."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError, MissingExtraError
from ..types import Passage
from ..utils.user_cache import cache_folder
from .corpus import Corpus
from .lines import Line, Unique, id_of, read_lines, text_of
from .load import evidence_of, load_corpus, read_queries


class Topics(NamedTuple):
    """A test collection. ``qrels[query id][passage id]`` is the grade (> 0: relevant)."""

    corpus: Corpus
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def load_beir(directory: str | Path, *, split: str = "test", name: str | None = None) -> Topics:
    """Read ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv`` (each may be gzipped; a
    single ``qrels.tsv`` will do). Only judged queries are returned. Raises ``DataError``."""
    folder = Path(directory)
    corpus = load_corpus(_one_of(folder, "corpus.jsonl"), name=name or folder.resolve().name)
    judged = _one_of(folder, f"qrels/{split}.tsv", "qrels.tsv")
    return load_topics(corpus, _one_of(folder, "queries.jsonl"), judged)


def load_topics(corpus: Corpus, queries: str | Path, qrels_file: str | Path | None) -> Topics:
    """Queries and judgements over passages.

    Args:
        corpus: The passages.
        queries: Records with ``_id`` (or ``id``) and ``text`` (or ``question``), in any file that
            ``read_queries`` reads; answers are not needed.
        qrels_file: BEIR's or TREC's judgements; None: the passages that the queries'
            ``supporting_ids`` name, each of grade 1.

    Raises:
        DataError: with file and line; or nothing is judged.
    """
    texts: dict[str, str] = {}
    gold: dict[str, tuple[str, ...]] = {}
    for key, where, record, text in _queries(Path(queries)):
        texts[key] = text
        if qrels_file is None and (named := evidence_of(record, where)):
            gold[key] = named
            if absent := [p for p in named if p not in corpus]:
                raise DataError(f"{where}: passage {absent[0]!r} is not in the corpus")
    if not texts:
        raise DataError(f"{queries}: no queries")
    if qrels_file is None:
        if not gold:
            raise DataError(f"{queries}: no question names its 'supporting_ids': give --qrels FILE")
        return Topics(
            corpus,
            {key: texts[key] for key in gold},
            {key: dict.fromkeys(named, 1) for key, named in gold.items()},
        )
    qrels: dict[str, dict[str, int]] = {}
    for where, query, passage, grade in _judgements(Path(qrels_file)):
        if query not in texts:
            raise DataError(f"{where}: query {query!r} is not among the queries")
        if passage not in corpus:
            raise DataError(f"{where}: passage {passage!r} is not in the corpus")
        if passage in qrels.setdefault(query, {}):
            raise DataError(f"{where}: query {query!r}, passage {passage!r} is judged twice")
        qrels[query][passage] = grade
    if not qrels:
        raise DataError(f"{qrels_file}: no judgements")
    return Topics(corpus, {key: texts[key] for key in texts if key in qrels}, qrels)


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
    qrels: dict[str, dict[str, int]] = {}
    for row in collection.qrels_iter():
        qrels.setdefault(row.query_id, {})[row.doc_id] = int(row.relevance)
    queries = {query.query_id: query.default_text() for query in collection.queries_iter()}
    return Topics(
        Corpus(name, passages),
        {key: text for key, text in queries.items() if key in qrels},
        {key: grades for key, grades in qrels.items() if key in queries},
    )


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
