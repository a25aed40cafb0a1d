"""An index of a run's episodes: what lists, filters and searches need, and where each episode's
bytes are. Trajectories are never held: a page reads the one it shows.

It lies in the user's cache, never beside the run: what somebody else put into a run's folder is no
index. Built once; a file that grew is read on from where it was left, one that changed otherwise,
wherever it did, is read anew. Records that cannot be read are counted. SQLite, with FTS5 for words.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..storage.cache import cache_folder, used
from .formats import LOG, Source, blocks, parse, sources
from .record import Record

MOST_WORDS = 200_000
"""Characters of an episode that can be found by words."""
VERSION = 2
"""Version of the tables and of what is written into them; another version's index is built anew."""
APPLICATION = 0x53475657
"""``PRAGMA application_id`` ("SGVW")."""
# Ids are never used twice: words of episodes that were removed stay behind and find nothing.
TABLES = """
CREATE TABLE files (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, agent TEXT NOT NULL,
  step INTEGER, done INTEGER NOT NULL, mark TEXT NOT NULL, stat TEXT NOT NULL
);
CREATE TABLE broken (file INTEGER NOT NULL, offset INTEGER NOT NULL, told TEXT NOT NULL);
CREATE TABLE episodes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  file INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
  key TEXT NOT NULL, episode TEXT NOT NULL, task TEXT NOT NULL, agent TEXT NOT NULL, step INTEGER,
  family TEXT NOT NULL, hops INTEGER, outcome TEXT NOT NULL, ending TEXT NOT NULL,
  reward REAL, correct REAL, recall REAL, turns INTEGER NOT NULL, searches INTEGER NOT NULL,
  tools TEXT NOT NULL, problems TEXT NOT NULL, parent TEXT, branched INTEGER,
  tokens INTEGER NOT NULL, closed INTEGER NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL,
  gold TEXT NOT NULL, place INTEGER NOT NULL
);
CREATE TABLE tasks (place INTEGER PRIMARY KEY, task TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE words USING fts5(
  body, content='', detail=none, prefix='1 2 3', tokenize="unicode61 remove_diacritics 2"
);
"""
INDEXES = """
CREATE UNIQUE INDEX IF NOT EXISTS by_key ON episodes (key);
CREATE INDEX IF NOT EXISTS by_task ON episodes (task);
CREATE INDEX IF NOT EXISTS by_place ON episodes (place, closed, agent, step, id);
CREATE INDEX IF NOT EXISTS by_episode ON episodes (episode);
CREATE INDEX IF NOT EXISTS by_parent ON episodes (parent) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_filters
  ON episodes (
    agent, step, outcome, family, hops, reward, correct, problems, tools, ending, closed
  );
"""
_BATCH = 500
_BLOCK = 1 << 20
"""Bytes that are digested at a time."""
Progress = Callable[[int], object]


