"""Passages and questions from files: JSONL, JSON, CSV, TSV, parquet, Search-R1's and FlashRAG's
formats; other files are documents (``corpora.documents``).

Every fault is a ``DataError`` with file and line; nothing half-loaded is ever returned.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from ..errors import DataError
from ..types import ABSTAIN, Passage, Split, Task
from .corpus import Corpus
from .lines import (
    MAX_LINE,
    Line,
    NotUTF8Error,
    Unique,
    id_of,
    is_tsv,
    missing,
    open_regular,
    read_csv,
    read_json,
    read_lines,
    read_table,
    read_text,
    read_tsv,
    text_of,
)
from .parquet import is_parquet, plain_record, read_parquet

_PASSAGE_COLUMNS = {2: ("id", "text"), 3: ("id", "text", "title")}  # MS MARCO; DPR
_QUESTION_COLUMNS = {2: ("question", "answers"), 3: ("id", "question", "answers")}
_ANSWERS = ("golden_answers", "answers", "answer")
_FAULTS = 5
"""Broken questions that are named at once."""
_TASK_KEYS = frozenset(
    {"id", "_id", "question", *_ANSWERS, "supporting_ids", "hops"}
    | {"evidence", "queries", "family", "items", "ordered"}  # as saved task sets call them
)


def load_corpus(
    source: str | Path | Iterable[str | Path], *, name: str | None = None, url: str | None = None
) -> Corpus:
    """Load passages from one or several files, from a folder in BEIR's layout, or from documents.

    A folder or a file that holds no records with ``text`` is read by ``load_documents``. A record
    has ``id`` (or ``_id``), ``text`` and optionally ``title`` and ``url``; or, as in
    Search-R1's wiki-18, ``id`` and ``contents`` (:func:`split_contents`). TSV rows are
    ``id, text[, title]`` unless a header says otherwise. ``url``: pattern for passages without one,
    with ``{title}`` and ``{id}``; by default ``corpus://name/id``. Raises ``DataError``.
    """
    if isinstance(source, str | Path):
        passages_file = beir_passages(Path(source))
        if passages_file is None and holds_documents(Path(source)):
            from .documents import load_documents

            return load_documents(source, name=name)
        name = name or (Path(source).resolve().name if passages_file else None)
        source = passages_file or source
    paths = [Path(source)] if isinstance(source, str | Path) else [Path(p) for p in source]
    if not paths:
        raise DataError("no passage file was named")
    name = name or paths[0].name.split(".")[0]
    passages: list[Passage] = []
    unique = Unique()
    for where, passage in _passages(paths, name, url):
        unique.check(passage.id, where)
        passages.append(passage)
    if not passages:
        raise DataError(f"{', '.join(map(str, paths))}: no passages")
    return Corpus(name, passages)


def stream_passages(
    paths: Sequence[Path], *, name: str, url: str | None = None
) -> Iterator[Passage]:
    """Read passages one after the other and keep none; see ``load_corpus``. Ids are not compared.

    Raises:
        DataError: a record is broken.
    """
    for _, passage in _passages(paths, name, url):
        yield passage


def _passages(paths: Sequence[Path], name: str, url: str | None) -> Iterator[tuple[Line, Passage]]:
    for path in paths:
        for where, record in _records(path, _PASSAGE_COLUMNS):
            yield where, passage_of(record, where, name, url)


def beir_passages(path: Path) -> Path | None:
    """The file of passages of a folder in BEIR's layout; None for anything else."""
    candidates = (path / f"corpus.jsonl{end}" for end in ("", ".gz"))
    return next((file for file in candidates if file.is_file()), None)


def holds_documents(path: Path) -> bool:
    """Return whether a path is read as documents: a folder, a text, a page, or rows that are no
    records with an id and a text."""
    if path.is_dir():
        return True
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    try:
        return _holds_no_records(path, ending)
    except NotUTF8Error:  # documents may be in any encoding, records are in UTF-8
        if path.suffix.lower() not in (".csv", ".txt"):
            raise
        return not _head_of_records(path, ending)


