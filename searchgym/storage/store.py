"""Bytes by key on disk, for caches and recordings: durable on return, shared by processes.

SQLite in WAL mode with ``synchronous=FULL``: what ``put`` acknowledged survives ``kill -9`` and
power loss, a writer killed half-way leaves no trace, readers never wait for writers. Concurrent
calls use connections of their own, kept for reuse; a forked child opens new ones (SQLite forbids
carrying one across).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from ..errors import DataError

VERSION = 1
"""Version of the table layout, in ``PRAGMA user_version``."""
APPLICATION = 0x53475354
"""``PRAGMA application_id`` ("SGST"): a store is told from other people's databases."""
_CHUNK = 500
"""Keys per SELECT: below SQLite's smallest limit on bound variables (999)."""
_SCHEMA = (
    "CREATE TABLE entries (namespace TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,"
    " PRIMARY KEY (namespace, key)) WITHOUT ROWID"
)


class Store:
    """A map (namespace, key) → value in one SQLite file, made on first use.

    ``busy_s`` is how long a call waits for another writer before ``TimeoutError``. ``readonly``
    refuses to create or change the file. ``DataError`` for a file that is not a store, is damaged,
    or was written by a newer version. Safe to use from any thread and after ``fork``.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, busy_s: float = 30.0, readonly: bool = False
    ) -> None:
        self.path = Path(path)
        self.busy_s = busy_s
        self.readonly = readonly
        self._free: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._closed = False
        if self.path.is_dir():
            raise DataError(f"{self.path} is a folder, expected a store file (*.sqlite)")
        if readonly and not self.path.is_file():
            raise DataError(f"no store at {self.path}: record one first, or check the path")
        with self._connection():  # says at once what is wrong with the file
            pass

    # --- reading ------------------------------------------------------------------------------
    def get(self, namespace: str, key: bytes) -> bytes | None:
        """The value of a key, or ``None``."""
        return self.get_many(namespace, (key,))[0]

    def get_many(self, namespace: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values in the order of ``keys``; ``None`` where there is none."""
        with self._connection() as db:
            value_of = self._select(db, namespace, keys)
        return [value_of.get(key) for key in keys]

    def items(self, namespace: str) -> Iterator[tuple[bytes, bytes]]:
        """All (key, value) of a namespace in key order, as of the call."""
        with self._connection() as db:
            rows = db.execute(
                "SELECT key, value FROM entries WHERE namespace = ? ORDER BY key", (namespace,)
            ).fetchall()
        return iter(rows)

    def count(self, namespace: str) -> int:
        with self._connection() as db:
            row = db.execute("SELECT count(*) FROM entries WHERE namespace = ?", (namespace,))
            return int(row.fetchone()[0])

    # --- writing ------------------------------------------------------------------------------
    def put(self, namespace: str, key: bytes, value: bytes) -> None:
        """Set a value; on disk when this returns."""
        self.put_many(namespace, {key: value})

    def put_many(self, namespace: str, entries: Mapping[bytes, bytes]) -> None:
        """Set several values, all or none; on disk when this returns."""
        rows = [(namespace, key, value) for key, value in entries.items()]
        with self._writing() as db:
            db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)

    def add(self, namespace: str, key: bytes, value: bytes) -> bytes:
        """Set a value unless there is one; the value that now stands (single winner of a race)."""
        return self.add_many(namespace, {key: value})[key]

    def add_many(self, namespace: str, entries: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """``add`` for several keys in one transaction: the values that now stand."""
        if not entries:
            return {}
        rows = [(namespace, key, value) for key, value in entries.items()]
        with self._writing() as db:
            db.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", rows)
            return self._select(db, namespace, list(entries))

    # --- the file -----------------------------------------------------------------------------
    def close(self) -> None:
        """Close the file; later calls fail, calls in progress finish."""
        with self._guard:
            self._closed = True
            if self._pid == os.getpid():
                while self._free:
                    self._free.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        """Return path and settings, so that a store can be handed to a spawned process."""
        return {"path": self.path, "busy_s": self.busy_s, "readonly": self.readonly}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @staticmethod
    def _select(
        db: sqlite3.Connection, namespace: str, keys: Sequence[bytes]
    ) -> dict[bytes, bytes]:
        value_of: dict[bytes, bytes] = {}
        for at in range(0, len(keys), _CHUNK):
            part = keys[at : at + _CHUNK]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, value FROM entries WHERE namespace = ? AND key IN ({marks})"
            value_of.update(db.execute(query, (namespace, *part)))
        return value_of

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, begun as a writer: a reader that turns writer can lose its snapshot."""
        if self.readonly:
            raise DataError(f"{self.path} was opened read-only")
        with self._connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:  # Ctrl-C, too: the connection is used again, so none stays open
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that no other thread uses meanwhile; SQLite's errors as ours."""
        try:
            db = self._take()
            try:
                yield db
            finally:
                self._give(db)
        except sqlite3.ProgrammingError:
            raise  # a caller's mistake (a key that is no bytes), not the file's
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise TimeoutError(f"{self.path} was locked for {self.busy_s:g} s") from error
            raise DataError(f"{self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise DataError(
                f"{self.path} is not a store or is damaged ({error}). Expected a SQLite file made "
                "by SearchGym: give another path, or delete the file to start anew"
            ) from error

    def _take(self) -> sqlite3.Connection:
        with self._guard:
            if self._closed:
                raise DataError(f"the store {self.path} is closed")
            if self._pid != os.getpid():  # forked: the parent's connections must not be touched,
                self._inherited = self._free  # nor closed, which would drop the parent's locks
                self._free, self._pid = [], os.getpid()
            if self._free:
                return self._free.pop()
        return self._dial()

    def _give(self, db: sqlite3.Connection) -> None:
        with self._guard:
            if not self._closed and self._pid == os.getpid():
                self._free.append(db)
                return
        db.close()

    def _dial(self) -> sqlite3.Connection:
        if not self.readonly:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise DataError(f"cannot make the folder of {self.path}: {error}") from error
        uri = self.path.resolve().as_uri() + ("?mode=ro" if self.readonly else "?mode=rwc")
        if self.readonly and not os.access(self.path.parent, os.W_OK):
            uri += "&immutable=1"  # WAL needs to write beside the file; nobody writes here
            log = self.path.resolve().with_name(self.path.resolve().name + "-wal")
            if log.is_file() and log.stat().st_size:  # which "immutable" would not read
                raise DataError(
                    f"{log} holds entries that {self.path.name} lacks, and the folder cannot be "
                    "written to: copy both files to a folder of yours and open the copy"
                )
        db = sqlite3.connect(
            uri, uri=True, timeout=self.busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("BEGIN")
            prepared = self._prepared(db)
            db.execute("COMMIT")
            if not prepared:
                if self.readonly:
                    raise DataError(f"{self.path} is an empty file, expected a store")
                self._create(db)
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:  # Ctrl-C, too: nobody else has this connection to close it
            db.close()
            raise
        return db

    def _prepared(self, db: sqlite3.Connection) -> bool:
        """Return whether the file is a store already; ``DataError`` if it is something else.

        Within a transaction: another process may be creating it between two of these lines.
        """
        filled = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if application == APPLICATION:
            if version != VERSION:
                raise DataError(
                    f"{self.path} has store version {version}, this SearchGym reads {VERSION}: "
                    "update SearchGym, or give another path"
                )
            return True
        if application or version or filled:
            raise DataError(
                f"{self.path} is a SQLite database, but not a SearchGym store: give another path"
            )
        return False

    def _create(self, db: sqlite3.Connection) -> None:
        self._to_wal(db)
        db.execute("BEGIN IMMEDIATE")
        try:
            if not self._prepared(db):  # unless another process was first
                db.execute(_SCHEMA)
                db.execute(f"PRAGMA application_id = {APPLICATION}")
                db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        except BaseException:  # Ctrl-C, too, gives the write lock back to other processes
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _to_wal(self, db: sqlite3.Connection) -> None:
        """Switch to WAL; SQLite does not wait by itself when two processes do so at once."""
        end = time.monotonic() + self.busy_s
        while True:
            try:
                mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.005)
            else:
                if mode != "wal":
                    raise DataError(f"{self.path}: its file system cannot hold a WAL ({mode})")
                return
