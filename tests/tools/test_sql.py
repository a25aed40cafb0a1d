"""SQL over a world's facts: right, read-only, bounded, and the same in every thread and process."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.corpora import Corpus
from searchgym.errors import CardError
from searchgym.tools import ToolContext, make_tool
from searchgym.tools.sql import FactDatabase, QueryError, SqlTool
from searchgym.types import CallContext, ToolCall
from searchgym.worlds import format_value
from tests.kgs.random_graphs import generated
from tests.small import CORPUS


@pytest.fixture(scope="module")
def database() -> FactDatabase:
    return FactDatabase(generated()[0])


def ask(tool: SqlTool, query: str) -> str:
    (result,) = tool.run([ToolCall("sql", {"query": query}, 0, CallContext(0, "e", {}))])
    return result.parts[0]


# --- what it holds --------------------------------------------------------------------------------
def test_every_fact_of_the_world_is_there_and_no_other(database: FactDatabase) -> None:
    world = generated()[0]
    cells = 0
    for table in database.tables:
        names = [f'"{c}"' for c in table.columns if c not in ("title", "name")]
        if table.name in {t.name for t in world.schema.types}:
            counted = ", ".join(f"count({c})" for c in names)
            ((*numbers,),) = database.query(f'SELECT {counted} FROM "{table.name}"').rows
            cells += sum(numbers)
        else:
            ((number,),) = database.query(f'SELECT count(*) FROM "{table.name}"').rows
            cells += number
    assert cells == world.n_facts
    for row in range(0, world.n_facts, 97):
        fact = world.fact(row)
        prop, subject = world.prop(fact), world.titles[fact.subject].replace("'", "''")
        if not prop.functional:
            names = next(t.columns for t in database.tables if t.name == prop.name)
            source, target = names
            sql = f"SELECT {target} FROM \"{prop.name}\" WHERE {source} = '{subject}'"
        else:
            sql = f"SELECT {prop.name} FROM {prop.source} WHERE title = '{subject}'"
        values = [value for (value,) in database.query(sql, max_rows=1000).rows]
        if prop.is_relation:
            assert world.titles[fact.object] in values
        elif prop.value == "category":
            assert format_value(prop, fact.object) in values
        elif prop.value == "date":
            assert len(values[0]) == 10
        else:
            assert values == [fact.object]


def test_only_what_the_corpus_states_is_asked() -> None:
    world, corpus = generated()
    tool = make_tool("sql", ToolContext(corpus, None, world))  # type: ignore[arg-type]
    assert (tool.database.facts == corpus.stated).all()  # type: ignore[attr-defined]
    place = world.schema.property_index("birthplace")
    rows = [i for i in range(world.n_facts) if int(world.property_of[i]) == place]
    half = FactDatabase(world, np.array(rows[: len(rows) // 2]))
    assert half.query("SELECT count(birthplace), count(birth_date) FROM person").rows == [
        (len(rows) // 2, 0)
    ]


def test_dates_and_numbers_work_as_in_sqlite(database: FactDatabase) -> None:
    ((year, month, days),) = database.query(
        "SELECT strftime('%Y', '1931-03-12'), strftime('%m/%d', '1931-03-12'), "
        "julianday('1931-03-12') - julianday('1931-03-01')"
    ).rows
    assert (year, month, days) == ("1931", "03/12", 11.0)
    assert database.query("SELECT strftime('%Y', 'now'), julianday('x')").rows == [(None, None)]


# --- attacks --------------------------------------------------------------------------------------
FORBIDDEN = [
    "INSERT INTO city (title) VALUES ('x')", "UPDATE city SET name = 'x'", "DELETE FROM city",
    "REPLACE INTO city (title) VALUES ('x')", "DROP TABLE city", "CREATE TABLE t (x)",
    "CREATE TEMP TABLE t (x)", "CREATE VIEW v AS SELECT 1", "CREATE INDEX i ON city (name)",
    "ALTER TABLE city ADD x", "CREATE TRIGGER g AFTER INSERT ON city BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE v USING fts5(x)", "ATTACH '{file}' AS other", "ATTACH ':memory:' AS o",
    "DETACH main", "VACUUM", "VACUUM INTO '{file}'", "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON", "PRAGMA table_info(city)", "BEGIN", "COMMIT", "SAVEPOINT s",
    "REINDEX", "ANALYZE", "SELECT load_extension('{file}')", "SELECT readfile('{file}')",
    "SELECT writefile('{file}', 'x')", "SELECT * FROM sqlite_master", "SELECT * FROM sqlite_schema",
    "SELECT count(*) FROM sqlite_master", "SELECT * FROM sqlite_temp_master",
    "SELECT * FROM pragma_table_info('city')", "SELECT * FROM json_each('[1]')",
    "SELECT julianday()", "SELECT strftime('%s')", "SELECT julianday('now', 'utc')",
    "SELECT random()", "SELECT date('now')", "SELECT current_timestamp", "SELECT sqlite_version()",
    "SELECT randomblob(9)", "SELECT zeroblob(1000000000)", "SELECT printf('%1000000000d', 1)",
    "SELECT hex(title) FROM city", "SELECT 1; DELETE FROM city", "SELECT 1; SELECT 2", "",
    "SELECT ?", "SELECT 'a\x00b'", "SELECT '\ud800'", "-- nothing", "EXPLAIN DELETE FROM city",
    "WITH t AS (SELECT 1) DELETE FROM city", "SELECT * FROM nowhere", "SELECT nothing FROM city",
]  # fmt: skip


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_nothing_can_be_written_attached_or_loaded(
    sql: str, database: FactDatabase, tmp_path: Path
) -> None:
    everything = "SELECT count(*), min(title), max(title) FROM city"
    before = database.query(everything)
    with pytest.raises(QueryError):
        database.query(sql.replace("{file}", str(tmp_path / "x.db")))
    assert database.query(everything) == before
    assert list(tmp_path.iterdir()) == []


WIDE = "replace('" + "a" * 95 + "', 'a', 'aaaaaaaaaa')"
BOMBS = [
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t",
    "WITH RECURSIVE t(x) AS (SELECT 'a' UNION SELECT x || 'a' FROM t) SELECT count(*) FROM t",
    f"WITH RECURSIVE t(x, y) AS (SELECT 1, {WIDE} UNION SELECT x + 1, y FROM t) "
    "SELECT count(*) FROM t",
    "SELECT count(*) FROM person a, person b, person c, person d",
    f"SELECT a.title, {WIDE} z FROM person a, person b, person c ORDER BY z, c.title",
    f"SELECT DISTINCT a.rowid, b.rowid, {WIDE} FROM person a, person b, person c ORDER BY 3, 1",
    "SELECT group_concat(a.title) FROM person a, person b",
    f"WITH a AS MATERIALIZED (SELECT {WIDE} z FROM person p, person q, person r) "
    "SELECT count(*) FROM a, a b",
    "SELECT count(*) FROM person a, person b, person c WHERE a.title || b.title || c.title LIKE "
    "'%a%b%c%d%e%f%g%h%i%j%'",
    "SELECT replace(x, 'a', x) FROM (SELECT replace(x, 'a', x) x FROM (SELECT 'aaaaaaaaaaaaaa' x))",
    "SELECT " + "(" * 500 + "1" + ")" * 500,
    "SELECT " + "1 + " * 500 + "1",
    "SELECT " + " UNION ALL SELECT ".join(["1"] * 100),
    "SELECT " + ", ".join(["1"] * 1000),
]


def test_bombs_end_soon_and_in_little_memory() -> None:
    code = f"""
