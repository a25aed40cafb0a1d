"""Recordings: same bytes without the service, nothing acknowledged lost, nothing asked twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from searchgym.engines import build_engine
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.pages import CorpusPages
from searchgym.engines.recorded import RecordedEngine, RecordedPages, RecordedService
from searchgym.envs import SearchEnv, SearchVectorEnv
from searchgym.errors import DataError, EngineError
from searchgym.types import (
    CallContext,
    Charged,
    ChargedPage,
    Failure,
    Hit,
    Page,
    PageRequest,
    Passage,
    Query,
    Ranking,
)

from ..small import CORPUS, PASSAGES, TASKS

CONTEXT = CallContext(0, "e", {})
TEXTS = (
    "Aldor founder",
    "Quell",
    "a painter born",
    "",
    "städtchen 東京",
    "\ud800 lone",
    "Aldor  founder",
)


def queries(*texts: str, k: int = 3) -> list[Query]:
    return [Query(text, k, CONTEXT) for text in texts]


class Counting:
    """An engine that notes what it is asked, and is slow or down on request."""

    needs_task = False

    def __init__(self, fingerprint: str = "counting", wait: float = 0.0) -> None:
        self.fingerprint, self.wait = fingerprint, wait
        self.asked: list[str] = []
        self.guard = threading.Lock()
        self.down = False

    def cache_key(self, request: Query, /) -> bytes | None:
        return f"{request.k}\0{request.text}".encode("utf-8", "surrogatepass")

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        with self.guard:
            self.asked += [query.text for query in batch]
        time.sleep(self.wait)
        if self.down:
            return [Failure("unavailable", "down") for _ in batch]
        return [(Hit(Passage(q.text, "T", f"about {q.text}", "u"), 0.1 + q.k),) for q in batch]


class Absent:
    """Must not be asked."""

    needs_task = False

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def cache_key(self, request: Query, /) -> bytes | None:
        return b"x"

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        raise AssertionError("a replay asked the service")


def test_a_replay_gives_the_same_bytes_without_the_engine(tmp_path: Path) -> None:
    engine = BM25Engine(CORPUS)
    live = engine.run(queries(*TEXTS))
    with_record = RecordedEngine(engine, tmp_path / "r.sqlite", mode="record")
    assert with_record.run(queries(*TEXTS)) == live
    with_record.close()
    for inner in (None, Absent(engine.fingerprint)):
        replay = RecordedEngine(inner, tmp_path / "r.sqlite", mode="replay")
        assert replay.run(queries(*TEXTS)) == live
        assert replay.fingerprint == with_record.fingerprint
        one_by_one = [replay.run([q])[0] for q in queries(*reversed(TEXTS))]
        assert one_by_one == live[::-1]
        replay.close()


def test_a_miss_is_a_configuration_error_that_says_what_to_type(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    RecordedEngine(BM25Engine(CORPUS), path, mode="record").run(queries("Quell"))
    replay = RecordedEngine(None, path, mode="replay")
    hit, miss, other_k = replay.run([*queries("Quell", "Osten"), *queries("Quell", k=4)])
    assert not isinstance(hit, Failure)
    for failure, named in ((miss, "'Osten' with k=3"), (other_k, "'Quell' with k=4")):
        assert isinstance(failure, Failure)
        assert failure.kind == "cache_miss"
        assert not failure.retryable
        assert named in failure.message
        assert "mode='replay_or_live'" in failure.message
    assert replay.stats() == {"asked": 0, "answered": 1, "missed": 2, "recorded": 1}


def test_a_miss_ends_the_episode_at_once_unscored(tmp_path: Path) -> None:
    path = str(tmp_path / "r.sqlite")
    engine = {"name": "recorded", "engine": "bm25", "path": path}
    live = SearchEnv(corpus=CORPUS, tasks=TASKS, engine=engine)
    live.reset(seed=0, options={"task_id": "t1"})
    shown = live.step("<search>Aldor founder</search>")[0]
    replay = SearchEnv(
        corpus=CORPUS, tasks=TASKS, engine={"name": "recorded", "path": path, "mode": "replay"}
    )
    replay.reset(seed=0, options={"task_id": "t1"})
    assert replay.step("<search>Aldor founder</search>")[0] == shown
    _, reward, terminated, truncated, info = replay.step("<search>never asked</search>")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["outcome"]["infra_error"]
    assert "retries" not in info, "a miss is not tried again"


def test_replay_or_live_asks_only_what_is_new_and_records_no_failure(tmp_path: Path) -> None:
    inner = Counting()
    recorded = RecordedEngine(inner, tmp_path / "r.sqlite")
    recorded.run(queries("a", "b", "a", "a"))
    assert inner.asked == ["a", "b"]
    recorded.run(queries("a", "c"))
    assert inner.asked == ["a", "b", "c"]
    inner.down = True
    kept, failed = recorded.run(queries("b", "d"))
    assert not isinstance(kept, Failure)
    assert failed == Failure("unavailable", "down")
    inner.down = False
    assert not isinstance(recorded.run(queries("d"))[0], Failure)
    assert inner.asked == ["a", "b", "c", "d", "d"]
    assert recorded.stats()["recorded"] == 4
    again = RecordedEngine(inner, tmp_path / "r.sqlite", mode="record")
    again.run(queries("a"))
    assert inner.asked[-1] == "a", "mode 'record' asks every time"


def test_what_is_being_asked_is_waited_for_not_asked_again(tmp_path: Path) -> None:
    inner = Counting(wait=0.2)
    recorded = RecordedEngine(inner, tmp_path / "r.sqlite")
    answers: dict[int, Any] = {}

    def work(i: int) -> None:
        texts = ["x", "y"] if i % 2 else ["y", "x"]  # crossed orders must not deadlock
        answers[i] = recorded.run(queries(*texts))[:: 1 if i % 2 else -1]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(answers) == 12
    assert sorted(inner.asked) == ["x", "y"]
    assert all(answer == answers[0] for answer in answers.values())


def test_waiting_for_a_call_that_fails_gives_its_failure(tmp_path: Path) -> None:
    inner = Counting(wait=0.2)
    inner.down = True
    recorded = RecordedEngine(inner, tmp_path / "r.sqlite")
    got: list[Any] = []
    threads = [
        threading.Thread(target=lambda: got.append(recorded.run(queries("x"))[0])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert got == [Failure("unavailable", "down")] * 4
    assert inner.asked == ["x"]
    assert recorded.stats()["recorded"] == 0


def test_recordings_of_several_services_share_a_file_and_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    one, two = BM25Engine(CORPUS), BM25Engine(CORPUS, k1=2.0)
    first, second = RecordedEngine(one, path), RecordedEngine(two, path)
    (a,), (b,) = first.run(queries("Aldor founder")), second.run(queries("Aldor founder"))
    assert a != b
    assert second.run(queries("Aldor founder")) == [b]
    with pytest.raises(EngineError, match="2 recordings; choose one with 'fingerprint'"):
        RecordedEngine(None, path, mode="replay")
    chosen = RecordedEngine(None, path, mode="replay", fingerprint=two.fingerprint)
    assert chosen.run(queries("Aldor founder")) == [b]
    with pytest.raises(EngineError, match="unknown recording 'nope'"):
        RecordedEngine(None, path, mode="replay", fingerprint="nope")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "rewind"}, "unknown recording mode 'rewind'"),
        ({"mode": "record", "inner": None}, "needs something to ask"),
        ({"fingerprint": "x"}, "leave one of them out"),
    ],
)
def test_wrong_options_are_one_clear_error(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    inner = options.pop("inner", Counting())
    with pytest.raises(EngineError, match=message):
        RecordedEngine(inner, tmp_path / "r.sqlite", **options)


def test_wrong_files_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no store at"):
        RecordedEngine(None, tmp_path / "absent.sqlite", mode="replay")
    (tmp_path / "text").write_text("not a database, but long enough to be looked at " * 40)
    with pytest.raises(DataError, match="is not a store"):
        RecordedEngine(Counting(), tmp_path / "text")
    RecordedPages(CorpusPages(CORPUS), tmp_path / "pages.sqlite").close()
    with pytest.raises(EngineError, match="no recording of kind 'search'"):
        RecordedEngine(None, tmp_path / "pages.sqlite", mode="replay")
    with pytest.raises(EngineError, match="needs something to ask: give 'engine'"):
        build_engine({"name": "recorded", "path": str(tmp_path / "new.sqlite")}, CORPUS)


class ByKey(Counting):
    """An engine whose answers depend on the episode, as a simulated engine's do."""

    def cache_key(self, request: Query, /) -> bytes | None:
        return f"{request.ctx.key}\0{request.text}".encode()


