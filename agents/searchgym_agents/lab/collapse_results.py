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
"""Seeds of the trainings on which the signs and their bounds were chosen."""
FRESH = "fresh:"
"""Begins the names of trainings that were made to be judged once, by signs chosen before."""
FRESH_SEEDS = (20, 21, 22)
FRESH_SOUND = (
    *SOUND, "dr_grpo", "grpo_kl", "gspo", "cispo", "reinforce_pp_baseline", "opo", "clip_cov",
    "kl_cov", "bn_gspo", "llds",
)  # fmt: skip
CONDITIONS: tuple[dict[str, Any], ...] = (
    {"seed": 20, "lr": 0.001, "world": 0}, {"seed": 21, "lr": 0.001, "world": 1},
    {"seed": 22, "lr": 0.002, "world": 0}, {"seed": 23, "lr": 0.0005, "world": 2},
)  # fmt: skip
"""How recipes of ``FRESH_SOUND`` train: in turn by the first and third, or second and fourth."""
LEAD = 5
"""Updates by which a cause is to be named before the exact match has halved."""
READ = frozenset().union(*(cause.metrics for cause in CAUSES.values())) | {"reward", "em"}
LEGEND = (
    "named: seeds in which the doctor names the cause; first: in which no other comes before; "
    "update: mean update of its naming; halved: of the exact match's fall to half; in time: seeds "
    f"whose exact match halves and in which that is {LEAD} updates later or more; collapsed, "
    "mended: mean exact match of the last five updates; cured: seeds in which the remedy ends it; "
    "seen, fresh: trainings on which the signs were chosen, and such as were made afterwards"
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


def known() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Name of an entry (``CAUSE``, ``sound:RECIPE``, both after ``FRESH``, a recipe without labels)
    → lists of trainings, ``runs`` and ``mended``, each as arguments of :func:`reproduce`."""
    made: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in declared():
        made[name] = {
            part: [{"name": name, "seed": seed, "mended": part == "mended"} for seed in SEEDS]
            for part in ("runs", "mended")
        }
        made[FRESH + name] = {"runs": [{"name": name, "seed": seed} for seed in FRESH_SEEDS]}
    for i, method in enumerate(FRESH_SOUND):
        sound = {"name": "", "method": method}
        if method in SOUND:
            made[f"sound:{method}"] = {"runs": [{**sound, "seed": seed} for seed in SOUND_SEEDS]}
        made[f"{FRESH}sound:{method}"] = {"runs": [sound | c for c in CONDITIONS[i % 2 :: 2]]}
    for recipe in UNLABELLED:
        made[recipe] = {
            part: [{"name": "", "method": method, "seed": seed} for seed in SEEDS]
            for part, method in (("runs", recipe), ("mended", "grpo"))
        }
    return made


def run(training: Mapping[str, Any]) -> dict[str, Any]:
    """Train once, and judge the log."""
    with tempfile.TemporaryDirectory() as folder:
        log = columns(read_log(reproduce(out=Path(folder) / "run", **training)))
    return {"seed": training["seed"], "log": log, **verdict(log)}


def measure(
    names: Sequence[str], path: Path | None, *, seeds: int | None = None, workers: int = 2,
    progress: Callable[[str], object] = str,
) -> dict[str, Any]:  # fmt: skip
    """Make the first ``seeds`` trainings of entries, or all; resumes from ``path``.

    Raises:
        CardError: a name that is not :func:`known`.
    """
    check_known("collapse", known(), *names)
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_one_thread) as pool:

        def one(name: str, result: dict[str, Any]) -> Any:
            progress(name)
            jobs = {part: [pool.submit(run, training) for training in trainings[:seeds]]
                    for part, trainings in known()[name].items()}  # fmt: skip
            return {part: [job.result() for job in own] for part, own in jobs.items()}

        result = resumed(path, {"steps": STEPS, "seeds": seeds}, names, one, KIND)
    return {**result, "machine": machine()}


def lines(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows of the table, an entry with a cause each."""
    return [_line(name, **entry) for name, entry in result[KIND].items() if _cause(name)]


def _line(
    name: str, runs: Sequence[Mapping[str, Any]], mended: Sequence[Mapping[str, Any]] = ()
) -> dict[str, str]:
    cause = _cause(name)
    named = [run["found"][cause] for run in runs if cause in run["found"]]
    first = sum(min(r["found"], key=r["found"].get, default="") == cause for r in runs)
    halved = [run for run in runs if run["halved"] is not None]
    cured = sum(cause not in m["found"] and m["end"] > r["end"]
                for r, m in zip(runs, mended, strict=False))  # fmt: skip
    return {
        "cause": name, "named": f"{len(named)}/{len(runs)}", "first": f"{first}/{len(runs)}",
        "update": f"{fmean(named):.0f}" if named else "–",
        "halved": f"{fmean(r['halved'] for r in halved):.0f}" if halved else "–",
        "in time": f"{sum(_in_time(cause, run) for run in halved)}/{len(halved)}",
        "collapsed": f"{fmean(r['end'] for r in runs):.2f}",
        "mended": f"{fmean(r['end'] for r in mended):.2f}" if mended else "–",
        "cured": f"{cured}/{len(mended)}" if mended else "–",
    }  # fmt: skip


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


def _cause(name: str) -> str:
    """The cause of an entry; "" of one without."""
    name = name.removeprefix(FRESH)
    return name if name in declared() else ""


def _in_time(cause: str, run: Mapping[str, Any]) -> bool:
    """Whether a run's cause was named, and early enough where the exact match halves."""
    named, halved = run["found"].get(cause), run["halved"]
    return named is not None and (halved is None or named <= halved - LEAD)


def figures(result: Mapping[str, Any], *, fresh: bool = False) -> dict[str, Any]:
    """``recall``: share of the collapsed runs whose cause is named, in time where the exact match
    halves; ``named``: whenever; ``false_alarms``: share of the sound runs in which anything is
    found; ``runs``, ``sound``: how many there are; ``unsound``: of recipes' trainings, those whose
    exact match halves or ends no higher, which count as neither."""
    entries = [(_cause(name), run) for name, entry in result[KIND].items()
               if name.startswith(FRESH) == fresh and name not in UNLABELLED
               for run in entry["runs"]]  # fmt: skip
    runs = [(cause, run) for cause, run in entries if cause]
    whole = [run for cause, run in entries if not cause]
    sound = [run for run in whole if run["halved"] is None and run["end"] > run["start"]]
    return {
        "runs": len(runs), "sound": len(sound), "unsound": len(whole) - len(sound),
        "named": fmean(cause in run["found"] for cause, run in runs) if runs else None,
        "recall": fmean(_in_time(cause, run) for cause, run in runs) if runs else None,
        "false_alarms": fmean(bool(run["found"]) for run in sound) if sound else None,
    }  # fmt: skip
