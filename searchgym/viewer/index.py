"""An index of a run's episodes beside it: what lists, filters and searches need, and where each
episode's bytes are. Trajectories are never held: a page reads the one it shows.

Built once; a file that grew is read on from where it was left, one that changed otherwise is read
anew. SQLite, with FTS5 for words.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from .files import Source, sources
from .formats import LOG, blocks, parse
from .record import Record
from .schema import APPLICATION, INDEXES, TABLES, VERSION

NAME = ".searchgym-view.sqlite"
MOST_WORDS = 200_000
"""Characters of an episode that can be found by words."""
_BATCH = 500
_MARK = 4096
"""Bytes at both ends of what was read, by which it is known again."""
Progress = Callable[[int], object]


class Index:
    """The episodes of a run (a folder or one file).

    Args:
        progress: Told how many bytes more have been read while the index is built.

    Raises:
        DataError: nothing there is a trajectory, or a record is broken.
    """

    def __init__(self, run: Path, progress: Progress | None = None) -> None:
        self.run = run.resolve()
        self.sources = sources(self.run)
        self.path = _place(self.run)
        self.version = 0
        """Goes up when episodes are added or removed."""
        self._seen: dict[str, tuple[int, int]] = {}
        self._local = threading.local()
        self._writing = threading.Lock()
        self._prepare()
        self.refresh(progress)

    # --- reading ------------------------------------------------------------------------------
    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """The rows of a SELECT; any thread."""
        return self._connection().execute(sql, values).fetchall()

    def record(self, key: str) -> Record | None:
        """An episode, read from its file."""
        found = self.rows(
            "SELECT e.*, f.name, f.kind, f.agent AS of_file, f.step AS file_step FROM episodes e "
            "JOIN files f ON f.id = e.file WHERE key = ?",
            (key,),
        )
        if not found:
            return None
        row = found[0]
        path = self._root / row["name"]
        with path.open("rb") as file:
            file.seek(row["offset"])
            data = file.read(row["length"])
        source = Source(path, row["name"], row["kind"], row["of_file"], row["file_step"])
        return self._parse(data, source, row["offset"])

    def raw(self, key: str, most: int) -> str:
        """The beginning of an episode's bytes as the file has them."""
        row = self.rows(
            "SELECT name, offset, length FROM episodes e JOIN files f ON f.id = e.file "
            "WHERE key = ?", (key,),
        )[0]  # fmt: skip
        with (self._root / row["name"]).open("rb") as file:
            file.seek(row["offset"])
            return file.read(min(row["length"], most)).decode("utf-8", "replace")

    def size(self, key: str) -> int:
        """Bytes of an episode."""
        (row,) = self.rows("SELECT length FROM episodes WHERE key = ?", (key,))
        return int(row["length"])

    # --- writing ------------------------------------------------------------------------------
    def refresh(self, progress: Progress | None = None) -> None:
        """Read what is new in the files. The first failure is raised; what was read stays."""
        with self._writing:
            now = {s.name: ((st := s.path.stat()).st_size, st.st_mtime_ns) for s in self.sources}
            if now == self._seen:
                return
            db = self._connection()
            known = {row["name"]: row for row in self.rows("SELECT * FROM files")}
            here = {source.name for source in self.sources}
            for name in known.keys() - here:
                self._forget(db, known[name]["id"])
            for source in self.sources:
                size = source.path.stat().st_size
                row = known.get(source.name)
                if (
                    row is not None
                    and row["kind"] == source.kind
                    and (row["mark"] == _mark(source.path, row["done"]))
                ):
                    if size == row["done"]:
                        continue
                    if source.kind != LOG:
                        self._read(db, source, row["id"], row["done"], progress)
                        continue
                if row is not None:
                    self._forget(db, row["id"])
                made = db.execute(
                    "INSERT INTO files (name, kind, agent, step, done, mark) VALUES (?,?,?,?,0,'')",
                    (source.name, source.kind, source.agent, source.step),
                )
                self._read(db, source, int(made.lastrowid or 0), 0, progress)
            db.executescript(INDEXES)
            if self.version and not known:
                db.execute("ANALYZE")
            self._seen = now

    def _read(
        self, db: sqlite3.Connection, source: Source, file: int, start: int,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        told = done = start
        batch: list[tuple[Any, ...]] = []
        words: list[str] = []

        def write() -> None:
            nonlocal told
            with db:
                for row, text in zip(batch, words, strict=True):
                    made = db.execute(_INSERT, row)
                    db.execute(
                        "INSERT INTO words (rowid, body) VALUES (?, ?)", (made.lastrowid, text)
                    )
                db.execute(
                    "UPDATE files SET done = ?, mark = ? WHERE id = ?",
                    (done, _mark(source.path, done), file),
                )
            batch.clear()
            words.clear()
            self.version += 1
            if progress is not None:
                progress(done - told)
            told = done

        number = self.rows("SELECT count(*) AS n FROM episodes WHERE file = ?", (file,))[0]["n"]
        for offset, data, then in blocks(source.path, source.kind, start):
            record = self._parse(data, source, offset)
            key = _key(source.name, number, record.id)
            batch.append((file, offset, len(data), key, *_columns(record)))
            words.append(_words(record))
            number += 1
            if then is None:  # a line is noted whole or not at all
                continue
            done = then
            if len(batch) >= _BATCH:
                write()
        if source.kind == LOG:
            done = source.path.stat().st_size  # what follows the last episode is nobody's
        write()

    def _parse(self, data: bytes, source: Source, offset: int) -> Record:
        record = parse(data, source.kind, f"{source.path} at byte {offset:,}")
        record.agent = record.agent or source.agent
        if record.step is None:
            record.step = source.step
        return record

    def _forget(self, db: sqlite3.Connection, file: int) -> None:
        with db:
            db.execute("DELETE FROM episodes WHERE file = ?", (file,))
            db.execute("DELETE FROM files WHERE id = ?", (file,))
            if not db.execute("SELECT EXISTS (SELECT 1 FROM episodes)").fetchone()[0]:
                db.execute("INSERT INTO words (words) VALUES ('delete-all')")
        self.version += 1

    # --- the file -----------------------------------------------------------------------------
    @property
    def _root(self) -> Path:
        return self.run.parent if self.run.is_file() else self.run

    def _prepare(self) -> None:
        try:
            with contextlib.closing(sqlite3.connect(self.path)) as db:
                app = db.execute("PRAGMA application_id").fetchone()[0]
                version = db.execute("PRAGMA user_version").fetchone()[0]
                empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path} is no index ({error}); remove it") from error
        if (app, version) == (APPLICATION, VERSION):
            return
        if not empty and app != APPLICATION:
            raise DataError(f"{self.path} is a database of something else; move it")
        for path in (self.path, *(Path(f"{self.path}{end}") for end in ("-wal", "-shm"))):
            path.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(TABLES)
            db.execute(f"PRAGMA user_version = {VERSION}")

    def _connection(self) -> sqlite3.Connection:
        if (db := getattr(self._local, "db", None)) is None:
            db = self._local.db = sqlite3.connect(self.path, timeout=30)
            db.row_factory = sqlite3.Row
            for pragma in ("synchronous = NORMAL", "mmap_size = 1073741824", "cache_size = -32768"):
                db.execute(f"PRAGMA {pragma}")
        return db


