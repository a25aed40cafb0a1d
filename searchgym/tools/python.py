"""``python``: an agent's code, run by an interpreter that the kernel has locked in.

What holds, by the kernel's own means (``searchgym.tools.sandbox``, Linux on x86-64 and ARM64): each
call is a process of its own, without files, network, processes, threads, signals to others or
random numbers from outside, with limits on memory, processor time and output. What does not: it is
no virtual machine, so a fault of the kernel in the few calls that are left (memory, signals,
writing to a pipe) is not guarded against; code can learn the version of Python and of its modules;
and code that digs in Python's memory for the clock finds it, which changes no more than its result.
Where the kernel refuses any of it, the tool refuses to be made.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

from ..errors import CardError
from ..types import Failure, ToolResult, ToolSpec
from .base import Tool, ToolContext
from .sandbox import CANNOT, MODULES, TOO_LONG

MAX_CODE = 10_000
_CHILD = str(Path(__file__).with_name("sandbox.py"))
_NO_RANDOM_ADDRESSES = 0x0040000


class PythonTool(Tool):
    """Run Python code and show what it prints, and the value of a last expression.

    The same code gives the same result: hashes, random numbers and, where the kernel permits it,
    addresses are fixed, and lines of code are counted. What calls long functions of C ends by
    processor time, so near ``cpu_seconds`` a result may depend on the machine, not on its load.

    Args:
        max_lines: Lines of Python that a call may run.
        memory: Bytes of memory.
        cpu_seconds: Processor time in whole seconds.
        max_output: Characters shown; code that writes more is ended.
        seconds: Time after which a call counts as lost to the infrastructure (a ``Failure``).
        cost: Cost of each call.

    Raises:
        CardError: a limit that is too small; by :meth:`bind`, a system that cannot lock it in.
    """

    registered = "python"
    time_limit = None
    spec = ToolSpec(
        "python",
        "Run Python code; shows what it prints and the value of its last expression. Each call "
        f"begins anew. There are no files and no clock. Modules: {', '.join(MODULES)}.",
        {
            "type": "object",
            "properties": {
                "code": {
                    "type": "string", "minLength": 1, "maxLength": MAX_CODE,
                    "description": "For example: from datetime import date; "
                    "print((date(1931, 3, 12) - date(1930, 1, 1)).days)",
                }
            },
            "required": ["code"],
        },
    )  # fmt: skip

    def __init__(
        self,
        *,
        max_lines: int = 500_000,
        memory: int = 256 * 2**20,
        cpu_seconds: int = 3,
        max_output: int = 4_000,
        seconds: float = 120.0,
        cost: float = 0.0,
    ) -> None:
        super().__init__(cost=cost)
        enough = max_lines > 0 and memory >= 64 * 2**20 and max_output > 0 and seconds > 0
        if not (enough and 1 <= cpu_seconds <= 60):
            raise CardError(
                "max_lines and max_output are at least 1, cpu_seconds is 1 to 60, memory at least "
                f"64 MiB, seconds above 0; got {max_lines=}, {memory=}, {cpu_seconds=}, "
                f"{max_output=}, {seconds=}"
            )
        self.limits = {"memory": memory, "cpu_seconds": cpu_seconds, "max_lines": max_lines}
        self.max_output, self.seconds = max_output, seconds

    def bind(self, context: ToolContext) -> Self:
        """Itself; ``CardError`` where the system cannot lock code in."""
        if (why := why_unprotected()) is not None:
            raise CardError(
                "the tool 'python' runs an agent's code only where the kernel can lock it in "
                f"(Linux with seccomp on x86-64 or ARM64), and here {why}; use the tool "
                "'calculator', or such a system"
            )
        return self

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult | Failure:
        return self.run_code(args["code"])

    def run_code(self, code: str) -> ToolResult | Failure:
        """Run code in a process of its own."""
        asked = json.dumps({"code": code, **self.limits}).encode()
        status, output = _output_of(asked, 4 * self.max_output, self.seconds)
        if status is None:
            return Failure("timeout", f"the code took longer than {self.seconds:g} seconds")
        if status == -CANNOT:
            return Failure("unavailable", f"the code was not run: {output}", retryable=False)
        if output is None or len(output) > self.max_output:
            shown = (output or "")[: self.max_output]
            return ToolResult((f"{shown}\nError: more than {self.max_output:,} characters.",))
        if status == TOO_LONG:
            lines = self.limits["max_lines"]
            return ToolResult((f"{output}Error: more than {lines:,} lines were run.",))
        if status in (-signal.SIGXCPU, -signal.SIGKILL):
            seconds = self.limits["cpu_seconds"]
            return ToolResult((f"Error: it took more than {seconds} seconds.",))
        if status:
            why = "too deep or too large" if status == -signal.SIGSEGV else f"status {status}"
            return ToolResult((f"Error: the interpreter ended ({why}).",))
        return ToolResult((output.rstrip("\n") or "No output: print what you want to see.",))


def _output_of(asked: bytes, limit: int, seconds: float) -> tuple[int | None, str | None]:
    """Exit status and output of the process; no status after so many seconds, and the output up to
    ``limit`` bytes if there is more."""
    with _FixedAddresses():
        child = subprocess.Popen(
            [sys.executable, "-s", "-S", "-P", "-B", _CHILD],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
            env={"PYTHONHASHSEED": "0"}, cwd="/", start_new_session=True,
        )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    ends, said = time.monotonic() + seconds, b""
    try:
        try:
            child.stdin.write(asked)
            child.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already; its status says why
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while len(said) <= limit:
                if not ready.select(max(0.0, ends - time.monotonic())):
                    return None, None
                if not (more := os.read(child.stdout.fileno(), 65_536)):
                    break
                said += more
        if len(said) <= limit:
            child.wait(max(0.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None, None
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    cut = len(said) > limit
    return (0 if cut else child.returncode), said[:limit].decode(errors="replace")


class _FixedAddresses:
    """Start processes of this thread at the same addresses, where the kernel permits it."""

    def __enter__(self) -> None:
        self.before = _personality(0xFFFFFFFF)
        if self.before >= 0:
            _personality(self.before | _NO_RANDOM_ADDRESSES)

    def __exit__(self, *_: object) -> None:
        if self.before >= 0:
            _personality(self.before)


def _personality(value: int) -> int:
    libc = ctypes.CDLL(None)
    libc.personality.argtypes = [ctypes.c_ulong]
    return int(libc.personality(value))


_PROBE = """
import os, sys
for attempt in (lambda: open("/dev/null"), os.fork, lambda: os.kill(os.getppid(), 0), os.getpid,
                lambda: __import__("posix").pipe()):
    try:
        if attempt() != -1:
            sys.exit()
    except OSError:
        pass
print("locked")
"""


@cache
def why_unprotected() -> str | None:
    """Why code cannot be locked in here, found out by a try; None where it can."""
    if sys.platform != "linux":
        return f"the system is {sys.platform}"
    result = PythonTool().run_code(_PROBE)
    if result == ToolResult(("locked",)):
        return None
    return (
        f"a test of it gave {result[1] if isinstance(result, Failure) else result.parts[0]!r:.200}"
    )
