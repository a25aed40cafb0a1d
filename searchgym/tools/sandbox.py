"""The process in which the tool ``python`` runs an agent's code: a script that locks itself in.

It reads ``{"code", "memory", "cpu_seconds", "max_lines"}`` as JSON from its standard input, imports
:data:`MODULES`, gives up by the kernel's own means whatever it could still do to the machine, and
only then runs the code. From there on the kernel refuses every system call but those that manage
its own memory and signals, write to its output, and end it: there are no files, processes, threads,
sockets, signals to others and no random numbers from outside. The clock is taken out of Python's
modules alone (the kernel cannot hide it, and locks read it); code that digs for it gives results
that differ, and reaches nothing else. Nothing of SearchGym is imported here.
"""

from __future__ import annotations

import ast
import ctypes
import importlib
import json
import os
import resource
import struct
import sys
import time
import warnings
from types import FrameType
from typing import Any

MODULES = (
    "bisect calendar cmath collections copy dataclasses datetime decimal enum fractions functools "
    "heapq itertools json math numbers operator random re statistics string textwrap typing"
).split()
"""What code can import; these are loaded before the process is locked."""
_BESIDES = ("_strptime", "encodings.ascii", "encodings.latin_1")  # loaded late by some of them
CANNOT = 15  # SIGTERM
"""Signal by which a process ends itself that could not lock itself in and has run nothing: code
that is locked in can choose its exit status, but send no signal."""
TOO_LONG = 87
"""Exit status of code that ran more lines than it may."""

_PROT_EXEC = 4
_CALLS: dict[str, tuple[int, dict[str, int]]] = {
    # read, lseek, fstat of its own pipes; memory; signal handlers; exit. No futex: a lock
    # that is waited for would wait for ever
    "x86_64": (0xC000003E, {
        "read": 0, "fstat": 5, "lseek": 8, "munmap": 11, "brk": 12, "rt_sigaction": 13,
        "rt_sigprocmask": 14, "rt_sigreturn": 15, "mremap": 25, "madvise": 28, "exit": 60,
        "sigaltstack": 131, "exit_group": 231, "mmap": 9, "mprotect": 10, "write": 1,
    }),
    "aarch64": (0xC00000B7, {
        "read": 63, "fstat": 80, "lseek": 62, "munmap": 215, "brk": 214, "rt_sigaction": 134,
        "rt_sigprocmask": 135, "rt_sigreturn": 139, "mremap": 216, "madvise": 233, "exit": 93,
        "sigaltstack": 132, "exit_group": 94, "mmap": 222, "mprotect": 226,
        "write": 64,
    }),
}  # fmt: skip
"""Machine → its number in the kernel's audit, and the system calls that stay allowed: mmap and
mprotect for memory that is not executed, write to the standard output and error."""
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000  # to refuse: errno is EPERM
_LOAD, _EQUAL, _GREATER, _BITS, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06


def seccomp_program(machine: str) -> bytes:
    """The filter of system calls, as the kernel reads it (classic BPF)."""
    arch, calls = _CALLS[machine]
    rows = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    for name, number in calls.items():
        if name in ("mmap", "mprotect", "write"):
            argument, test, limit = (
                (16, _GREATER, 2) if name == "write" else (32, _BITS, _PROT_EXEC)
            )
            rows += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, argument), (test, 0, 1, limit),
                     (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]  # fmt: skip
        else:
            rows += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    rows.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


def lock(memory: int, cpu_seconds: int) -> None:
    """Give up all but memory, output and exit. ``OSError`` where the kernel does not do it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4

    def prctl(option: int, *values: int) -> None:
        if libc.prctl(option, *values, *[0] * (4 - len(values))):
            raise OSError(ctypes.get_errno(), f"prctl({option}) is refused")

    prctl(1, 9)  # PR_SET_PDEATHSIG: killed when its parent dies
    prctl(4, 0)  # PR_SET_DUMPABLE: no core, nobody attaches
    prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    for limit, value in (
        (resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_NOFILE, 3),
    ):  # fmt: skip
        resource.setrlimit(limit, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    program = ctypes.create_string_buffer(seccomp_program(os.uname().machine))
    described = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", (len(program) - 1) // 8, ctypes.addressof(program))
    )
    prctl(22, 2, ctypes.addressof(described))  # PR_SET_SECCOMP: a filter


class NoClock:
    """What dates and calendars read in place of the module ``time``."""

    def __getattr__(self, name: str) -> Any:
        if name in ("time", "time_ns", "monotonic", "perf_counter"):
            raise RuntimeError("there is no clock here: write the date that you mean")
        return getattr(time, name)


def load_modules() -> None:
    """Import what code may use: dates without a clock, chance from the seed 0. Nothing else can be
    imported afterwards."""
    os.environ.clear()
    os.environ["TZ"] = "UTC"
    time.tzset()
    sys.modules["_datetime"] = None  # type: ignore[assignment]  # the one in Python reads _time
    for module in (*MODULES, *_BESIDES):
        importlib.import_module(module)
    sys.modules.get("_pydatetime", sys.modules["datetime"])._time = NoClock()  # type: ignore[attr-defined]
    random: Any = sys.modules["random"]
    seed = random.Random.seed
    random.Random.seed = lambda self, a=None, version=2: seed(self, 0 if a is None else a, version)
    random.seed(0)
    warnings.simplefilter("ignore")
    sys.meta_path[:], sys.path[:], sys.argv[:], sys.executable = [], [], [""], ""
    for name in ("time", "_datetime", "ctypes", "_ctypes", "resource", "importlib", "gc"):
        sys.modules.pop(name, None)


def run(code: str, max_lines: int) -> None:
    """Run code as ``__main__``; print its last expression's value, or its error in one line."""
    left = max_lines

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left < 0:
                sys.stdout.flush()
                os._exit(TOO_LONG)
        return count

    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        tree = ast.parse(code, "<code>")
        last = tree.body[-1] if tree.body else None
        value = None
        if isinstance(last, ast.Expr):
            tree.body.pop()
            value = compile(ast.Expression(last.value), "<code>", "eval")
        body = compile(tree, "<code>", "exec")
        sys.settrace(count)
        exec(body, names)
        shown = None if value is None else eval(value, names)
        if shown is not None:
            print(repr(shown))
    except SystemExit:
        pass
    except BaseException as error:  # the agent's, whatever it is
        place, trace = getattr(error, "lineno", None), error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "<code>":
                place = trace.tb_lineno
            trace = trace.tb_next
        where = "" if place is None else f" (line {place})"
        print(f"Error: {type(error).__name__}: {str(error)[:500]}{where}")
    finally:
        sys.settrace(None)
    sys.stdout.flush()


def main() -> None:
    """Read what is asked, lock this process in, run the code."""
    asked = json.loads(sys.stdin.buffer.read())
    sys.stdout = open(  # noqa: SIM115 (it is never closed)
        1, "w", encoding="utf-8", errors="backslashreplace", newline="\n", closefd=False
    )
    load_modules()
    try:
        lock(int(asked["memory"]), int(asked["cpu_seconds"]))
    except (OSError, KeyError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        os.kill(os.getpid(), CANNOT)
    run(str(asked["code"]), int(asked["max_lines"]))
    os._exit(0)


if __name__ == "__main__":
    main()
