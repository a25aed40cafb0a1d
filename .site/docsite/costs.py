"""Measure what the documented commands cost: ``python -m docsite.costs``.

It runs the commands of ``costs.toml`` one after another and writes ``costs.json``: wall clock, time
of the processor, and the most memory that the command and its children held.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from searchgym import __version__
from searchgym.corpora.data import data_directory
from searchgym.errors import SearchGymError

HERE = Path(__file__).parent
FILE = HERE / "costs.json"


def measure(arguments: list[str]) -> dict[str, float]:
    """Run a command of ours and return ``seconds``, ``cpu_seconds`` and ``megabytes``.

    Raises:
        SearchGymError: the command failed; its own message was printed.
    """
    started = time.perf_counter()
    words = [sys.executable, "-m", "searchgym", *arguments]
    with open(os.devnull, "wb") as nowhere:
        actions = [(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)]
        process = os.posix_spawn(sys.executable, words, os.environ, file_actions=actions)
        _, status, used = os.wait4(process, 0)
    if status:
        raise SearchGymError(f"searchgym {' '.join(arguments)} ended with {status >> 8}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "megabytes": round(used.ru_maxrss / unit),
    }


def main() -> None:
    """Measure all commands whose data is on this machine, and store what they cost."""
    commands = tomllib.loads((HERE / "costs.toml").read_text("utf-8"))["command"]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as out:
        for command in commands:
            if "needs" in command and not (data_directory() / command["needs"]).is_dir():
                raise SearchGymError(f"{command['needs']} is missing: searchgym data get")
            shown = [a.replace("{out}/", "") for a in command["arguments"]]
            cost = measure([a.replace("{out}", out) for a in command["arguments"]])
            rows.append({"does": command["does"], "command": " ".join(shown), **cost})
            print(rows[-1], flush=True)
    about = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "searchgym": __version__,
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
    }
    FILE.write_text(json.dumps({**about, "commands": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
