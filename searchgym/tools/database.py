"""A world's facts as an SQLite database that can only be read, in bounded time and memory."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..worlds.schema import Property
from ..worlds.world import World

FUNCTIONS = frozenset(
    "abs avg coalesce count dense_rank first_value glob group_concat ifnull iif instr julianday "
    "lag last_value lead length like lower ltrim max min nullif rank replace round row_number "
    "rtrim strftime substr substring sum total trim typeof upper".split()
)
"""Functions that a query may call. Clocks, chance, files and makers of large values are not among
them; ``strftime`` (year, month, day) and ``julianday`` are our own and know no "now"."""
_LIMITS: Mapping[int, int] = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000,  # bytes of a value or row
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 10_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 60,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 50_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
MAX_STEPS, SECONDS = 500_000, 30.0
"""Limits of a query: the steps take less than a second, so they end it on slow machines, too;
the clock is for what is wrong with the machine."""
_EVERY = 1_000
"""Steps of SQLite's machine between two looks at the limits."""


class QueryError(ValueError):
    """Raised for a query that is wrong, forbidden or too expensive; the text is for the agent."""


class QueryResult(NamedTuple):
    """Result of a query: names of columns, the first rows, and whether there are more."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: bool


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table and its columns: name → what it holds (a kind of value, or the table whose titles
    it holds)."""

    name: str
    columns: Mapping[str, str]

    def __str__(self) -> str:
        listed = (f"{name} {kind}" for name, kind in self.columns.items())
        return f"{self.name}({', '.join(listed)})"


