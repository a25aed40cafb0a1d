"""The store keeps what it acknowledged, whoever is killed, and says what is wrong with a file."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from searchgym.errors import DataError
from searchgym.storage.store import Store

WRITER = """
import sys
from searchgym.storage.store import Store
store = Store(sys.argv[1])
run = sys.argv[2]
print("ready", flush=True)
for i in range(10**9):
    a, b = f"{run}:{i}:a".encode(), f"{run}:{i}:b".encode()
    store.put_many("n", {a: a * 50, b: b * 50})
    print(i, flush=True)
"""


def test_round_trip(tmp_path: Path) -> None:
    with Store(tmp_path / "deep" / "s.sqlite") as store:
        assert store.get("n", b"k") is None
        store.put("n", b"k", b"v")
        store.put("m", b"k", b"")
        store.put_many("n", {bytes([i, 0, 255]): bytes([i]) for i in range(200)})
        assert store.get("n", b"k") == b"v"
        assert store.get("m", b"k") == b""
        assert store.get_many("n", [b"none", b"\x07\x00\xff", b"k"]) == [None, b"\x07", b"v"]
        assert (store.count("m"), store.count("n"), store.count("none")) == (1, 201, 0)
        assert dict(store.items("m")) == {b"k": b""}
        store.put("n", b"k", b"w")
        assert store.get("n", b"k") == b"w"
        assert store.add("n", b"k", b"late") == b"w", "the first value of a race stands"
        assert store.add("n", b"new", b"x") == b"x"
        found = store.items("m")
        store.put("m", b"later", b"1")
        assert dict(found) == {b"k": b""}, "as of the call"
        keys = [str(i).encode() for i in range(5000)]
        store.put_many("many", {k: k for k in keys})
        assert store.get_many("many", [*keys, b"none"]) == [*keys, None]
    with pytest.raises(DataError, match="closed"):
        store.get("n", b"k")


def test_a_broken_batch_leaves_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(sqlite3.ProgrammingError):
            store.put_many("n", {b"a": b"1", b"b": object()})  # type: ignore[dict-item]
        assert store.count("n") == 0
        store.put("n", b"a", b"2")


def test_files_that_are_no_stores(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to have a header\n" * 100)
    with pytest.raises(DataError, match="not a store or is damaged"):
        Store(text)
    assert text.read_text().startswith("not a database"), "it must be left as it was"
    with pytest.raises(DataError, match="is a folder"):
        Store(tmp_path)
    with pytest.raises(DataError, match="cannot make the folder of"):
        Store(text / "s.sqlite")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    with pytest.raises(DataError, match="not a SearchGym store"):
        Store(other)
    newer = tmp_path / "newer.sqlite"
    Store(newer).close()
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(DataError, match="version 99"):
        Store(newer)


def test_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.put_many("n", {str(i).encode(): bytes(200) for i in range(500)})
    data = bytearray(path.read_bytes())
    data[8192:40000] = b"\xff" * (40000 - 8192)
    path.write_bytes(bytes(data))
    with Store(path) as store, pytest.raises(DataError, match="damaged"):
        list(store.items("n"))


def test_read_only(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with pytest.raises(DataError, match="no store at"):
        Store(path, readonly=True)
    with Store(path) as store:
        store.put("n", b"k", b"v")
    with Store(path, readonly=True) as store:
        assert store.get("n", b"k") == b"v"
        with pytest.raises(DataError, match="read-only"):
            store.put("n", b"k", b"w")
    path.write_bytes(b"")
    with pytest.raises(DataError, match="empty file"):
        Store(path, readonly=True)


def test_entries_in_the_log_are_not_lost_in_a_folder_one_cannot_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed writer leaves its last entries in the log beside the file."""
    path = tmp_path / "s.sqlite"
    child = (
        "import os, sys; from searchgym.storage.store import Store; s = Store(sys.argv[1]);"
        "s.put('n', b'k', b'v'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", child, str(path)], check=False)
    assert (tmp_path / "s.sqlite-wal").stat().st_size
    with monkeypatch.context() as patch:  # root may write everywhere
        patch.setattr(os, "access", lambda *args, **kwargs: False)
        with pytest.raises(DataError, match="copy both files"):
            Store(path, readonly=True)
    with Store(path) as store:  # the log is folded in where one can write
        assert store.get("n", b"k") == b"v"
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *args, **kwargs: False)
        with Store(path, readonly=True) as store:
            assert store.get("n", b"k") == b"v"


def test_a_held_lock_is_a_timeout(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store(path, busy_s=0.1) as store:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="locked"):
            store.put("n", b"k", b"v")
        assert time.monotonic() - began < 5
        assert store.get("n", b"k") is None, "readers do not wait for writers"
        holder.execute("ROLLBACK")
        holder.close()
        store.put("n", b"k", b"v")


def test_threads(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite")
    errors: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for i in range(40):
                key = f"{me}:{i}".encode()
                store.put("n", key, key)
                assert store.get("n", key) == key
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.count("n") == 320
    assert len(store._free) <= 8, "connections are reused"
    store.close()


def test_forks_and_pickles(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite")
    store.put("n", b"parent", b"1")
    if (pid := os.fork()) == 0:
        ok = store.get("n", b"parent") == b"1"
        store.put("n", b"child", b"2")
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert store.get("n", b"child") == b"2"
    twin = pickle.loads(pickle.dumps(store))
    assert twin.get("n", b"child") == b"2"
    twin.close()
    store.close()


def _open_and_write(path: str, me: int) -> None:
    with Store(path) as store:
        store.put("n", str(me).encode(), b"x")


def test_processes_that_create_the_file_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for trial in range(3):
        path = str(tmp_path / f"{trial}.sqlite")
        crowd = [context.Process(target=_open_and_write, args=(path, i)) for i in range(8)]
        for process in crowd:
            process.start()
        for process in crowd:
            process.join()
        assert [p.exitcode for p in crowd] == [0] * 8
        with Store(path) as store:
            assert store.count("n") == 8


@pytest.mark.contract
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """Two writers at a time, killed at random moments: what they acknowledged is there, and no
    half of a pair is."""
    path, draw = tmp_path / "s.sqlite", random.Random(0)
    total = unacknowledged = 0
    for trial in range(8):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(path), f"{trial}.{i}"],
                stdout=subprocess.PIPE,
                text=True,
            )
            for i in range(2)
        ]
        if trial % 3:  # otherwise killed while starting: importing, opening, creating
            assert [w.stdout.readline() for w in writers if w.stdout] == ["ready\n"] * 2
        time.sleep(draw.uniform(0.0, 0.15))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        said = [writer.communicate()[0].splitlines() for writer in writers]
        with Store(path) as store:
            have = dict(store.items("n"))
        assert all(value == key * 50 for key, value in have.items())
        assert all(key[:-1] + b"a" in have and key[:-1] + b"b" in have for key in have)
        for i, lines in enumerate(said):
            done = [int(line) for line in lines if line.isdigit()]
            run = f"{trial}.{i}".encode()
            for n in done:
                assert run + b":%d:a" % n in have, "acknowledged and lost"
            stored = sum(key.startswith(run + b":") for key in have) // 2
            assert stored - len(done) in (0, 1)
            total += len(done)
            unacknowledged += stored - len(done)
    assert total > 50, "the writers must have been killed at work"
