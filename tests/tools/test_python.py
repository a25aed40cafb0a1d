"""The tool ``python``: right, the same every time, and locked in."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from searchgym.errors import CardError
from searchgym.tools import make_tool
from searchgym.tools import python as python_module
from searchgym.tools.python import PythonTool
from searchgym.types import CallContext, Failure, ToolCall, ToolResult

from .playing import begin, call, context

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's means are Linux's")


def shown(code: str, **limits: Any) -> str:
    (result,) = PythonTool(**limits).run(
        [ToolCall("python", {"code": code}, 0, CallContext(0, "e", {}))]
    )
    assert isinstance(result, ToolResult), result
    return str(result.parts[0])


# --- what it is for -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("from datetime import date\n(date(1931, 3, 12) - date(1874, 11, 30)).days", "20555"),
        ("import statistics\nprint(statistics.median([3, 1, 2]))", "2"),
        (
            "from datetime import datetime\ndatetime.strptime('12 March 1931', '%d %B %Y').year",
            "1931",
        ),
        ("sum(i * i for i in range(100))", "328350"),
        ("from decimal import Decimal\nprint(Decimal('0.1') * 3)", "0.3"),
        ("from fractions import Fraction as F\nF(1, 3) + F(1, 6)", "Fraction(1, 2)"),
        ("rows = [('a', 3), ('b', 1)]\nprint(max(rows, key=lambda r: r[1])[0])", "a"),
        ("import json, re\nre.findall(r'[0-9]+', json.dumps({'a': 12, 'b': 7}))", "['12', '7']"),
        ("x = 5", "No output: print what you want to see."),
        ("def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nf(15)", "610"),
        ("1 / 0", "Error: ZeroDivisionError: division by zero (line 1)"),
        ("x = 1\nprint(y)", "Error: NameError: name 'y' is not defined (line 2)"),
        ("print(", "Error: SyntaxError: '(' was never closed (<code>, line 1) (line 1)"),
        ("print('a')\nraise SystemExit(3)", "a"),
        ("'\\ud800' + 'é'", "'\\ud800é'"),
    ],
)
def test_code_is_run_and_its_errors_are_told(code: str, result: str) -> None:
    assert shown(code) == result


def test_each_call_begins_anew_and_is_the_same_every_time() -> None:
    e, toolbox = begin("python")
    assert call(e, toolbox, "python", code="kept = 7\nkept") == "7"
    assert "NameError" in call(e, toolbox, "python", code="kept")
    code = (
        "import random, sys\nprint(random.random(), random.Random().random(), hash('a'), "
        "list({'b', 'a', 'c'}), id(object()), object(), sys.argv, sys.path)"
    )
    assert shown(code) == shown(code)
    assert "no clock" in shown("import datetime\ndatetime.datetime.now()")
    assert "no clock" in shown("import datetime\ndatetime.date.today()")


# --- attacks --------------------------------------------------------------------------------------
HARMLESS = ("Error: ", "<class", "No output", "32512", "posix.times_result")
"""Beginnings of what attacks may show; 32512: a shell not started; times not told."""
FILES = [
    "open('{file}').read()", "open('{file}', 'w').write('x')", "open('{folder}/new', 'w')",
    "open('{folder}/new', 'a')", "import os; os.unlink('{file}')", "import os; os.listdir('/')",
    "import os; os.mkdir('{folder}/d')", "import os; os.rename('{file}', '{file}2')",
    "import os; os.symlink('{file}', '{folder}/link')", "import os; os.chmod('{file}', 0)",
    "import os; os.truncate('{file}', 0)", "import os; os.stat('{file}').st_size",
    "import os; os.open('{file}', os.O_RDWR)", "import io; io.FileIO('{file}')",
    "open('/proc/self/environ').read()", "open('/proc/self/mem', 'r+b')", "open('/etc/passwd')",
    "open('/proc/1/cmdline').read()", "open('/dev/tty', 'w')", "open('/sys/power/state')",
    "import os; os.readlink('/proc/self/exe')", "import os; os.chdir('/tmp'); print(os.getcwd())",
    "import os; os.memfd_create('x')", "import os; os.pipe()", "import os; os.dup(1)",
    "print(open(0).read())", "for fd in range(3, 64):\n    __import__('os').read(fd, 1)",
]  # fmt: skip
PROCESSES = [
    "import os; os.fork()", "import os\nwhile True: os.fork()", "import os; os.system('id')",
    "import os; os.execv('/bin/sh', ['sh'])", "import subprocess", "import multiprocessing",
    "import os; os.posix_spawn('/bin/sh', ['sh'], dict())", "import os; os.kill({parent}, 9)",
    "import os; os.kill(-1, 9)", "import os; os.killpg(0, 15)", "import signal; signal.alarm(1)",
    "import os; os.setuid(0)", "import os; os.nice(-20)", "import os; os.waitpid(-1, 0)",
    "import _thread; _thread.start_new_thread(print, ())", "import threading",
    "import os; print(os.times())", "import os; os.sched_setaffinity(0, [0])",
]  # fmt: skip
NETWORK = [
    "import socket", "import urllib.request", "import _socket; _socket.socket()",
    "import ssl", "import http.client",
]  # fmt: skip
NATIVE = [
    "import ctypes", "import _ctypes", "import mmap", "import resource", "import numpy",
    "import searchgym", "import importlib; importlib.import_module('socket')",
    "__import__('posix').fork()", "__loader__", "import gc; gc.get_objects()",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("secret-53")
    return tmp_path


@pytest.mark.parametrize("kind", ["FILES", "PROCESSES", "NETWORK", "NATIVE"])
def test_nothing_outside_is_reached(kind: str, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SECRET", "secret-53")
    attacks = globals()[kind]
    for attack in attacks:
        code = (attack.replace("{file}", str(folder / "file")).replace("{folder}", str(folder))
                .replace("{parent}", str(os.getpid())))  # fmt: skip
        said = shown(code)
        assert said.startswith(HARMLESS), (code, said)
        assert "secret-53" not in said
        assert sorted(p.name for p in folder.iterdir()) == ["file"], code
        assert (folder / "file").read_text() == "secret-53"
    assert "secret-53" not in shown("import os; print(os.environ, os.getcwd())")


def test_there_are_at_least_forty_attacks() -> None:
    assert len({*FILES, *PROCESSES, *NETWORK, *NATIVE}) >= 40


def test_what_is_dug_out_of_memory_reaches_nothing_either() -> None:
    """Modules that were loaded before the lock can be found through objects; the kernel stays."""
    dig = (
        "found = [c for c in object.__subclasses__() if c.__name__ == 'BuiltinImporter']\n"
        "posix = found[0].load_module('posix')\n"
        "for attempt in (posix.fork, lambda: posix.open('/etc/passwd', 0), posix.pipe,\n"
        "                lambda: posix.kill(1, 9), lambda: posix.execv('/bin/sh', ['sh'])):\n"
        "    try:\n"
        "        attempt()\n"
        "        print('REACHED')\n"
        "    except OSError as error:\n"
        "        print(error.errno)\n"
    )
    assert shown(dig).split() == ["1"] * 5
    native = (
        "for c in object.__subclasses__():\n"
        "    module = getattr(c, '__module__', '')\n"
        "    if module == '_ctypes' and c.__name__ == 'CFuncPtr': break\n"
        "import sys\n"
        "frame = sys._getframe()\n"
        "while frame.f_back: frame = frame.f_back\n"
        "ctypes = frame.f_globals['ctypes']\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.socket(2, 1, 0), ctypes.get_errno(), libc.fork())\n"
        "print(libc.open(b'/etc/passwd', 0))\n"
        "print(libc.mprotect(ctypes.c_void_p(0x1000), 4096, 7), ctypes.get_errno())\n"
        "print(libc.kill(1, 9), libc.prctl(22, 0), libc.ptrace(16, 1, 0, 0))"
    )
    said = shown(native)
    assert said.split() == ["-1", "1", "-1", "-1", "-1", "1", "-1", "-1", "-1"], said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("while True:\n    pass", "lines were run"),
        ("while True: pass", "seconds|lines were run"),
        ("sum(range(10 ** 12))", "more than 1 seconds"),
        ("10 ** 10 ** 8", "more than 1 seconds|MemoryError"),
        ("import re; re.match('(a+)+$', 'a' * 40 + 'b')", "more than 1 seconds"),
        ("'a' * 10 ** 10", "MemoryError"),
        ("x = []\nwhile True:\n    x.append('a' * 10 ** 6 + str(len(x)))", "MemoryError"),
        ("def f():\n    return f()\nf()", "RecursionError"),
        ("import sys; sys.setrecursionlimit(10 ** 9)\ndef f():\n    return f()\nf()",
         "ended|lines were run|MemoryError"),
        ("eval('(' * 5000)", "SyntaxError|MemoryError"),
        ("import sys; sys.settrace(None)\nwhile True:\n    pass", "seconds|lines were run"),
        ("import signal; signal.signal(24, lambda *_: None)\nsum(range(10 ** 12))",
         "more than 1 seconds|No module named 'signal'"),
        ("while True:\n    try:\n        while True:\n            pass\n    except:\n        pass",
         "lines were run"),
        ("print('x' * 10 ** 7)", "more than 4,000 characters"),
        ("while True:\n    print('x' * 100)", "more than 4,000 characters"),
        ("import os\nwhile True:\n    os.write(1, b'x' * 4000)", "more than 4,000 characters"),
        ("import os; os.write(2, b'to stderr')", "to stderr"),
        ("import os; os.close(1)\nprint('x')", "Error|No output"),
        ("import os; os._exit(5)", "status 5"),
        ("import os; os._exit(86)", "status 86"),
        ("import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\nlock.acquire()",
         "interpreter ended"),
        ("import os; os.abort()", "Error: the interpreter ended|not permitted"),
    ],
    ids=str,
)  # fmt: skip
def test_what_never_ends_or_grows_ends(code: str, said: str) -> None:
    import re

    got = shown(code, cpu_seconds=1, max_lines=50_000)
    assert re.search(said, got), got[:200]
    assert len(got) < 4_200


def test_a_machine_that_stalls_is_a_failure_and_no_process_stays(monkeypatch: Any) -> None:
    started: list[Any] = []
    popen = python_module.subprocess.Popen

    class Seen(popen):  # type: ignore[misc,valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)
            os.kill(self.pid, signal.SIGSTOP)  # as if the machine had no time for it

    monkeypatch.setattr(python_module.subprocess, "Popen", Seen)
    began = time.monotonic()
    result = PythonTool(seconds=0.5).run_code("1")
    assert isinstance(result, Failure)
    assert (result.kind, result.retryable) == ("timeout", True)
    assert time.monotonic() - began < 30
    assert started[0].returncode == -signal.SIGKILL


def test_without_the_kernels_means_it_is_not_made(monkeypatch: Any) -> None:
    for why in ("the system is darwin", "prctl(22) is refused"):
        monkeypatch.setattr(python_module, "why_unprotected", lambda why=why: why)
        with pytest.raises(CardError, match="lock it in") as raised:
            make_tool("python", context())
        assert why in str(raised.value)
    for wrong in (
        {"memory": 10},
        {"cpu_seconds": 0},
        {"cpu_seconds": 90},
        {"max_lines": 0},
        {"seconds": 0},
    ):
        with pytest.raises(CardError, match="at least"):
            PythonTool(**wrong)


def test_a_process_that_cannot_lock_itself_in_runs_nothing() -> None:
    """A filter is refused to who has no more processor time to give: the limit cannot be raised."""
    import json
    import subprocess

    asked = {"code": "print('RUN')", "memory": 2**28, "cpu_seconds": "x", "max_lines": 9}
    child = str(Path(python_module.__file__).with_name("sandbox.py"))
    done = subprocess.run(
        [sys.executable, "-s", "-S", "-P", child], input=json.dumps(asked), text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGTERM
    assert "RUN" not in done.stdout
