"""``sql``: one SELECT at a time over a world's facts, in SQLite."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self
from weakref import WeakKeyDictionary

from ..corpora.corpus import Corpus, GeneratedCorpus
from ..errors import CardError
from ..types import Failure, ToolResult, ToolSpec
from .base import Tool, ToolContext
from .database import MAX_STEPS, SECONDS, FactDatabase, QueryError, QueryResult

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
