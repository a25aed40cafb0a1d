"""Verdicts on collapses that were made on purpose: what the doctor names, when, and whether the
remedy helps; kept in ``collapses.json`` with the logs from which they follow."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from searchgym.errors import check_known
from searchgym.evaluation.machine import machine
from searchgym.rl.collapse import CAUSES, FIRST, diagnose
from searchgym.rl.log import read_log

from .collapses import STEPS, declared, reproduce
from .learning_bench import _one_thread
from .results import resumed

KIND = "collapses"
"""Under which the runs of each cause stand in the file."""
SOUND = (
    "grpo", "rloo", "gigpo", "igpo", "mt_grpo", "tree_grpo", "stratified_grpo", "nthr", "thr",
    "verl_rank",
)  # fmt: skip
"""Recipes whose trainings are to be found sound: without experts, and with all seeds of the
learning bench above an exact match of .45 in the end."""
UNLABELLED = ("ttrl", "rent", "intuitor")
"""Recipes whose rewards read no label, beside GRPO with the exact match as its reward."""
SEEDS, SOUND_SEEDS = (10, 11, 12), (10, 11, 12, 13)
"""Seeds of the stored trainings. Bounds were chosen on seeds 0 to 2 of collapsed trainings, and on
the stored sound ones themselves, so the share of their false alarms is a fitted one."""
LEAD = 5
"""Updates by which a cause is to be named before the exact match has halved."""
READ = frozenset().union(*(cause.metrics for cause in CAUSES.values())) | {"reward", "em"}
LEGEND = (
    "named: seeds in which the doctor names the cause; first: in which no other comes before; "
    "update: mean update of its naming; halved: of the exact match's fall to half; in time: seeds "
    f"whose exact match halves and in which that is {LEAD} updates later or more; collapsed, "
    "mended: mean exact match of the last five updates; cured: seeds in which the remedy ends it"
)


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """Columns that the doctor reads of a log, metric by metric, to four digits."""
    return {
        name: [None if row.get(name) is None else float(f"{row[name]:.4g}") for row in rows]
        for name in sorted(READ) if any(row.get(name) is not None for row in rows)
    }  # fmt: skip


def rows_of(log: Mapping[str, Sequence[float | None]]) -> list[dict[str, Any]]:
    """The rows of a log that :func:`columns` made."""
    return [
        {"step": step, **{name: values[step] for name, values in log.items()}}
        for step in range(len(log["reward"]))
    ]


def verdict(log: Mapping[str, Sequence[float | None]]) -> dict[str, Any]:
    """``found``: cause → update; ``halved``: the first update at which the mean exact match of five
    was half or less of the best before, None without one; ``start``, ``end``: mean exact match of
    the first and last five."""
    rows = rows_of(log)
    monitor = diagnose(rows, compares_groups=True)
    em = [float(row["em"] or 0.0) for row in rows]
    smooth = [fmean(em[max(0, i - FIRST + 1) : i + 1]) for i in range(len(em))]
    best, halved = 0.0, None
    for i, value in enumerate(smooth[FIRST - 1 :], FIRST - 1):
        best = max(best, value)
        if halved is None and value <= best / 2 and best > 0:
            halved = i
    return {
        "found": {finding.cause: finding.update for finding in monitor.findings},
        "halved": halved, "start": round(fmean(em[:FIRST]), 4), "end": round(fmean(em[-FIRST:]), 4),
    }  # fmt: skip


def run(name: str, seed: int, mended: bool, method: str = "grpo") -> dict[str, Any]:
    """Train once, and judge the log."""
    with tempfile.TemporaryDirectory() as folder:
        out = reproduce(name, Path(folder) / "run", seed, mended=mended, method=method)
        log = columns(read_log(out))
    return {"seed": seed, "log": log, **verdict(log)}


def measure(
    names: Sequence[str], path: Path | None, *, seeds: Sequence[int] = SEEDS, workers: int = 2,
    progress: Callable[[str], object] = str,
) -> dict[str, Any]:  # fmt: skip
    """Reproduce causes, ``"sound:RECIPE"`` and recipes without labels, with every seed; resumes
    from ``path``.

    Raises:
        CardError: an unknown cause.
    """
    check_known("collapse", [*declared(), *(f"sound:{m}" for m in SOUND), *UNLABELLED], *names)
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_one_thread) as pool:

        def one(name: str, result: dict[str, Any]) -> Any:
            progress(name)
            if name.startswith("sound:"):
                method = name.removeprefix("sound:")
                jobs = [pool.submit(run, "", seed, False, method) for seed in SOUND_SEEDS]
                return {"runs": [job.result() for job in jobs]}
            if name in UNLABELLED:
                jobs = [pool.submit(run, "", s, False, m) for m in (name, "grpo") for s in seeds]
            else:
                jobs = [pool.submit(run, name, seed, m) for m in (False, True) for seed in seeds]
            runs = [job.result() for job in jobs]
            return {"runs": runs[: len(seeds)], "mended": runs[len(seeds) :]}

        settings = {"steps": STEPS, "seeds": list(seeds), "sound_seeds": list(SOUND_SEEDS)}
        result = resumed(path, settings, names, one, KIND)
    return {**result, "machine": machine()}


def lines(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows of the table, a cause each."""
    made = []
    for name, entry in result[KIND].items():
        if name not in declared():
            continue
        runs, mended = entry["runs"], entry["mended"]
        named = [run["found"][name] for run in runs if name in run["found"]]
        first = sum(min(r["found"], key=r["found"].get, default="") == name for r in runs)
        halved = [run for run in runs if run["halved"] is not None]
        cured = sum(name not in m["found"] and m["end"] > r["end"]
                    for r, m in zip(runs, mended, strict=True))  # fmt: skip
        made.append({
            "cause": name, "named": f"{len(named)}/{len(runs)}", "first": f"{first}/{len(runs)}",
            "update": f"{fmean(named):.0f}" if named else "–",
            "halved": f"{fmean(r['halved'] for r in halved):.0f}" if halved else "–",
            "in time": f"{sum(map(_in_time, [name] * len(halved), halved))}/{len(halved)}",
            "collapsed": f"{fmean(r['end'] for r in runs):.2f}",
            "mended": f"{fmean(r['end'] for r in mended):.2f}", "cured": f"{cured}/{len(runs)}",
        })  # fmt: skip
    return made