class Index:
    """The episodes of a run (a folder or one file).

    Args:
        progress: Told how many bytes more have been read while the index is built.

    Raises:
        DataError: nothing there is a trajectory.
    """

    def __init__(self, run: Path, progress: Progress | None = None) -> None:
        self.run = run.resolve()
        self.sources = sources(self.run)
        self.path = _place(self.run)
        self.version = 0
        """Goes up when episodes are added or removed."""
        self._seen: dict[str, str] = {}
        self._local = threading.local()
        self._writing = threading.Lock()
        self._prepare()
        self.refresh(progress)

    # --- reading ------------------------------------------------------------------------------
    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """The rows of a SELECT; any thread."""
        return self._connection().execute(sql, values).fetchall()

    def record(self, key: str) -> Record | None:
        """An episode, read from its file; ``DataError`` if that has changed since."""
        rows = self.rows(
            "SELECT e.*, f.name, f.kind, f.agent AS of_file, f.step AS file_step FROM episodes e "
            "JOIN files f ON f.id = e.file WHERE key = ?",
            (key,),
        )
        if not rows:
            return None
        row = rows[0]
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

    def broken(self) -> list[sqlite3.Row]:
        """The records that could not be read: ``name`` of the file, ``offset``, ``told``."""
        return self.rows(
            "SELECT name, offset, told FROM broken b JOIN files f ON f.id = b.file ORDER BY b.rowid"
        )

    # --- writing ------------------------------------------------------------------------------
    def refresh(self, progress: Progress | None = None) -> None:
        """Read what is new in the files."""
        with self._writing:
            now = {source.name: _stat(source.path) for source in self.sources}
            if now == self._seen:
                return
            db = self._connection()
            known = {row["name"]: row for row in self.rows("SELECT * FROM files")}
            for name in known.keys() - now.keys():
                self._forget(db, known[name]["id"])
            for source in self.sources:
                self._refresh(db, source, known.get(source.name), now[source.name], progress)
            db.executescript(INDEXES)
            if self.version and not known:
                db.execute("ANALYZE")
            self._seen = now

    def _refresh(
        self, db: sqlite3.Connection, source: Source, row: sqlite3.Row | None, stat: str,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        """Bring the rows of one file up to date."""
        if row is not None and row["kind"] == source.kind:
            if row["stat"] == stat:
                return
            digest = _Digest(source.path)
            if digest.upto(row["done"]) == row["mark"]:
                if source.kind != LOG:
                    self._read(db, source, row["id"], row["done"], digest, stat, progress)
                    return
                if source.path.stat().st_size == row["done"]:
                    with db:
                        db.execute("UPDATE files SET stat = ? WHERE id = ?", (stat, row["id"]))
                    return
        if row is not None:
            self._forget(db, row["id"])
        made = db.execute(
            "INSERT INTO files (name, kind, agent, step, done, mark, stat) "
            "VALUES (?,?,?,?,0,'','')",
            (source.name, source.kind, source.agent, source.step),
        )
        self._read(db, source, int(made.lastrowid or 0), 0, _Digest(source.path), stat, progress)

    def _read(
        self, db: sqlite3.Connection, source: Source, file: int, start: int, digest: _Digest,
        stat: str, progress: Progress | None,
    ) -> None:  # fmt: skip
        told = done = start
        batch: list[tuple[Any, ...]] = []
        words: list[str] = []
        wrong: list[tuple[int, int, str]] = []

        def write(stat: str = "") -> None:
            nonlocal told
            with db:
                for row, text in zip(batch, words, strict=True):
                    task = row[_TASK]  # questions are listed in the order in which they came up
                    db.execute("INSERT OR IGNORE INTO tasks (task) VALUES (?)", (task,))
                    made = db.execute(_INSERT, (*row, task))
                    db.execute(
                        "INSERT INTO words (rowid, body) VALUES (?, ?)", (made.lastrowid, text)
                    )
                db.executemany("INSERT INTO broken (file, offset, told) VALUES (?, ?, ?)", wrong)
                db.execute(
                    "UPDATE files SET done = ?, mark = ?, stat = ? WHERE id = ?",
                    (done, digest.upto(done), stat, file),
                )
            batch.clear()
            words.clear()
            wrong.clear()
            self.version += 1
            if progress is not None:
                progress(done - told)
            told = done

        number = self.rows("SELECT count(*) AS n FROM episodes WHERE file = ?", (file,))[0]["n"]
        for offset, data, then in blocks(source.path, source.kind, start):
            try:
                record = self._parse(data, source, offset)
            except DataError as error:
                wrong.append((file, offset, str(error)[:500]))
            else:
                key = _key(source.name, number, record.id)
                batch.append((file, offset, len(data), key, *_columns(record)))
                words.append(_words(record))
                number += 1
            if then is None:  # a line is noted whole or not at all
                continue
            done = then
            if len(batch) + len(wrong) >= _BATCH:
                write()
        if source.kind == LOG:
            done = source.path.stat().st_size  # what follows the last episode is nobody's
        write(stat)

    def _parse(self, data: bytes, source: Source, offset: int) -> Record:
        record = parse(data, source.kind, f"{source.path} at byte {offset:,}")
        record.agent = record.agent or source.agent
        if record.step is None:
            record.step = source.step
        return record

    def _forget(self, db: sqlite3.Connection, file: int) -> None:
        with db:
            db.execute("DELETE FROM episodes WHERE file = ?", (file,))
            db.execute("DELETE FROM broken WHERE file = ?", (file,))
            db.execute("DELETE FROM files WHERE id = ?", (file,))
            if not db.execute("SELECT EXISTS (SELECT 1 FROM episodes)").fetchone()[0]:
                db.execute("INSERT INTO words (words) VALUES ('delete-all')")
        self.version += 1

    # --- the file -----------------------------------------------------------------------------
    @property
    def _root(self) -> Path:
        return self.run.parent if self.run.is_file() else self.run

    def _prepare(self) -> None:
        """Make an empty index where there is none of this version; whatever else is in its place
        in the cache goes."""
        with contextlib.suppress(sqlite3.DatabaseError), _closing(self.path) as db:
            app = db.execute("PRAGMA application_id").fetchone()[0]
            if (app, db.execute("PRAGMA user_version").fetchone()[0]) == (APPLICATION, VERSION):
                return
        for path in (self.path, *(Path(f"{self.path}{end}") for end in ("-wal", "-shm"))):
            path.unlink(missing_ok=True)
        with _closing(self.path) as db:
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
    "parent", "branched", "tokens", "closed", "question", "answer", "gold",
)  # fmt: skip
_INSERT = (
    f"INSERT INTO episodes ({', '.join(_COLUMNS)}, place) "
    f"VALUES ({', '.join('?' * len(_COLUMNS))}, (SELECT place FROM tasks WHERE task = ?))"
)
_TASK = _COLUMNS.index("task")


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
        record.closed, record.question[:1000], record.answer[:500],
        json.dumps([a[:500] for a in record.answers[:20]]),
    )  # fmt: skip


def _key(file: str, number: int, episode: str) -> str:
    """Key of an episode in addresses; the same whenever an index is built."""
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


class _Digest:
    """Digests of longer and longer beginnings of a file, each byte read once."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self._digest = hashlib.blake2b(digest_size=20)

    def upto(self, end: int) -> str:
        """Digest of the first ``end`` bytes, or of all where the file is shorter."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            while self._at < end and (block := file.read(min(_BLOCK, end - self._at))):
                self._digest.update(block)
                self._at += len(block)
        return self._digest.hexdigest()


def _stat(path: Path) -> str:
    """Fingerprint of a file by the file system; any change of its bytes changes it."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _closing(path: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(path))


def _place(run: Path) -> Path:
    """Path of the index in the user's cache, a folder for each run."""
    folder = cache_folder("view") / hashlib.sha256(str(run).encode()).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    used(folder)
    return folder / "index.sqlite"
