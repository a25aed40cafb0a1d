"""A run's folder: one training at a time, no broken line or full disk ends in a traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from searchgym.errors import DataError
from searchgym.llms import SftConfig, SftTrainer, encode, train
from searchgym.rl.log import LOG, Log, read_log
from searchgym.rl.run_folder import ROLLOUTS
from searchgym.storage import FolderLock, write_whole
from searchgym_agents.candidate.training import CandidateRecipe, SeedTrainer
from tests.rl.colours import blank, tokenizer
from tests.rl.trainers import trainer

ROOT = Path(__file__).parents[2]
RECIPE = {"rollout": {"use": "chains", "size": 3}, "advantage": "grpo", "loss": "ppo"}
BUSY = "being written by another training"


def holding(folder: Path, name: str = ".lock") -> subprocess.Popen[str]:
    """A process that holds the lock on a folder."""
    code = (
        "import sys, time\nfrom searchgym.storage.files import FolderLock\n"
        f"lock = FolderLock({str(folder)!r}, {name!r})\nlock.acquire()\nprint('held', flush=True)\n"
        "time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    other = holding(tmp_path)
    try:
        with pytest.raises(DataError, match=rf"{BUSY} \(process {other.pid}\)"):
            FolderLock(tmp_path).acquire()
        other.send_signal(signal.SIGKILL)
        other.wait()
        with FolderLock(tmp_path) as lock:
            assert lock.held
        assert not lock.held
    finally:
        other.kill()


def test_a_lock_is_counted_and_leaves_no_folder_of_a_failed_start(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "new")
    with lock, lock:
        pass
    assert not lock.held
    assert (tmp_path / "new").is_dir()
    with pytest.raises(RuntimeError), FolderLock(tmp_path / "failed"):
        raise RuntimeError
    assert not (tmp_path / "failed").exists()
    with pytest.raises(RuntimeError), FolderLock(tmp_path / "new"):
        raise RuntimeError
    assert (tmp_path / "new").is_dir(), "it was there before"


def test_two_trainings_of_a_language_model(tmp_path: Path) -> None:
    first, second = (trainer(RECIPE, steps=2, tasks=2, out=tmp_path) for _ in range(2))
    steps = first.train()
    next(steps)
    with pytest.raises(DataError, match=BUSY):
        next(second.train())
    with pytest.raises(DataError, match=BUSY):
        trainer(RECIPE, steps=2, tasks=2, out=tmp_path)
    list(steps)
    assert [row["step"] for row in read_log(tmp_path)] == [0, 1], "written by one of them alone"
    with pytest.raises(DataError, match=r"has written .* since this trainer was made"):
        next(second.train())
    third = trainer(RECIPE, steps=3, tasks=2, out=str(tmp_path))
    assert [m["step"] for m in third.train()] == [2]


def test_a_supervised_training_and_a_candidate(tmp_path: Path) -> None:
    run = SftTrainer(blank(), encode(tokenizer(), [("a", "b")] * 4, 50), SftConfig(steps=1))
    recipe = CandidateRecipe({"corpus": "encyclopedia"}, encoder={"none": True})
    others = [holding(tmp_path / "sft"), holding(tmp_path / "agent" / "agents", ".seed-3.lock")]
    try:
        with pytest.raises(DataError, match=BUSY):
            train(run, tokenizer(), tmp_path / "sft")
        with pytest.raises(DataError, match=BUSY):
            SeedTrainer(recipe, tmp_path / "agent").train(3)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert run.step == 0
    assert train(run, tokenizer(), str(tmp_path / "sft")).step == 1


def test_broken_lines_of_rollouts_and_log_do_not_end_a_run(tmp_path: Path) -> None:
    def run(steps: int) -> None:
        options = {"save_every": 1, "save_rollouts": 2}
        list(trainer(RECIPE, steps=steps, tasks=2, out=tmp_path, **options).train())

    run(2)
    rollouts, log = tmp_path / ROLLOUTS, tmp_path / LOG
    lines = rollouts.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    rollouts.write_text("{broken\n" + lines[0] + '{"no": "training"}\n' + "".join(lines[1:]))
    log.write_bytes(b"\xff\n" + log.read_bytes())
    with pytest.warns(UserWarning, match=r"dropped 2 line\(s\) that cannot be read"):
        run(3)
    assert [json.loads(line)["training"]["step"] for line in rollouts.open()] == [0, 0, 1, 1, 2, 2]
    assert [row["step"] for row in read_log(tmp_path)] == [0, 1, 2]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    (tmp_path / LOG).symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"rl\.jsonl cannot be written: No space left on device"):
        Log(tmp_path / LOG).write({"step": 0.0})
    (tmp_path / f"text.{threading.get_native_id()}.part").symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"text cannot be written: No space left"):
        write_whole(tmp_path / "text", "x" * 100)
    assert not list(tmp_path.glob("text*"))


def test_a_checkpoint_that_does_not_fit_keeps_the_old_one(tmp_path: Path) -> None:
    """Files may grow to 20,000 bytes: as on a full disk, writing more is an error."""
    code = textwrap.dedent(f"""
        import resource, torch
        from pathlib import Path
        from searchgym.errors import DataError
        from searchgym.storage.checkpoint import read_state, write_state
        path = Path({str(tmp_path / "state")!r})
        write_state(path, {{"a": torch.ones(3)}}, {{"step": 1}})
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        try:
            write_state(path, {{"a": torch.ones(100_000)}}, {{"step": 2}})
        except DataError as error:
            print("one line:", error)
        print(read_state(path, "a test")[1], sorted(p.name for p in path.parent.iterdir()))
    """)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert re.fullmatch(r"one line: \S+/state cannot be written: .*File too large.*", first), first
    assert second == "{'step': 1} ['state']", "and no half of one lies about"
