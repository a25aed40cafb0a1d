"""``sql``: one SELECT at a time over a world's facts, in an SQLite database that is only read, in
bounded time and memory.
"""

from __future__ import annotations

import copy
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..corpora.corpus import Corpus, GeneratedCorpus
from ..errors import CardError
from ..types import Failure, ToolResult, ToolSpec
from ..worlds.schema import Property
from ..worlds.tables import DatabaseTable, Tables
from ..worlds.world import World
from .base import Tool, ToolContext

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
MAX_STEPS, SECONDS = 500_000, 120.0
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
        layout = Tables(world.schema)
        self._tables, self._of = layout.by_name, layout.place
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
        for name in ("strftime", "julianday"):  # SQLite's own read the clock
            connection.create_function(name, -1, _other_arguments)
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


def _other_arguments(*_: object) -> None:
    raise ValueError("strftime takes a form and a date, julianday a date")


def _julianday(text: object) -> float | None:
    when = _date(text)
    return None if when is None else when.toordinal() + 1_721_424.5


MAX_SQL = 4_000
_CELL = 200
_DATABASES: WeakKeyDictionary[Corpus, FactDatabase] = WeakKeyDictionary()
"""One database per corpus and process, however many environments query it."""


class SqlTool(Tool):
    """Query the facts that a generated world's corpus states, with SQL.

    Only one SELECT is run, and nothing can be written, attached or loaded. A wrong query is
    answered with what is wrong. The description lists every table and column.

    Args:
        max_rows: Rows shown at most.
        max_steps: Steps of SQLite's machine that a query may take. They are what ends a query, so
            that results do not depend on the machine or what else it does.
        seconds: Seconds after which a call counts as lost to the infrastructure (a ``Failure``
            that may be tried again).
        cost: Cost of each call.

    Raises:
        CardError: a limit is below 1; by :meth:`bind`, there is no generated world.
    """

    time_limit = None
    spec = ToolSpec("sql", "", {"type": "object"})  # described once the tables are known

    def __init__(
        self,
        *,
        max_rows: int = 20,
        max_steps: int = MAX_STEPS,
        seconds: float = SECONDS,
        cost: float = 0.0,
    ) -> None:
        super().__init__(cost=cost)
        if max_rows < 1 or max_steps < 1 or not seconds > 0:
            raise CardError(
                "max_rows and max_steps are at least 1, seconds above 0; got "
                f"max_rows={max_rows}, max_steps={max_steps}, seconds={seconds}"
            )
        self.max_rows, self.max_steps, self.seconds = max_rows, max_steps, seconds
        self.database: FactDatabase | None = None

    def bind(self, context: ToolContext) -> Self:
        """A copy over the facts that the environment's corpus states."""
        corpus = context.corpus
        if context.world is None or not isinstance(corpus, GeneratedCorpus):
            raise CardError(
                "the tool 'sql' queries the facts of a generated world, and this corpus has none; "
                "use corpus='encyclopedia' or another world"
            )
        bound = copy.copy(self)
        bound.database = _DATABASES.get(corpus)
        if bound.database is None:
            bound.database = _DATABASES[corpus] = FactDatabase(context.world, corpus.stated)
        bound.spec = _described(bound.database)
        return bound

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult | Failure:
        if self.database is None:
            raise CardError("the tool 'sql' has no database; name it in tools=… of an environment")
        try:
            answer = self.database.query(
                args["query"], max_rows=self.max_rows, max_steps=self.max_steps,
                seconds=self.seconds,
            )  # fmt: skip
        except TimeoutError as error:
            return Failure("timeout", str(error))
        except QueryError as error:
            return ToolResult((f"Error: {error}.",))
        return ToolResult((_table(answer),))


def _described(database: FactDatabase) -> ToolSpec:
    tables = "; ".join(map(str, database.tables))
    return ToolSpec(
        "sql",
        "Query a database of facts with one SELECT (SQLite). Titles are unique, names need not be. "
        "A column whose kind is a table's name holds titles of that table; dates are texts such as "
        f"'1931-03-12'. Tables: {tables}.",
        {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string", "minLength": 1, "maxLength": MAX_SQL,
                    "description": "For example: SELECT count(*) FROM "
                    f"{database.tables[0].name}",
                }
            },
            "required": ["query"],
        },
    )  # fmt: skip


def _table(answer: QueryResult) -> str:
    """Rows as lines, columns apart by " | ", under their names."""
    if not answer.rows:
        return "No rows."
    lines = [" | ".join(answer.columns), *(" | ".join(map(_cell, row)) for row in answer.rows)]
    if answer.more:
        lines.append(f"… and more than these {len(answer.rows)} rows")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.15g}"
    return (value.hex() if isinstance(value, bytes) else str(value))[:_CELL]