def test_an_answer_that_depends_on_the_episode_is_recorded_per_episode(tmp_path: Path) -> None:
    inner = ByKey()
    recorded = RecordedEngine(inner, tmp_path / "r.sqlite")
    here, there = CallContext(1, "a", {}), CallContext(2, "b", {})
    recorded.run([Query("x", 3, here), Query("x", 3, there), Query("x", 3, here)])
    assert inner.asked == ["x", "x"]
    replay = RecordedEngine(None, tmp_path / "r.sqlite", mode="replay")
    (miss,) = replay.run([Query("x", 3, CallContext(3, "c", {}))])
    assert isinstance(miss, Failure)
    (retried,) = replay.run([Query("x", 3, here._replace(attempt=1))])
    assert not isinstance(retried, Failure), "a retry is the same request"


def test_degraded_engines_are_not_recorded_but_recordings_are_degraded(tmp_path: Path) -> None:
    path = str(tmp_path / "r.sqlite")
    inside_out = {"name": "recorded", "path": path, "engine": {"name": "degraded", "noise": 0.5}}
    with pytest.raises(EngineError, match="turn it round"):
        build_engine(inside_out, CORPUS)
    right = {"name": "degraded", "noise": 0.5, "engine": {"name": "recorded", "path": path,
             "engine": "bm25"}}  # fmt: skip
    engine = build_engine(right, CORPUS)
    asked = [Query("Aldor founder", 3, CallContext(i, f"e{i}", {})) for i in range(20)]
    live = engine.run(asked)
    right["engine"] = {"name": "recorded", "path": path, "mode": "replay"}
    assert build_engine(right, CORPUS).run(asked) == live
    assert len({tuple(h.passage.id for h in r) for r in live}) > 1  # type: ignore[union-attr]


