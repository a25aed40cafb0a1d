"""Processes of the command line that begin with the libraries loaded: one process imports torch
and transformers once and forks for each command, which has its own memory, signals, limits, output
and exit code, as if a shell had started it."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Finished(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Process:
    """A running command: its output as files that end with it, and its exit code."""

    def __init__(self, server: Server, pid: int, pipes: list[str]) -> None:
        self.pid, self._server = pid, server
        self._code: int | None = None
        # Opened in the order in which the child opens them: each waits for the other side.
        self.stdout, self.stderr = (open(pipe, encoding="utf-8") for pipe in pipes)  # noqa: SIM115

    def send_signal(self, number: int) -> None:
        if self._code is None:
            os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit code; minus the signal's number of a process that one has ended."""
        if self._code is None:
            self._code = int(self._server.ask({"wait": self.pid}))
        return self._code

    def communicate(self) -> Finished:
        """All that it says from here on, and its exit code."""
        out, err = self.stdout.read(), self.stderr.read()  # neither fills a pipe
        return Finished(self.wait(), out, err)


class Server:
    """The process that forks. ``start`` and ``run`` take the command line's arguments."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        # under a limit on the size of files, a compiled module would be cut off, and break others
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.forked"], cwd=ROOT, env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, request: Mapping[str, Any]) -> str:
        sent, answers = self._process.stdin, self._process.stdout
        assert sent is not None
        assert answers is not None
        sent.write(json.dumps(request) + "\n")
        sent.flush()
        answer = answers.readline().strip()
        assert answer, "the process that forks has ended"
        return answer

    def start(
        self, *arguments: object, cwd: Path, env: Mapping[str, str] | None = None, most: int = 0
    ) -> Process:
        """A process whose files can hold ``most`` bytes each (0: anything)."""
        self._count += 1
        pipes = [str(self._folder / f"{self._count}.{name}") for name in ("out", "err")]
        for pipe in pipes:
            os.mkfifo(pipe)
        asked = {"arguments": [str(a) for a in arguments], "cwd": str(cwd), "env": dict(env or {}),
                 "most": most, "pipes": pipes}  # fmt: skip
        return Process(self, int(self.ask(asked)), pipes)

    def run(self, *arguments: object, cwd: Path, most: int = 0) -> Finished:
        return self.start(*arguments, cwd=cwd, most=most).communicate()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


@pytest.fixture(scope="session")
def forks() -> Iterator[Server]:
    """One for all tests of a session. The processes that it starts are a test's own."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        yield server
        server.close()


# --- the process that forks -------------------------------------------------------------------
def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer ``{"wait": pid}`` with its exit code, and every other request with a new pid."""
    running: set[int] = set()
    while line := requests.readline():
        request = json.loads(line)
        if "wait" in request:
            running.discard(request["wait"])
            told = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        elif (told := os.fork()) == 0:
            _become(request)
        else:
            running.add(told)
        answers.write(f"{told}\n")
        answers.flush()
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _become(request: Mapping[str, Any]) -> None:
    """Be that command until it ends."""
    import resource

    from searchgym.cli.main import run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ |= {**request["env"], "PYTHONUNBUFFERED": "1"}
    for number, pipe in enumerate(request["pipes"], start=1):
        os.dup2(os.open(pipe, os.O_WRONLY), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout, sys.stderr = (open(n, "w", buffering=1, encoding="utf-8") for n in (1, 2))  # noqa: SIM115
    if most := request["most"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    sys.argv = ["searchgym", *request["arguments"]]
    code: object = 0
    try:
        run(request["arguments"])
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


LOADED = (
    "altair", "torch", "transformers.models.llama.modeling_llama", "bm25s.utils", "vl_convert",
    "searchgym.cli.main", "searchgym.engines._kernel", "searchgym.evaluation.run",
    "searchgym.rl.launch", "searchgym.rl.trainer", "searchgym.tasks.families",
)  # fmt: skip

if __name__ == "__main__":
    for module in LOADED:
        importlib.import_module(module)
    serve(sys.stdin, sys.stdout)