import resource, time
from searchgym.tools.sql import FactDatabase, QueryError
from tests.kgs.random_graphs import generated
database = FactDatabase(generated()[0])
database.query("SELECT 1")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for sql in {BOMBS!r}:
    began = time.process_time()
    try:
        database.query(sql)
        raise SystemExit("went through: " + sql)
    except QueryError:
        pass
    assert time.process_time() - began < 8, sql
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert float(done.stdout) < 100, "MiB"


def test_steps_are_counted_alike_every_time(database: FactDatabase) -> None:
    sql = "SELECT count(*) FROM person a, person b WHERE a.title < b.title"
    outcomes = set()
    for _ in range(3):
        try:
            database.query(sql, max_steps=2_000, seconds=1e9)
            outcomes.add("went through")
        except QueryError as error:
            outcomes.add(str(error))
    assert outcomes == {"it takes more than 2,000 steps"}
    assert database.query(sql, max_steps=10**9, seconds=1e9).rows  # and the next one is free


def test_rows_and_cells_are_limited(database: FactDatabase) -> None:
    found = database.query("SELECT title FROM person", max_rows=7)
    assert (len(found.rows), found.more) == (7, True)
    world, corpus = generated()
    tool = make_tool({"use": "sql", "max_rows": 2}, ToolContext(corpus, None, world))  # type: ignore[arg-type]
    lines = ask(tool, "SELECT title FROM person").split("\n")  # type: ignore[arg-type]
    assert lines[:1] + lines[3:] == ["title", "… and more than these 2 rows"]
    wide = ask(tool, f"SELECT {WIDE}")  # type: ignore[arg-type]
    assert len(wide.split("\n")[1]) == 200
    assert ask(tool, "SELECT title FROM person WHERE 0") == "No rows."  # type: ignore[arg-type]
    assert ask(tool, "DELETE FROM city").startswith("Error: only a SELECT")  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(
    "SELECT FROM WHERE city person title name * count( ) ( , ; ' \" = < 1 2.5 NULL AND OR NOT LIKE "
    "GROUP BY ORDER WITH RECURSIVE AS UNION ALL JOIN ON CASE WHEN END PRAGMA ATTACH DELETE".split()
), max_size=25).map(" ".join) | st.text(max_size=60))  # fmt: skip
def test_any_text_is_answered_or_refused(sql: str) -> None:
    database = FactDatabase(generated()[0]) if not KEPT else KEPT[0]
    KEPT[:] = [database]
    with contextlib.suppress(QueryError):
        database.query(sql, max_steps=200_000, seconds=1.0)