def test_costs_notes_and_absent_pages_are_replayed(tmp_path: Path) -> None:
    class Paid(Counting):
        def run(self, batch: Sequence[Query], /) -> list[Any]:
            return [Charged(hits, 0.25, {"said": ["x"]}) for hits in super().run(batch)]  # type: ignore[arg-type]

        def pages(self, default: Any) -> Any:
            return PaidPages()

    class PaidPages:
        needs_task = False
        fingerprint = "paid pages"

        def cache_key(self, request: PageRequest, /) -> bytes | None:
            return request.url.encode()

        def run(self, batch: Sequence[PageRequest], /) -> list[Page | None]:
            page = Page("u", "T", "text\udfff", ("1",))
            return [ChargedPage.of(page, 0.5) if r.url == "u" else None for r in batch]

    path = tmp_path / "r.sqlite"
    recorded = RecordedEngine(Paid(), path)
    default = CorpusPages(CORPUS)
    requests = [PageRequest("u", CONTEXT), PageRequest("v", CONTEXT)]
    live = (recorded.run(queries("a")), recorded.pages(default).run(requests))
    replay = RecordedEngine(None, path, mode="replay")
    again = (replay.run(queries("a")), replay.pages(default).run(requests))
    for ranking, (page, none) in (live, again):
        assert isinstance(ranking[0], Charged)
        assert (ranking[0].cost, ranking[0].meta) == (0.25, {"said": ["x"]})
        assert isinstance(page, ChargedPage)
        assert (page.cost, page.text, none) == (0.5, "text\udfff", None)
    assert live == again
    plain = RecordedEngine(Counting("plain"), tmp_path / "p.sqlite")
    assert plain.pages(default) is default, "the corpus's own pages need no recording"


