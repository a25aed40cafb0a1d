"""Work that is shared out among processes comes back in order, and ends with who asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from searchgym.storage import write_whole
from searchgym.utils.processes import mapped


def slow_square(x: int) -> tuple[int, int]:
    time.sleep(0.02 * (3 - x % 4))
    return x * x, os.getpid()


def failing(x: int) -> int:
    if x == 3:
        raise ValueError("three")
    return x


def test_results_come_in_order_from_several_processes() -> None:
    found = list(mapped(slow_square, range(12), 2))
    assert [square for square, _ in found] == [x * x for x in range(12)]
    others = {process for _, process in found}
    assert len(others) == 2
    assert os.getpid() not in others


TEXTS = ["a" * 9_000, "b" * 40]


def written_often(text: str, path: Path) -> str:
    for _ in range(100):
        write_whole(path, text)
        assert path.read_text() in TEXTS
    return text


def test_processes_may_write_one_file_at_once(tmp_path: Path) -> None:
    work = partial(written_often, path=tmp_path / "machine.json")
    assert list(mapped(work, TEXTS, 2)) == TEXTS
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(work, TEXTS)) == TEXTS
    assert [path.name for path in tmp_path.iterdir()] == ["machine.json"]


@pytest.mark.parametrize(("things", "processes"), [(range(5), 1), (range(1), 4)])
def test_one_process_or_one_thing_is_done_here(things: range, processes: int) -> None:
    found = list(mapped(slow_square, things, processes))
    assert found == [(x * x, os.getpid()) for x in things]
    assert list(mapped(slow_square, range(0), 4)) == []


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_is_the_callers(processes: int) -> None:
    found: list[int] = []
    with pytest.raises(ValueError, match="three"):
        found.extend(mapped(failing, range(50), processes))
    assert found == [0, 1, 2]


SCRIPT = """
import os, sys, time
from searchgym.storage.files import write_whole
from searchgym.utils.processes import mapped

def work(x):
    print(os.getpid(), flush=True)
    time.sleep(1000)

if __name__ == "__main__":
    list(mapped(work, range(2), 2))
"""


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    assert not any(gone(worker) for worker in workers)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 20
    while not all(gone(worker) for worker in workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert all(gone(worker) for worker in workers)
    parent.stdout.close()