KEPT: list[FactDatabase] = []


# --- threads and processes ------------------------------------------------------------------------
def test_threads_share_one_connection(database: FactDatabase) -> None:
    queries = [f"SELECT {i}, count(*) FROM person WHERE rowid % 7 = {i % 7}" for i in range(200)]
    alone = [database.query(sql) for sql in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(database.query, queries)) == alone


def test_copies_and_other_processes_build_their_own(database: FactDatabase) -> None:
    sql = "SELECT title FROM city ORDER BY population DESC"
    here = database.query(sql)
    for other in (pickle.loads(pickle.dumps(database)), copy.deepcopy(database)):
        assert other._connection is None
        assert other.query(sql) == here
    inherited, (reading, writing) = database._connection, os.pipe()
    child = os.fork()
    if not child:
        same = database.query(sql) == here and database._connection is not inherited
        os.write(writing, b"y" if same else b"n")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1) == b"y"
    os.close(reading)
    os.close(writing)
    assert database.query(sql) == here
    assert database._connection is inherited


def test_one_database_serves_all_environments_of_a_corpus_and_goes_with_it() -> None:
    from searchgym.corpora import render

    world = generated()[0]
    corpus = render(world)
    context = ToolContext(corpus, None, world)  # type: ignore[arg-type]
    first, second = make_tool("sql", context), make_tool(SqlTool(max_rows=3), context)
    assert first.database is second.database  # type: ignore[attr-defined]
    gone = weakref.ref(first.database)  # type: ignore[attr-defined]
    del first, second, context, corpus
    gc.collect()
    assert gone() is None


def test_it_needs_a_world_and_sound_limits() -> None:
    with pytest.raises(CardError, match="generated world"):
        make_tool("sql", ToolContext(CORPUS, None))  # type: ignore[arg-type]
    for wrong in ({"max_rows": 0}, {"seconds": 0}, {"max_steps": -1}, {"rows": 3}):
        with pytest.raises(CardError):
            make_tool({"use": "sql", **wrong}, ToolContext(CORPUS, None))  # type: ignore[arg-type]
    assert isinstance(CORPUS, Corpus)


def test_a_query_is_fast(database: FactDatabase) -> None:
    database.query("SELECT 1")
    took = []
    for _ in range(5):  # a slow query is slow every time, a busy machine is not
        began = time.perf_counter()
        for i in range(100):
            database.query(f"SELECT count(*) FROM person WHERE birthplace = 'x{i}'")
        took.append(time.perf_counter() - began)
        if took[-1] < 1.0:
            return
    pytest.fail(f"{min(took):.1f} s at best")
