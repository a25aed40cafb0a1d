"""What every part of the benchmark is given: a device, sizes and a share of the time."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """Options of a call."""

    device: torch.device
    sizes: tuple[str, ...]
    model: str
    """Of the learning part: a folder, a name of ``searchgym models`` or a hub name."""
    end: float
    """``time.perf_counter()`` when all must be done."""
    dry: bool = False
    """True: small sizes, the same code."""

    @property
    def left(self) -> float:
        """Seconds."""
        return self.end - time.perf_counter()

    def until(self, share: float) -> Setting:
        """The same with this share of the seconds that are left."""
        return Setting(
            self.device, self.sizes, self.model, time.perf_counter() + share * max(self.left, 0),
            self.dry,
        )  # fmt: skip

    @property
    def dtype(self) -> torch.dtype:
        """Half precision where a GPU is fast in it."""
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32


def wait(device: torch.device) -> None:
    """Wait until the device has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(run: Callable[[], object], device: torch.device) -> float:
    """Wall time of a call and of all that it started on the device."""
    wait(device)
    begun = time.perf_counter()
    run()
    wait(device)
    return time.perf_counter() - begun


def clean(device: torch.device) -> None:
    """Free what nothing holds any more on a GPU, and count the peak of memory from here."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_gib(device: torch.device) -> float | None:
    """Most memory allocated since :func:`clean`, in GiB; None on a CPU."""
    if device.type != "cuda":
        return None
    return round(torch.cuda.max_memory_allocated(device) / 2**30, 3)


def reserved_gib(device: torch.device) -> float | None:
    """Most memory that PyTorch held since :func:`clean`, used or not, in GiB; None on a CPU."""
    if device.type != "cuda":
        return None
    return round(torch.cuda.max_memory_reserved(device) / 2**30, 3)


def used_share(device: torch.device) -> float:
    """Share of the device's memory that was allocated at the peak; 0 on a CPU."""
    if device.type != "cuda":
        return 0.0
    total = torch.cuda.get_device_properties(device).total_memory
    return torch.cuda.max_memory_allocated(device) / total


def skipped(why: str) -> Report:
    """A part that is not measured, and why."""
    return {"skipped": why}


def attempted(run: Callable[[], Report]) -> Report:
    """What a measurement reports, or the error that it ended with: the others go on."""
    try:
        return run()
    except torch.OutOfMemoryError as error:
        return skipped(f"out of memory: {str(error).splitlines()[0][:200]}")
    except Exception as error:
        last = traceback.format_exc().strip().splitlines()[-12:]
        return {"error": f"{type(error).__name__}: {error}"[:2000], "traceback": last}


def failures(report: Any, name: str = "") -> list[str]:
    """Names of the measurements, however deep, that ended with an error."""
    if not isinstance(report, dict):
        return []
    found = [name] if "error" in report else []
    for key, value in report.items():
        found += failures(value, f"{name}: {key}" if name else str(key))
    return found


def reasons(report: Any, name: str = "") -> list[tuple[str, str]]:
    """Names of what was skipped, however deep, each with the reason."""
    if not isinstance(report, dict):
        return []
    found = [(name, str(report["skipped"]))] if "skipped" in report else []
    for key, value in report.items():
        found += reasons(value, f"{name}: {key}" if name else str(key))
    return found


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let an attribute be another one for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


CARD = Path(__file__).parents[3] / "agents" / "searchgym_agents" / "smollm" / "card.toml"
"""The agent whose training settings are used."""