class FactDatabase:
    """The facts of a world, one table per type and one per relation with several objects.

    Tables of types hold ``title`` (unique), ``name`` and every property with at most one value:
    dates as "1931-03-12", years and counts as numbers, other entities by their titles. Texts are
    compared without regard to case.

    The database is built in memory at the first query, once per process: a pickled or forked copy
    builds its own. Queries of several threads wait for each other.

    Args:
        world: Whose facts.
        facts: Rows of the facts to take; by default all.
    """

    def __init__(self, world: World, facts: NDArray[np.int64] | None = None) -> None:
        self.world, self.facts = world, facts
        types = [t.name for t in world.schema.types]
        self._tables: dict[str, DatabaseTable] = {}
        for kind in types:
            columns = {"title": "text", "name": "text"}
            for prop in world.schema.properties:
                if prop.source == kind and prop.functional:
                    columns[_free(prop.name, columns)] = _kind(prop)
            self._tables[kind] = DatabaseTable(kind, columns)
        self._of: dict[int, tuple[str, str]] = {}
        """Property → its table and column."""
        for i, prop in enumerate(world.schema.properties):
            if prop.functional:
                mine = [p for p in world.schema.properties if p.source == prop.source]
                place = [p for p in mine if p.functional].index(prop)
                self._of[i] = prop.source, list(self._tables[prop.source].columns)[2 + place]
                continue
            name = _free(prop.name, self._tables)
            target = str(prop.target)
            other = target if target != prop.source else f"other_{target}"
            self._tables[name] = DatabaseTable(name, {prop.source: prop.source, other: target})
            self._of[i] = name, other
        self._names = {name.lower() for name in self._tables}
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = -1
        self._refused = ""

    @property
    def tables(self) -> tuple[DatabaseTable, ...]:
        """All tables, those of types first."""
        return tuple(self._tables.values())

    def __getstate__(self) -> dict[str, Any]:
        return {"world": self.world, "facts": self.facts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def query(
        self, sql: str, *, max_rows: int = 20, max_steps: int = MAX_STEPS, seconds: float = SECONDS
    ) -> QueryResult:
        """Run one SELECT.

        Args:
            sql: The statement.
            max_rows: Rows that are returned at most.
            max_steps: Steps of SQLite's machine; the same query always takes as many.
            seconds: Time limit, for a machine that is stalled.

        Raises:
            TimeoutError: it took longer than ``seconds``.
            QueryError: it is no single SELECT over these tables, or goes beyond a limit.
        """
        with self._lock:
            connection = self._open()
            began, steps, late = time.monotonic(), 0, False

            def interrupt() -> bool:
                nonlocal steps, late
                steps += _EVERY
                if steps > max_steps:
                    self._refused = f"it takes more than {max_steps:,} steps"
                else:
                    late = time.monotonic() - began > seconds
                return late or bool(self._refused)

            self._refused = ""
            connection.set_progress_handler(interrupt, _EVERY)
            cursor = connection.cursor()
            try:
                cursor.execute(sql)
                if cursor.description is None:
                    raise QueryError("only a SELECT is allowed")
                columns = tuple(str(column[0]) for column in cursor.description)
                rows = cursor.fetchmany(max_rows + 1)
            except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
                if late:
                    raise TimeoutError(f"the query took longer than {seconds:g} seconds") from None
                raise QueryError(self._refused or str(error).rstrip(".")) from None
            finally:
                cursor.close()
                connection.set_progress_handler(None, 0)
            return QueryResult(columns, rows[:max_rows], len(rows) > max_rows)

    # --- building -----------------------------------------------------------------------------
    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        connection = sqlite3.connect(
            ":memory:", check_same_thread=False, isolation_level=None, cached_statements=0
        )
        connection.execute("BEGIN")
        self._fill(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA temp_store = MEMORY")  # no files: rows and steps bound it
        connection.create_function("strftime", 2, _strftime, deterministic=True)
        connection.create_function("julianday", 1, _julianday, deterministic=True)
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_authorizer(self._authorise)
        self._connection, self._process = connection, os.getpid()
        return connection

    def _authorise(self, action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            name = str(first).lower()  # no column is read where rows of a WITH table are counted
            if name in self._names or not (second or name.startswith(("sqlite_", "pragma_"))):
                return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            if str(second).lower() in FUNCTIONS:
                return sqlite3.SQLITE_OK
            self._refused = f"there is no function {str(second)[:40]!r}"
        elif action == sqlite3.SQLITE_READ:
            self._refused = f"there is no table {str(first)[:40]!r}"
        else:
            self._refused = "only a SELECT is allowed"
        return sqlite3.SQLITE_DENY

    def _fill(self, connection: sqlite3.Connection) -> None:
        world, schema = self.world, self.world.schema
        for table in self.tables:
            columns = [f"{_quoted(name)} {_sql_type(kind)}" for name, kind in table.columns.items()]
            if table.name in schema._types:
                columns[0] += " PRIMARY KEY"
            connection.execute(f"CREATE TABLE {_quoted(table.name)} ({', '.join(columns)})")
        rows = np.arange(world.n_facts) if self.facts is None else np.sort(self.facts)
        order = np.argsort(world.property_of[rows], kind="stable")
        rows = rows[order]
        bounds = np.searchsorted(world.property_of[rows], np.arange(len(schema.properties) + 1))
        values: dict[str, dict[str, dict[int, Any]]] = {}
        for i, prop in enumerate(schema.properties):
            mine = rows[bounds[i] : bounds[i + 1]]
            subjects = world.subject_of[mine].tolist()
            objects = self._objects(prop, world.object_of[mine].tolist())
            where, column = self._of[i]
            if prop.functional:
                values.setdefault(where, {})[column] = dict(zip(subjects, objects, strict=True))
            else:
                pairs = zip([world.titles[s] for s in subjects], objects, strict=True)
                _insert(connection, where, 2, pairs)
        for i, kind in enumerate(schema.types):
            by_column = values.get(kind.name, {})
            columns_of = [by_column.get(c, {}) for c in self._tables[kind.name].columns]
            _insert(
                connection, kind.name, len(columns_of),
                (
                    (world.titles[e], world.names[e], *(c.get(e) for c in columns_of[2:]))
                    for e in world.entities_of(i).tolist()
                ),
            )  # fmt: skip
        for table in self.tables:  # one index per column of titles: joins and look-ups take them
            for column, holds in table.columns.items():
                if column == "name" or holds in schema._types:
                    name = _quoted(f"{table.name} by {column}")
                    on = f"{_quoted(table.name)} ({_quoted(column)})"
                    connection.execute(f"CREATE INDEX {name} ON {on}")

    def _objects(self, prop: Property, objects: list[int]) -> list[Any]:
        if prop.is_relation:
            return [self.world.titles[o] for o in objects]
        if prop.value == "category":
            return [prop.categories[o] for o in objects]
        if prop.value == "date":
            return [date.fromordinal(o).isoformat() for o in objects]
        return list(objects)


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _kind(prop: Property) -> str:
    if prop.target is not None:
        return prop.target
    return {"date": "date", "category": "text"}.get(prop.value or "", "integer")


def _sql_type(kind: str) -> str:
    return "INTEGER" if kind == "integer" else "TEXT COLLATE NOCASE"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _insert(
    connection: sqlite3.Connection, table: str, columns: int, rows: Iterable[tuple[Any, ...]]
) -> None:
    places = ", ".join("?" * columns)
    connection.executemany(f"INSERT INTO {_quoted(table)} VALUES ({places})", rows)


def _date(text: object) -> date | None:
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        return None


def _strftime(form: object, text: object) -> str | None:
    when = _date(text)
    if when is None:
        return None
    parts = {"%Y": f"{when.year:04d}", "%m": f"{when.month:02d}", "%d": f"{when.day:02d}"}
    out = str(form)[:100]
    for mark, digits in parts.items():
        out = out.replace(mark, digits)
    return out


def _julianday(text: object) -> float | None:
    when = _date(text)
    return None if when is None else when.toordinal() + 1_721_424.5