def _holds_no_records(path: Path, ending: str) -> bool:
    if ending in (".csv", ".json"):
        found: Iterable[str]
        if ending == ".csv":  # its header, since the first row may lack a text
            found = next(read_table(read_text(path)), (1, ["id", "text"]))[1]
        else:
            found = next(iter(read_json(path)), (None, {"id": "", "text": ""}))[1]
        names = {name.strip().lower() for name in found}
        return not ({"id", "_id"} & names and {"text", "contents"} & names)
    if ending == ".txt":  # passages a line each have tabs
        return "\t" not in next(iter(read_lines(path)), (None, ""))[1]
    return ending in (".md", ".markdown", ".rst", ".html", ".htm", ".pdf", ".docx")


def _head_of_records(path: Path, ending: str) -> bool:
    """Return whether the first line of a text that is not UTF-8 says that passages follow."""
    with open_regular(path) as file:
        head = file.readline(MAX_LINE).replace(b"\0", b"").decode("latin-1")
    if ending == ".txt":
        return "\t" in head
    columns = set(re.findall(r"\w+", head.lower()))
    return bool({"id", "_id"} & columns and {"text", "contents"} & columns)


def load_questions(
    source: str | Path, *, split: Split | None = None, skip_split_answers: bool = False
) -> list[Task]:
    """Load questions with answers as tasks of family "real", in the file's order.

    JSON lines, a JSON array, an object with one (``{"data": […]}``), CSV, TSV, or parquet; parquet
    also in Search-R1's layout (``corpora.parquet``).

    A record has ``question`` and ``answers`` (or ``answer``, or FlashRAG's ``golden_answers``; a
    text or a list), and optionally ``id`` (else the file's name and the line), ``supporting_ids``
    (gold passages in hop order) and ``hops``; every other key is kept in ``Task.meta``. Up to five
    broken records are named at once. TSV rows are ``[id,] question, answers``, the answers a JSON
    or Python list. ``skip_split_answers`` leaves out records whose answer list was torn into single
    characters by whoever made the file; otherwise such a record is an error.

    Raises:
        DataError: see above.
    """
    path = Path(source)
    tasks: list[Task] = []
    unique = Unique()
    faults: list[str] = []
    records = _records(path, _QUESTION_COLUMNS)
    for where, record in map(plain_record, records) if is_parquet(path) else records:
        try:
            if _torn(record):
                if skip_split_answers:
                    continue
                raise DataError(f"{where}: 'answers' is a list torn into single characters")
            task = task_of(record, where, split, key=f"{path.name.split('.')[0]}-{where.number}")
            unique.check(task.id, where)
        except DataError as error:
            faults.append(str(error))
            if len(faults) == _FAULTS:
                break
            continue
        tasks.append(task)
    if faults:
        raise DataError("; ".join(faults))
    if not tasks:
        raise DataError(f"{path}: no questions")
    return tasks


def passage_of(record: dict[str, Any], where: Line, name: str, url: str | None = None) -> Passage:
    """A passage from one record; see ``load_corpus``."""
    key = id_of(record, where)
    title = text_of(record, "title", where) if record.get("title") is not None else ""
    if "contents" in record and "text" not in record:
        title, text = split_contents(text_of(record, "contents", where), title)
    else:
        text = text_of(record, "text", where)
    if record.get("url"):
        return Passage(key, title, text, text_of(record, "url", where))
    made = (url if url and title else None) or f"corpus://{quote(name)}/{{id}}"
    shown = quote(title.replace(" ", "_"), safe="/:,()!'*@$;~", errors="replace")
    try:
        made = made.format(title=shown, id=quote(key, errors="replace"))
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        raise DataError(
            f"the pattern url={url!r} holds more than {{title}} and {{id}}: {error!r}"
        ) from None
    return Passage(key, title, text, made)


def split_contents(contents: str, title: str = "", *, quoted: bool = False) -> tuple[str, str]:
    """Part ``"\\"Title\\"\\ntext"``, with the quotes or without, into both. A single line is text.

    Args:
        contents: What is to be parted.
        title: The title, if it is known: then only a first line that repeats it is none of the
            text.
        quoted: Whether only a line in quotes is a title.
    """
    first, line, rest = contents.partition("\n")
    head = first.strip()
    marked = len(head) > 1 and head[0] == head[-1] == '"'
    named = head[1:-1] if marked else head
    if not line or (named != title if title else quoted and not marked):
        return title, contents
    return named, rest


