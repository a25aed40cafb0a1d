"""Evaluations that are killed, in real processes, and go on: nothing twice, nothing lost."""

from __future__ import annotations

import importlib
import json
import linecache
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym import ConstantAgent, FirstHitAgent, RandomAgent
from searchgym.agents import OracleAgent
from searchgym.core import read_jsonl
from searchgym.envs import SearchEnv
from searchgym.errors import DataError, EvaluationError
from searchgym.evaluation.journal import Journal, trajectories_of
from searchgym.evaluation.metrics import row_of
from searchgym.evaluation.play import How, play, questions_of
from searchgym.evaluation.result import EvalResult
from searchgym.evaluation.run import evaluate
from searchgym.types import Failure, TurnRequest
from tests.evaluation import killed
from tests.evaluation.killed import TASKS as MANY
from tests.small import CORPUS, TASKS

pytestmark = pytest.mark.contract

ROOT = Path(__file__).resolve().parents[2]


def start(out: Path, log: Path, workers: int = 1) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.evaluation.killed", str(out), str(log), str(workers)]
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE)


def recorded(out: Path) -> int:
    path = trajectories_of(out)
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def content(out: Path) -> dict[str, Any]:
    """All of a result but how long it took."""
    return {k: v for k, v in json.loads(out.read_text("utf-8")).items() if k != "duration_s"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "slow.json"
    process = start(out, out.parent / "log")
    assert process.wait(60) == 0
    assert EvalResult.load(out).complete
    return out


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_random_and_started_again(whole: Path, tmp_path: Path, workers: int) -> None:
    out, log = tmp_path / "slow.json", tmp_path / "log"
    dice = random.Random(workers)
    kills, most = 0, 3 - workers
    while True:
        before = recorded(out)
        process = start(out, log, workers)
        wanted = before + dice.randrange(3, 16) if kills < most else len(MANY) + 1
        while process.poll() is None and recorded(out) < wanted:
            time.sleep(0.002)
        if process.poll() is not None:
            break
        kept = [t.id for t in complete_lines(out)]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        assert [t.id for t in complete_lines(out)][: len(kept)] == kept, "what was there stays"
        assert not EvalResult.load(out).complete
    assert process.returncode == 0, process.stderr.read() if process.stderr else ""
    assert kills == most
    assert content(out) == content(whole)
    assert trajectories_of(out).read_bytes() == trajectories_of(whole).read_bytes()
    played = log.read_text().split()
    ids = [t.id for t in read_jsonl(trajectories_of(out))]
    assert len(ids) == len(set(ids)) == len(MANY)
    assert set(played) == set(ids)
    # begun twice was only what a kill found half-done: at most a batch each time
    assert len(played) - len(ids) <= 4 * kills


def complete_lines(out: Path) -> list[Any]:
    path = trajectories_of(out)
    lines = path.read_bytes().split(b"\n")[:-1]
    copy = out.parent / "copy.jsonl"
    copy.write_bytes(b"".join(line + b"\n" for line in lines))
    return list(read_jsonl(copy))


def test_a_killed_worker_is_told_and_what_was_done_is_kept(whole: Path, tmp_path: Path) -> None:
    out, log = tmp_path / "slow.json", tmp_path / "log"
    process = start(out, log, 2)
    while process.poll() is None and recorded(out) < 5:
        time.sleep(0.002)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.is_file():
        process.kill()
        pytest.skip("needs Linux's list of a process's children")
    spawned = [
        int(pid)
        for pid in children.read_text().split()
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(spawned[0], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"a worker died (exit code -9" in err, err.decode()
    assert recorded(out) >= 5
    assert start(out, log).wait(60) == 0  # in any number of processes
    assert content(out) == content(whole)


# --- in this process --------------------------------------------------------------------------
def _setting(**keywords: object) -> SearchEnv:
    return SearchEnv(**{"corpus": CORPUS, "tasks": TASKS, **keywords})


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """The trajectories of a small evaluation."""
    shared, found = _setting(), []
    play(
        FirstHitAgent(), shared, questions_of(shared, shared.tasks), How(0, record=True),
        lambda done: found.extend(line.encode() for _, line in done),
    )  # fmt: skip
    return found


@given(st.data())
def test_a_file_cut_anywhere_keeps_its_whole_lines(
    lines: list[bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = b"".join(lines)
    at = data.draw(st.integers(0, len(text)))
    path = tmp_path_factory.mktemp("cut") / "a.trajectories.jsonl"
    path.write_bytes(text[:at])
    with Journal(path) as journal:
        whole = text[:at].count(b"\n")
        assert len(journal.rows) == whole
        assert path.read_bytes() == b"".join(lines[:whole])
        missing = lines[whole:]
        journal.add([(row_of_line(line), line.decode()) for line in missing])
    assert path.read_bytes() == text
    with Journal(path) as journal:
        assert list(journal.rows) == [t.id for t in TASKS]


def row_of_line(line: bytes) -> Any:
    from searchgym.core import from_line

    played = from_line(line, "test")
    return row_of(played.replay(), played.usage)


def test_broken_files_are_named(lines: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "a.trajectories.jsonl"
    path.write_bytes(b"{}\n" + lines[0])
    with pytest.raises(DataError, match=r"a\.trajectories\.jsonl:1: not a trajectory"):
        Journal(path)
    path.write_bytes(lines[0] + lines[0])
    with pytest.raises(DataError, match=r":2: question 't1' occurs twice"):
        Journal(path)
    path.write_bytes(lines[0])
    with Journal(path), pytest.raises(EvaluationError, match="written by another process"):
        Journal(path)
    Journal(path).close()


def test_another_run_in_the_folder_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    first = evaluate(FirstHitAgent(), _setting(k=1), out=out)
    with pytest.raises(EvaluationError, match=r"rules\.k \(1 and 3\).*--fresh"):
        evaluate(FirstHitAgent(), _setting(k=3), out=out)
    with pytest.raises(EvaluationError, match=r"seed \(0 and 1\)"):
        evaluate(FirstHitAgent(), _setting(k=1), out=out, seed=1)
    with pytest.raises(EvaluationError, match=r"agent\.class"):
        evaluate(ConstantAgent(), _setting(k=1), out=out)
    with pytest.raises(EvaluationError, match=r"questions\.count \(2 and 1\)"):
        evaluate(FirstHitAgent(), _setting(k=1), out=out, tasks=TASKS[:1])
    assert EvalResult.load(out).rows == first.rows, "refusing changes nothing"
    wide = evaluate(FirstHitAgent(), _setting(k=3), out=out, fresh=True)
    assert EvalResult.load(out).settings["rules"]["k"] == 3
    assert len(list(read_jsonl(trajectories_of(out)))) == len(wide.rows) == 2
    out.unlink()
    with pytest.raises(EvaluationError, match=r"no a\.json that says of which run"):
        evaluate(FirstHitAgent(), _setting(k=3), out=out)
    out.write_text("{", "utf-8")
    with pytest.raises(EvaluationError, match="not an evaluation result"):
        evaluate(FirstHitAgent(), _setting(k=3), out=out)


def test_another_agent_of_the_same_class_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    evaluate(RandomAgent(), _setting(), out=out)
    assert "made" not in EvalResult.load(out).settings["agent"]
    with pytest.raises(EvaluationError, match=r"agent\.made\.seed \(null and 5\)"):
        evaluate(RandomAgent(seed=5), _setting(), out=out)


def test_agents_and_tools_whose_code_has_changed_are_refused(tmp_path: Path) -> None:
    """Ours are known by their version; others by their source."""
    own = tmp_path / "own_parts_of_a_test.py"
    sys.path.insert(0, str(tmp_path))
    try:
        for at, (agent, tool) in enumerate([("x", "a"), ("y", "a"), ("x", "b")]):
            own.write_text(
                f"def agent(prompt):\n    return '<answer> {agent} </answer>'\n"
                f"def look(word: str) -> str:\n    'Look a word up.'\n    return '{tool}'\n"
            )
            importlib.invalidate_caches()
            sys.modules.pop(own.stem, None)
            linecache.clearcache()
            made = importlib.import_module(own.stem)
            env = _setting(tools=["search", made.look], dialect="json_tools")
            if not at:
                evaluate(made.agent, env, out=str(tmp_path / "r.json"))
                evaluate(made.agent, env, out=str(tmp_path / "r.json"))
                continue
            changed = r"agent\.sources" if agent == "y" else r"sources\."
            with pytest.raises(EvaluationError, match=changed):
                evaluate(made.agent, env, out=str(tmp_path / "r.json"))
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop(own.stem, None)


@pytest.mark.parametrize("complete", [True, False])
def test_a_run_is_continued_with_more_questions(tmp_path: Path, complete: bool) -> None:
    """Wherever the first ones stand among them; the result is that of asking all at once."""
    shared = SearchEnv(**{"corpus": CORPUS, "tasks": MANY})
    grown, once = tmp_path / "grown.json", tmp_path / "once.json"
    evaluate(ConstantAgent(), shared, name="a", out=once)
    evaluate(ConstantAgent(), shared, name="a", out=grown, tasks=MANY[1::3])
    if not complete:  # as a kill leaves it
        text = grown.read_text("utf-8").replace('"complete": true', '"complete": false')
        grown.write_text(text, "utf-8")
        kept = trajectories_of(grown).read_bytes().splitlines(keepends=True)[:2]
        trajectories_of(grown).write_bytes(b"".join(kept))
    new = []
    evaluate(ConstantAgent(), shared, name="a", out=grown, tasks=MANY, progress=new.append)
    assert new[0] == (len(MANY[1::3]) if complete else 2), "what is on record is not played again"
    assert sum(new) == len(MANY)
    assert content(grown) == content(once)
    assert trajectories_of(grown).read_bytes() == trajectories_of(once).read_bytes()


def test_a_growing_run_that_dies_keeps_what_it_had(tmp_path: Path) -> None:
    class Dies(FirstHitAgent):
        def act(self, requests: Sequence[TurnRequest]) -> list[str]:
            raise RuntimeError("as a kill: nothing is saved afterwards")

    shared = SearchEnv(**{"corpus": CORPUS, "tasks": MANY})
    out = tmp_path / "a.json"
    evaluate(FirstHitAgent(), shared, name="a", out=out, tasks=MANY[:4])
    Dies.__module__, Dies.__qualname__ = FirstHitAgent.__module__, FirstHitAgent.__qualname__
    with pytest.raises(RuntimeError, match="as a kill"):
        evaluate(Dies(), shared, name="a", out=out, tasks=MANY)
    left = EvalResult.load(out)
    assert not left.complete
    assert [row.task_id for row in left.rows] == [task.id for task in MANY[:4]]


def test_the_machine_noted_is_the_one_that_played(tmp_path: Path) -> None:
    out, note = tmp_path / "a.json", tmp_path / "machine.json"
    shared = SearchEnv(**{"corpus": CORPUS, "tasks": MANY})
    evaluate(FirstHitAgent(), shared, out=out, tasks=MANY[:2])
    assert "processor" in note.read_text("utf-8")
    note.write_text("{}", "utf-8")
    evaluate(FirstHitAgent(), shared, out=out, tasks=MANY[:2])
    assert note.read_text("utf-8") == "{}", "nothing was played"


def test_a_run_grows_by_no_other_questions(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    shared = SearchEnv(**{"corpus": CORPUS, "tasks": MANY})
    evaluate(ConstantAgent(), shared, out=out, tasks=MANY[:3])
    before = out.read_bytes(), trajectories_of(out).read_bytes()
    reworded = [replace(task, question=task.question + " Say.") for task in MANY]
    for others in (MANY[1:], reworded):
        with pytest.raises(EvaluationError, match=r"holds 3 episodes, of which .* answer none of"):
            evaluate(ConstantAgent(), shared, out=out, tasks=others)
    with pytest.raises(EvaluationError, match=r"rules\.k"):
        evaluate(ConstantAgent(), SearchEnv(**{"corpus": CORPUS, "tasks": MANY, "k": 1}), out=out)
    with pytest.raises(EvaluationError, match=r"agent\.fingerprint .*unanswerable.*Quell"):
        evaluate(ConstantAgent("Quell"), shared, out=out)
    assert before == (out.read_bytes(), trajectories_of(out).read_bytes())


class _Counts:
    fingerprint = "counts"

    def __init__(self, down: bool = False) -> None:
        self.asked, self.down = 0, down

    def act(self, requests: Sequence[TurnRequest], /) -> list[str | Failure]:
        self.asked += len(requests)
        if self.down:
            return [Failure("unavailable", "down") for _ in requests]
        return list(ConstantAgent("Quell").act(requests))


def test_a_finished_run_is_read_and_lost_episodes_may_be_retried(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    agent = _Counts(down=True)
    first = evaluate(agent, _setting(), out=out)
    assert first.infra_errors == agent.asked == 2
    again = evaluate(agent, _setting(), out=out)
    assert repr(again.rows) == repr(first.rows)  # as text: what was lost is not a number
    assert agent.asked == 2, "lost episodes are not played again unasked"
    up = _Counts()
    again = evaluate(up, _setting(), out=out, retry_lost=True)
    assert (again.infra_errors, up.asked) == (0, 2)
    assert [t.end for t in read_jsonl(trajectories_of(out))] == ["answered", "answered"]
    assert evaluate(up, _setting(), out=out, retry_lost=True).rows == again.rows
    assert up.asked == 2


def test_rows_made_again_from_the_record_are_the_same(tmp_path: Path) -> None:
    """The result without ``out``, with it, and of a run that finds every episode recorded."""
    shared, out = _setting(tools=("search", "access"), dialect="asearcher"), tmp_path / "a.json"
    plain = evaluate(OracleAgent(TASKS), shared, name="a")
    kept = evaluate(OracleAgent(TASKS), shared, name="a", out=out)
    text = out.read_text("utf-8").replace('"complete": true', '"complete": false')
    out.write_text(text, "utf-8")
    again = evaluate(OracleAgent(TASKS), shared, name="a", out=out)
    assert plain.rows == kept.rows == again.rows
    assert plain == again


# --- processes --------------------------------------------------------------------------------
def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    shared = SearchEnv(**{"corpus": CORPUS, "tasks": MANY})
    for n in (1, 3):
        evaluate(RandomAgent(7), shared, name="r", out=tmp_path / f"{n}" / "r.json", workers=n)
    one, three = tmp_path / "1" / "r.json", tmp_path / "3" / "r.json"
    assert content(one) == content(three)
    assert trajectories_of(one).read_bytes() == trajectories_of(three).read_bytes()


def test_workers_that_fail_say_why() -> None:
    shared = SearchEnv(**{"corpus": CORPUS, "tasks": MANY})
    with pytest.raises(EvaluationError, match="cannot be sent to other processes"):
        evaluate(_Local(lambda: None), shared, workers=2)
    with pytest.raises(EvaluationError, match="a worker failed: no model here"):
        evaluate(ConstantAgent(), shared, workers=2, build=killed.unable)
    with pytest.raises(EvaluationError, match=r"(?s)a worker failed: Traceback.*server hung up"):
        evaluate(ConstantAgent(), shared, workers=2, build=killed.cut_off)
    with pytest.raises(EvaluationError, match=r"(?s)a worker failed: Traceback.*'act'"):
        evaluate(ConstantAgent(), shared, workers=2, build=killed.broken)


class _Local(ConstantAgent):
    def __init__(self, what: Any) -> None:
        super().__init__()
        self.what = what