def test_a_vector_env_over_a_recording_equals_the_live_one(tmp_path: Path) -> None:
    path = str(tmp_path / "r.sqlite")
    modes: list[Any] = ["bm25", {"name": "recorded", "engine": "bm25", "path": path},
                        {"name": "recorded", "path": path, "mode": "replay"}]  # fmt: skip
    seen = []
    for engine in modes:
        env = SearchVectorEnv(4, corpus=CORPUS, tasks=TASKS, engine=engine)
        steps = [env.reset(seed=1)[0]]
        for text in ("Aldor founder", "Mira Venn born", "Quell"):
            steps.append(env.step([f"<search>{text}</search>"] * 4)[0])
        seen.append(steps)
    assert seen[0] == seen[1] == seen[2]


WRITER = """
import sys
from searchgym.engines.recorded import RecordedEngine
from searchgym.types import CallContext, Hit, Passage, Query

class Engine:
    needs_task, fingerprint = False, "child"
    def cache_key(self, request): return f"{request.k} {request.text}".encode()
    def run(self, batch):
        return [(Hit(Passage(q.text, "T", "x" * 2000, "u"), 1.0),) for q in batch]

engine = RecordedEngine(Engine(), sys.argv[1])
for i in range(10**6):
    batch = [Query(f"q{i}-{j}", 3, CallContext(0, "e", {})) for j in range(1 + i % 5)]
    answers = engine.run(batch)
    print(i, flush=True)  # acknowledged
"""


@pytest.mark.contract
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    done = 0
    for round in range(2):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for line in child.stdout:
            done = int(line)
            if done >= 40 * (round + 1) + 7 * round:
                break
        os.kill(child.pid, signal.SIGKILL)
        rest = child.stdout.read().split()  # acknowledged before the kill arrived
        child.wait()
        done = max([done, *[int(x) for x in rest if x.isdigit()]])
        assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
        replay = RecordedEngine(None, path, mode="replay")
        for i in range(done + 1):
            batch = queries(*[f"q{i}-{j}" for j in range(1 + i % 5)])
            assert [r[0].passage.id for r in replay.run(batch)] == [q.text for q in batch]  # type: ignore[union-attr]
        replay.close()
    assert done >= 40


def test_the_first_answer_kept_is_everybodys(tmp_path: Path) -> None:
    """Two processes that ask the same at the same time end up with one answer."""

    class Fickle(Counting):
        def __init__(self, name: str) -> None:
            super().__init__(wait=0.1)
            self.name = name

        def run(self, batch: Sequence[Query], /) -> list[Any]:
            super().run(batch)
            return [(Hit(PASSAGES[0]._replace(text=self.name), 1.0),) for _ in batch]

    path = tmp_path / "r.sqlite"
    pair = [RecordedEngine(Fickle(name), path) for name in ("one", "two")]  # as two processes do
    got: list[Any] = [None, None]
    threads = [
        threading.Thread(target=lambda i=i: got.__setitem__(i, pair[i].run(queries("x"))))
        for i in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert got[0] == got[1]
    assert [r.inner.asked for r in pair] == [["x"], ["x"]]  # type: ignore[union-attr]


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    recorded: RecordedService[Any, Any] = RecordedEngine(BM25Engine(CORPUS), tmp_path / "r.sqlite")
    recorded.run(queries("Quell"))
    ((_, value),) = recorded.store.items("recorded-search")
    entry = json.loads(value)
    assert entry["request"] == ["Quell", 3]
    assert entry["result"]["hits"][0][0] == "p3"
