"""A served folder that changes: clients see the new documents without a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from searchgym.engines import FolderIndex
from searchgym.serve import Watcher
from searchgym.types import CallContext, Query
from tests.serve.conftest import ServerProcess

Start = Callable[..., ServerProcess]


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEARCHGYM_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "notes"
    made.mkdir()
    (made / "a.md").write_text("An apple.")
    return made


def until(done: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "the change was not taken up"
        time.sleep(0.05)


def test_a_change_is_taken_up_and_a_broken_one_is_not(notes: Path) -> None:
    index = FolderIndex(notes)
    watcher = Watcher(index, every_s=0.05)

    def ids(text: str) -> list[str]:
        ranking: Any = watcher.engine.run([Query(text, 3, CallContext(0, "", {}))])[0]
        return [hit.passage.id for hit in ranking]

    key = watcher.engine.cache_key(Query("apple", 3, CallContext(0, "", {})))
    before = watcher.engine.fingerprint
    watcher.start()
    try:
        (notes / "b.md").write_text("A pear.")
        until(lambda: ids("pear") == ["b.md#00000"])
        until(lambda: "b.md#00000" in watcher.corpus)
        assert watcher.engine.fingerprint != before
        assert watcher.engine.cache_key(Query("apple", 3, CallContext(0, "", {}))) != key
        assert len(watcher.corpus) == 2
        assert watcher.corpus.digest == index.corpus.digest
        for path in notes.iterdir():  # nothing left: the last state is served on
            path.unlink()
        time.sleep(0.5)
        assert ids("pear") == ["b.md#00000"]
        (notes / "c.md").write_text("A plum.")
        until(lambda: ids("plum") == ["c.md#00000"])
        assert ids("pear") == []
    finally:
        watcher.stop()


def test_a_server_notices_a_new_file(start: Start, notes: Path) -> None:
    server = start(notes, "--watch")

    def found(text: str) -> list[str]:
        reply = server.post("/retrieve", {"queries": [text], "topk": 3, "return_scores": True})
        return [hit["document"]["id"] for hit in reply["result"][0]]

    assert found("apple") == ["a.md#00000"]
    assert found("pear") == []
    before = [server.client.get(path).json() for path in ("/healthz", "/stats")]
    (notes / "b.md").write_text("A pear.")
    until(lambda: found("pear") == ["b.md#00000"])
    for old, path in zip(before, ("/healthz", "/stats"), strict=True):
        new = server.client.get(path).json()
        assert (old["passages"], new["passages"]) == (1, 2)
        assert new["engine"] != old["engine"]
    (notes / "a.md").unlink()
    until(lambda: found("apple") == [])


def test_what_cannot_be_watched_is_refused(
    passage_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from searchgym.cli import run

    with pytest.raises(SystemExit) as stop:
        run(["serve", str(passage_file), "--watch", "--port", "0"])
    assert stop.value.code == 2
    assert "--watch is for a folder of documents" in capsys.readouterr().err