def task_of(
    record: dict[str, Any], where: Line, split: Split | None = None, *, key: str | None = None
) -> Task:
    """A task from one record; see ``load_questions``. ``key``: its id where it has none."""
    own_id = key is None or "id" in record or "_id" in record
    question = text_of(record, "question", where).strip()
    if not question:
        raise DataError(f"{where}: 'question' is empty")
    said = next((name for name in _ANSWERS if name in record), "answers")
    if isinstance(record.get(said), (int, float)) and said == "answer":
        record = {**record, said: json.dumps(record[said])}
    answers = _texts(record, said, where)
    if not answers and "answer_items" in record:  # a list to be given whole (FanOutQA)
        answers = ("; ".join(_texts(record, "answer_items", where)),)
    if not any(answer.strip() for answer in answers):
        raise DataError(f"{where}: no answer in {said!r}; a refusal is written as [{ABSTAIN!r}]")
    hops = record.get("hops", 1)
    if isinstance(hops, str) and hops.isdecimal() and len(hops) < 9:
        hops = int(hops)
    if not isinstance(hops, int) or isinstance(hops, bool) or hops < 1:
        raise DataError(f"{where}: 'hops' must be a whole number from 1, got {hops!r}")
    own = record.get("split")
    return Task(
        id=id_of(record, where) if own_id else str(key),
        question=question,
        answers=tuple(dict.fromkeys(a for a in answers if a.strip())),
        evidence=evidence_of(record, where),
        queries=_texts(record, "queries", where) if record.get("queries") else (),
        family=text_of(record, "family", where) if record.get("family") else "real",
        hops=hops,
        split=split or (own if own in get_args(Split) else "test"),  # type: ignore[arg-type]
        should_abstain=answers == (ABSTAIN,),
        meta={k: v for k, v in record.items() if k not in _TASK_KEYS},
        items=_items(record, where),
        ordered=record.get("ordered") is True,
    )


def evidence_of(record: dict[str, Any], where: Line) -> tuple[str, ...]:
    """The gold passages that a record of a question names, in hop order."""
    gold = "supporting_ids" if record.get("supporting_ids") else "evidence"
    return _texts(record, gold, where) if record.get(gold) else ()


def read_queries(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Records of queries, which need no answers: JSON lines, a JSON array, CSV, TSV, or parquet as
    in ``load_questions``. TSV rows are ``id, text``, or ``id, question, answers``, unless a header
    says otherwise.

    Raises:
        DataError: with file and line.
    """
    records = _records(path, {**_QUESTION_COLUMNS, 2: ("id", "text")})
    return map(plain_record, records) if is_parquet(path) else records


def _records(
    path: Path, columns: dict[int, tuple[str, ...]]
) -> Iterator[tuple[Line, dict[str, Any]]]:
    if is_parquet(path):
        return read_parquet(path)
    if path.name.removesuffix(".gz").endswith(".csv"):
        return read_csv(path)
    return read_tsv(path, columns) if is_tsv(path) else read_json(path)


def _items(record: dict[str, Any], where: Line) -> tuple[tuple[str, ...], ...]:
    given = record.get("items") or []
    if not isinstance(given, list) or not all(isinstance(forms, list) and forms for forms in given):
        raise DataError(
            f"{where}: 'items' must be a list of lists of accepted forms, got {given!r:.80}"
        )
    return tuple(_texts({"items": forms}, "items", where) for forms in given)


def _texts(record: dict[str, Any], key: str, where: Line) -> tuple[str, ...]:
    if key not in record:
        raise missing(record, key, where)
    value = record[key]
    if isinstance(value, str):
        value = _parse_list(value)
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise DataError(
            f"{where}: {key!r} must be a list of texts, got {value!r:.80}{_in_quotes(value)}"
        )
    return tuple(value)


def _in_quotes(value: Any) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    if not values or not all(isinstance(v, str | int | float) for v in values):
        return ""
    texts = [v if isinstance(v, str) else json.dumps(v) for v in values]
    return f"; in quotes they are texts: {json.dumps(texts, ensure_ascii=False):.80}"


def _parse_list(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        for parse in (json.loads, ast.literal_eval):  # DPR's files hold Python lists
            try:
                value = parse(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(value, list):
                return value
    return [text]


def _torn(record: dict[str, Any]) -> bool:
    answers = record.get("answers")
    return (
        isinstance(answers, list)
        and len(answers) > 2
        and answers[0] == "["
        and all(isinstance(a, str) and len(a) == 1 for a in answers)
    )
