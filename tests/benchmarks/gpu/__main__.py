"""``python -m tests.benchmarks.gpu --minutes 10 --out build/gpu.json``"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from . import handover, learning, peak, rollouts, served, tables, updates, vectors
from .models import SIZES
from .setting import Report, Setting, attempted, clean, failures, reasons

SHARES = {"machine": 0.1, "rollouts": 0.3, "updates": 0.45, "handover": 0.15, "vllm": 0.35,
          "vectors": 0.15,          "learning": 1.0}  # fmt: skip
"""Part → share of the time that is left when it begins, which its loops keep to."""
RESERVE_S = 15.0
"""Seconds for the end, and for what takes longer than it was thought to."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for everything")
    parser.add_argument("--out", type=Path, default=Path("build/gpu.json"), help="JSON to write")
    parser.add_argument("--dry-run", action="store_true", help="a small size, on the CPU, too")
    parser.add_argument(
        "--model",
        default=learning.DEFAULT,
        help="that learns: a folder, a name, or a size with random weights",
    )
    parser.add_argument(
        "--learning-minutes",
        type=float,
        help="for GRPO alone, on top of --minutes; default: what the other parts leave",
    )
    parser.add_argument("--only", default=",".join(SHARES), help="parts, with commas between")
    parser.add_argument("--sizes", help=f"of {', '.join(SIZES)}; default: 135m,0.5b,1.5b")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(given)
    options.only = options.only.split(",")
    options.sizes = (options.sizes or ("tiny" if options.dry_run else "135m,0.5b,1.5b")).split(",")
    for kind, names, known in (
        ("part", options.only, SHARES), ("size", options.sizes, SIZES),
    ):  # fmt: skip
        for name in names:
            if name not in known:
                parser.error(f"unknown {kind} {name!r}; known: {', '.join(known)}")
    for name in ("minutes", "learning_minutes"):
        if (given_minutes := getattr(options, name)) is not None and given_minutes <= 0:
            option = name.replace("_", "-")
            parser.error(f"--{option} must be positive, got {given_minutes:g}")
    return options


def run(options: argparse.Namespace, begun: float) -> Report:
    """Measure the parts that were asked for; the report is written after each."""
    device = torch.device(options.device, 0) if options.device == "cuda" else torch.device("cpu")
    end = begun + 60 * options.minutes - min(RESERVE_S, 6 * options.minutes)
    setting = Setting(device, tuple(options.sizes), options.model, end, options.dry_run)
    found: Report = {"dry_run": options.dry_run, "sizes": list(options.sizes), "parts": {}}
    parts: dict[str, Callable[[Setting], Report]] = {
        "machine": peak.part,
        "rollouts": rollouts.part,
        "updates": lambda mine: updates.part(mine, found["parts"].get("machine", {})),
        "handover": handover.part,
        "vllm": served.part,
        "vectors": vectors.part,
        "learning": learning.part,
    }
    for name, part in parts.items():
        if name not in options.only:
            continue
        started = time.perf_counter()
        mine = setting.until(SHARES[name])
        if name == "learning" and options.learning_minutes is not None:
            mine = replace(mine, end=started + 60 * options.learning_minutes)
        report = attempted(partial(part, mine))
        clean(device)
        found["parts"][name] = {**report, "part_s": time.perf_counter() - started}
        found["seconds"] = time.perf_counter() - begun
        write(found, options.out)
        print("\n".join(tables.lines(name, found["parts"][name])), flush=True)
    return found


def write(report: Report, path: Path) -> None:
    """Write a report, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(report, indent=1, default=str), encoding="utf-8")
    os.replace(partial, path)


def main(given: Sequence[str] | None = None) -> int:
    """Return 1 if a part failed."""
    begun = time.perf_counter()
    options = arguments(given)
    found = run(options, begun)
    failed = failures(found["parts"])
    print(f"\n{options.out}: {found.get('seconds', 0.0):.0f} s", end="")
    print(f", failed: {', '.join(failed)}" if failed else "")
    for name, why in reasons(found["parts"]):
        print("\n".join(textwrap.wrap(f"not measured: {name}: {why}", 80, subsequent_indent="  ")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
