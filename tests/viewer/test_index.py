"""The index: filters find what a scan finds, files that grow are read on, changed ones anew."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.core import write_jsonl
from searchgym.viewer.index import Index
from searchgym.viewer.query import Filter, Side, changes, listing, neighbours, same_task, tree
from searchgym.viewer.record import OUTCOMES, PROBLEMS, Record

from .runs import branched, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"), 40, ("rules", "random", "oracle"))


@pytest.fixture(scope="module")
def index(run: Path) -> Index:
    return Index(run)


def everything(index: Index) -> dict[str, Record]:
    found = {}
    for row in index.rows("SELECT key FROM episodes ORDER BY id"):
        record = index.record(row["key"])
        assert record is not None
        found[row["key"]] = record
    return found


@pytest.fixture(scope="module")
def records(index: Index) -> dict[str, Record]:
    return everything(index)


def test_each_key_finds_its_episode(index: Index, run: Path) -> None:
    lines = [
        json.loads(line)["id"]
        for path in sorted(run.glob("*.jsonl"))
        for line in path.open(encoding="utf-8")
    ]
    assert [r.id for r in everything(index).values()] == lines
    assert index.record("0" * 12) is None


TESTS: dict[str, Callable[[Record, str], bool]] = {
    "outcome": lambda r, v: r.outcome == v,
    "agent": lambda r, v: r.agent == v,
    "family": lambda r, v: r.family == v,
    "hops": lambda r, v: str(r.hops) == v,
    "tool": lambda r, v: any(v in t.tools for t in r.turns),
    "end": lambda r, v: r.end == v,
    "problem": lambda r, v: v in r.problems,
    "least": lambda r, v: r.reward is not None and r.reward >= float(v),
    "most": lambda r, v: r.reward is not None and r.reward <= float(v),
}
VALUES = {
    "outcome": st.sampled_from([*OUTCOMES]),
    "agent": st.sampled_from(["rules", "random", "oracle", "nobody"]),
    "family": st.sampled_from(["simple", "chain", "comparison"]),
    "hops": st.sampled_from(["1", "2", "3"]),
    "tool": st.sampled_from(["search", "access"]),
    "end": st.sampled_from(["answered", "max_turns"]),
    "problem": st.sampled_from([*PROBLEMS]),
    "least": st.sampled_from(["0", "0.5", "1"]),
    "most": st.sampled_from(["0", "0.5", "1"]),
}


@given(chosen=st.fixed_dictionaries({}, optional=VALUES))
def test_filters_find_what_a_scan_finds(
    index: Index, records: dict[str, Record], chosen: dict[str, str]
) -> None:
    expected = [
        key
        for key, record in records.items()
        if all(TESTS[name](record, value) for name, value in chosen.items())
    ]
    found = listing(index, Filter.of(chosen | {"sort": "files"}), size=1000)
    assert [row["key"] for row in found.rows] == expected
    assert found.total == len(expected)


def test_words_find_what_was_asked_written_and_shown(
    index: Index, records: dict[str, Record]
) -> None:
    for record in list(records.values())[::7]:
        hits = [hit for turn in record.turns for hit in turn.hits]
        for text in (record.question, record.turns[-1].text, *(h.text for h in hits[:1])):
            words = " ".join(text.replace("<", " ").split()[:4])
            keys = {row["key"] for row in listing(index, Filter.of({"q": words}), size=1000).rows}
            assert record.id in {index.record(k).id for k in keys}  # type: ignore[union-attr]
    assert listing(index, Filter.of({"q": "zzzz"})).total == 0


@given(st.text(max_size=60))
def test_no_search_is_an_error(index: Index, text: str) -> None:
    listing(index, Filter.of({"q": text, "agent": text, "hops": text, "least": text, "sort": text}))


def test_pages_and_neighbours_follow_the_list(index: Index) -> None:
    chosen = Filter.of({"agent": "rules", "sort": "-reward"})
    keys = [
        row["key"] for page in (1, 2, 3, 4) for row in listing(index, chosen, page, size=10).rows
    ]
    assert len(set(keys)) == len(keys) == 40
    assert listing(index, chosen, 99, size=10).page == 4
    for at in (0, 1, 20, 39):
        before, after = neighbours(index, chosen, at)
        assert before == (keys[at - 1] if at else None)
        assert after == (keys[at + 1] if at < 39 else None)


def test_changes_pair_by_question(index: Index, records: dict[str, Record]) -> None:
    rows = changes(index, Side("rules", None), Side("oracle", None))
    assert len(rows) == 40
    for row in rows:
        a, b = records[row["a_key"]], records[row["b_key"]]
        assert (a.agent, b.agent, a.task, b.task) == ("rules", "oracle", row["task"], row["task"])
        assert row["change"] == pytest.approx((b.correct or 0) - (a.correct or 0))
    assert [abs(r["change"]) for r in rows] == sorted(
        (abs(r["change"]) for r in rows), reverse=True
    )
    assert len(same_task(index, rows[0]["task"])) == 3


def test_a_tree_is_all_that_grew_from_one_root(tmp_path: Path) -> None:
    made = branched()
    write_jsonl(tmp_path / "t.trajectories.jsonl", made)
    index = Index(tmp_path)
    for start in made:
        found = tree(index, start.id, "t")
        assert [(b.row["episode"], b.depth, b.turn) for b in found] == [
            (made[0].id, 0, None), (made[1].id, 1, 1), (made[3].id, 2, 2), (made[2].id, 1, 1),
        ]  # fmt: skip
    assert tree(index, "nobody", "t") == []


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    made = [t.to_json() for t in branched()[:2]]
    made[0]["parent"] = [made[1]["id"], 0]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(m) + "\n" for m in made))
    assert len(tree(Index(path), made[0]["id"], "t")) == 2


def test_growing_and_changing_files(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "rules.trajectories.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:10]) + whole[10][:100])
    index = Index(tmp_path / "run")

    def count(agent: str = "rules") -> int:
        return listing(index, Filter.of({"agent": agent})).total

    assert count() == 10
    first = listing(index, Filter.of({"agent": "rules"})).rows[0]["key"]
    with path.open("ab") as file:
        file.write(whole[10][100:] + b"".join(whole[11:20]))
    read: list[int] = []
    index.refresh(read.append)
    assert count() == 20
    assert sum(read) == sum(map(len, whole[10:20])), "only what is new was read"
    assert listing(index, Filter.of({"agent": "rules"})).rows[0]["key"] == first
    path.write_bytes(b"".join(whole[5:12]))  # another file under the same name
    index.refresh()
    assert count() == 7
    assert [r.id for r in everything(index).values() if r.agent == "rules"] == [
        json.loads(line)["id"] for line in whole[5:12]
    ]
    path.unlink()
    again = Index(tmp_path / "run")
    assert listing(again, Filter.of({"agent": "rules"})).total == 0
    assert listing(again, Filter.of({"agent": "oracle"})).total == 40


def test_an_index_of_another_version_is_built_anew(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    path = Index(tmp_path / "run").path
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM episodes")
        db.execute("PRAGMA user_version = 99")
    assert listing(Index(tmp_path / "run"), Filter()).total == 120
    path.write_bytes(b"this is no database" * 1000)
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    assert listing(Index(tmp_path / "run"), Filter()).total == 120


def test_an_index_beside_the_run_is_not_believed(run: Path, tmp_path: Path) -> None:
    """A run's folder may come from somebody else: nothing is written there, or read as an index."""
    shutil.copytree(run, tmp_path / "run")
    index = Index(tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*"))
    with sqlite3.connect(index.path) as db:
        db.execute("UPDATE episodes SET correct = 1, outcome = 'right'")
    with sqlite3.connect(index.path) as db:
        db.execute("VACUUM INTO ?", (str(tmp_path / "run" / ".searchgym-view.sqlite"),))
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    wrong = Filter.of({"agent": "rules", "outcome": "wrong"})
    assert listing(Index(tmp_path / "elsewhere"), wrong).total == listing(Index(run), wrong).total


def test_an_edit_in_the_middle_is_noticed(run: Path, tmp_path: Path) -> None:
    """Of equal length, far from both ends, and with the old time of change set again."""
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "rules.trajectories.jsonl"
    index, before = Index(tmp_path / "run"), path.stat()
    data = bytearray(path.read_bytes())
    at = data.index(b'"question": "', len(data) // 2) + len(b'"question": "')
    assert 8192 < at < len(data) - 8192
    data[at : at + 5] = b"ZZZZZ"
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    index.refresh()
    assert listing(index, Filter.of({"q": "ZZZZZ"})).total >= 1
    assert listing(Index(tmp_path / "run"), Filter.of({"q": "ZZZZZ"})).total >= 1


def test_broken_records_are_counted_and_the_rest_is_shown(run: Path, tmp_path: Path) -> None:
    whole = (run / "rules.trajectories.jsonl").read_bytes().splitlines(keepends=True)
    record = json.loads(whole[0])
    wrong = [
        b'{"a": 1}\n', b"\0" * 100 + b"\n", os.urandom(64).replace(b"\n", b"") + b"\n",
        json.dumps(record | {"turns": [None]}).encode() + b"\n",
        json.dumps(record | {"answer": 5}).encode() + b"\n", b"[" * 100_000 + b"\n",
    ]  # fmt: skip
    path = tmp_path / "rules.trajectories.jsonl"
    path.write_bytes(wrong[0] + b"".join(whole[:20] + wrong[1:] + whole[20:]) + b"\0" * 5000)
    index = Index(tmp_path)
    assert listing(index, Filter()).total == 40
    offsets = [row["offset"] for row in index.broken()]
    assert len(offsets) == len(wrong)
    assert offsets[0] == 0
    assert "not a record of searchgym" in index.broken()[0]["told"]
    assert len(Index(tmp_path).broken()) == len(wrong), "counted once"


def test_a_line_without_an_end_is_a_broken_record(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("searchgym.viewer.formats.MOST_LINE", 1 << 20)
    whole = (run / "rules.trajectories.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "rules.trajectories.jsonl"
    path.write_bytes(whole[0] + b"x" * (3 << 20) + b"\n" + whole[1])
    index = Index(tmp_path)
    assert listing(index, Filter()).total == 2
    assert "longer than 1 MiB" in index.broken()[0]["told"]