def unlabelled(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows of the table of recipes without labels: means of the first and last five updates."""

    def ends(runs: Sequence[Mapping[str, Any]], metric: str) -> str:
        logs = [[value or 0.0 for value in run["log"][metric]] for run in runs]
        first, last = (fmean(fmean(log[part]) for log in logs) for part in _ENDS)
        return f"{first:z.2f} → {last:z.2f}"

    return [
        {"recipe": name, "its reward": ends(entry["runs"], "reward"),
         "exact match": ends(entry["runs"], "em"), "with labels": ends(entry["mended"], "em")}
        for name, entry in result[KIND].items() if name in UNLABELLED
    ]  # fmt: skip


_ENDS = slice(0, FIRST), slice(-FIRST, None)


def _in_time(name: str, run: Mapping[str, Any]) -> bool:
    return run["found"].get(name, run["halved"]) <= run["halved"] - LEAD


def figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """``recall``: share of the collapsed runs whose cause is named, in time where the exact match
    halves; ``named``: whenever; ``false_alarms``: share of the sound runs in which anything is
    found; ``runs``, ``sound``: how many there are."""
    causes = {n: e for n, e in result[KIND].items() if n in declared()}
    runs = [(name, run) for name, entry in causes.items() for run in entry["runs"]]
    sound = [r for n, e in result[KIND].items() if n.startswith("sound:") for r in e["runs"]]
    named = [name in run["found"] for name, run in runs]
    timely = [
        ok and (run["halved"] is None or _in_time(name, run))
        for ok, (name, run) in zip(named, runs, strict=True)
    ]
    return {
        "runs": len(runs), "named": fmean(named) if runs else None,
        "recall": fmean(timely) if runs else None, "sound": len(sound),
        "false_alarms": fmean(bool(run["found"]) for run in sound) if sound else None,
    }  # fmt: skip
