"""Programs in processes that begin with the large libraries loaded: one process imports them once
and forks for each program, which runs as the main module of a process of its own."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
LOADED = (
    "torch", "transformers.models.qwen2.modeling_qwen2", "trl.trainer.grpo_trainer", "sb3_contrib",
    "pandas", "searchgym.integrations.trl", "searchgym.engines._kernel",
)  # fmt: skip


class Forks:
    """The process that forks; it ends with the one that has made it."""

    def __init__(self) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integrations.forked"], cwd=ROOT, env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, program: Path, **env: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a program, run in its folder."""
        sent, answers = self._process.stdin, self._process.stdout
        assert sent is not None
        assert answers is not None
        sent.write(json.dumps({"program": str(program), "env": env}) + "\n")
        sent.flush()
        answer = answers.readline().strip()
        assert answer, "the process that forks has ended"
        said = (program.with_suffix(end).read_text() for end in (".out", ".err"))
        return (int(answer), *said)  # type: ignore[return-value]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


# --- the process that forks -------------------------------------------------------------------
def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer each request with the exit code of its program."""
    while line := requests.readline():
        if (pid := os.fork()) == 0:
            _become(json.loads(line))
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        answers.flush()


def _become(request: Mapping[str, Any]) -> None:
    """Be that program until it ends."""
    program, code = Path(request["program"]), 0
    os.chdir(program.parent)
    os.environ |= request["env"]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, end in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(program.with_suffix(end), os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = (open(n, "w", buffering=1, encoding="utf-8") for n in (1, 2))  # noqa: SIM115
    sys.argv, sys.path[0] = [program.name], str(program.parent)
    try:
        runpy.run_path(program.name, run_name="__main__")
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for module in LOADED:
        importlib.import_module(module)
    serve(sys.stdin, sys.stdout)