_COLUMNS = (
    "file", "offset", "length", "key", "episode", "task", "agent", "step", "family", "hops",
    "outcome", "ending", "reward", "correct", "recall", "turns", "searches", "tools", "problems",
    "parent", "branched", "tokens", "question", "answer", "gold",
)  # fmt: skip
_INSERT = f"INSERT INTO episodes ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


def _columns(record: Record) -> tuple[Any, ...]:
    """Return the values of the columns after ``key`` in :data:`_COLUMNS`. Lists are kept between
    spaces, to be found by ``LIKE '% one %'``."""
    tools = dict.fromkeys(tool for turn in record.turns for tool in turn.tools)
    parent, branched = record.parent or (None, None)
    return (
        record.id, record.task, record.agent, record.step, record.family, record.hops,
        record.outcome, record.end, _number(record.reward), _number(record.correct),
        _number(record.recall), len(record.turns), record.searches, f" {' '.join(tools)} ",
        f" {' '.join(record.problems)} ", parent, branched, sum(map(len, record.tokens)),
        record.question[:1000], record.answer[:500],
        json.dumps([a[:500] for a in record.answers[:20]]),
    )  # fmt: skip


def _key(file: str, number: int, episode: str) -> str:
    """Return the key of an episode in addresses; the same whenever an index is built."""
    return hashlib.sha256(f"{file}\0{number}\0{episode}".encode()).hexdigest()[:12]


def _number(value: float | None) -> float | None:
    return None if value is None or value != value else float(value)


def _words(record: Record) -> str:
    """Text of all that was asked, written and shown."""
    parts = [record.question, record.answer, *record.answers, record.id, record.task]
    for turn in record.turns:
        parts += [turn.text, *(o.text for o in turn.observations), *turn.failures]
        parts += [hit.id for hit in turn.hits]
    return "\n".join(parts)[:MOST_WORDS]


def _mark(path: Path, done: int) -> str:
    """Digest of both ends of the first ``done`` bytes."""
    with path.open("rb") as file:
        head = file.read(min(_MARK, done))
        file.seek(max(0, done - _MARK))
        tail = file.read(min(_MARK, done))
    return hashlib.sha256(head + tail).hexdigest()


def _place(run: Path) -> Path:
    """Path of the index: beside the run or, where that cannot be written to, in the user's
    cache."""
    folder, name = (run, NAME) if run.is_dir() else (run.parent, f".{run.name}{NAME}")
    if os.access(folder, os.W_OK):
        return folder / name
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "searchgym" / "view"
    cache.mkdir(parents=True, exist_ok=True)
    return cache / f"{hashlib.sha256(str(run).encode()).hexdigest()[:16]}.sqlite"
