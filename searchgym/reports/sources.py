"""Reads folders: which kind of run each holds, its records as they were written, and which runs
differ in their seed only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError, EvaluationError, MissingExtraError
from ..evaluation.machine import NOTE as MACHINE
from ..evaluation.result import EvalResult
from ..rl.log import LOG as RL_LOG
from ..rl.log import read_log
from ..storage.files import parse_json, read_json

RL, SFT, CANDIDATE, EVALUATION, LADDER = (
    "training by reinforcement", "training on examples", "candidate training", "evaluation",
    "transfer",
)  # fmt: skip
SFT_LOG, LADDER_FILE, PLAN = "sft.jsonl", "transfer.json", "run.json"
LACKS, CURVES = "lacks.json", "curves.json"
LIVE = ".live.json"
"""Ending of the note that a candidate training keeps while it goes on."""
KINDS = (
    f"{RL_LOG} ('searchgym train RECIPE'), {SFT_LOG} ('searchgym warmstart'), agents/seed-*."
    f"safetensors ('searchgym train CARD'), {LADDER_FILE} ('searchgym transfer', 'quickstart') or "
    "results ('searchgym eval --out')"
)


@dataclass(frozen=True)
class Curve:
    """One seed's points of a training run."""

    seed: int
    rows: tuple[Mapping[str, Any], ...]
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A folder's records; what its kind does not have is empty."""

    kind: str
    path: Path
    about: Mapping[str, Any] = field(default_factory=dict)
    """Settings, as far as they were written down."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    curves: tuple[Curve, ...] = ()
    results: tuple[EvalResult, ...] = ()
    files: tuple[Path, ...] = ()
    """The files of ``results``."""
    ladder: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.resolve().name if self.path.is_dir() else self.path.stem


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """The runs in folders (or single result files), all of one kind.

    Raises:
        DataError: no folder, nothing known in it, a broken line, or runs of different kinds.
        EvaluationError: a result that cannot be read.
    """
    if not paths:
        raise DataError("no run was named: searchgym report RUN [RUN …]")
    if twice := [p for i, p in enumerate(paths) if p.resolve() in {q.resolve() for q in paths[:i]}]:
        raise DataError(f"{twice[0]} was named twice")
    runs = [read_run(path) for path in paths]
    kinds: dict[str, Path] = {}
    for run in runs:
        kinds.setdefault(run.kind, run.path)
    if len(kinds) > 1:
        told = "; ".join(f"{path} holds: {kind}" for kind, path in kinds.items())
        raise DataError(f"runs of different kinds ({told}): make a report of each kind")
    return runs


def read_run(path: Path) -> Run:
    """The run in a folder, or of a single result file; see :func:`read_runs`."""
    if not path.exists():
        raise DataError(f"{path} does not exist: name the folder of a run")
    if path.is_file():
        return Run(EVALUATION, path, results=(_result(path, path),), files=(path,))
    machine = _json(path / MACHINE) if (path / MACHINE).is_file() else {}
    if (path / LADDER_FILE).is_file():
        ladder = _ladder(path / LADDER_FILE)
        if (path / LACKS).is_file():
            ladder["lacks"] = _json(path / LACKS)
        return Run(LADDER, path, machine=machine, ladder=ladder, curves=_learned(path / CURVES))
    if (path / RL_LOG).is_file():
        rows = read_log(path)
        if not rows:
            raise DataError(f"{path / RL_LOG} is empty: no step was finished yet")
        about = _json(path / PLAN) if (path / PLAN).is_file() else {}
        seed = int(about.get("train", {}).get("seed", 0))
        return Run(RL, path, about, machine, (Curve(seed, tuple(rows)),))
    if (path / SFT_LOG).is_file():
        rows = read_log(path, SFT_LOG)
        if not rows:
            raise DataError(f"{path / SFT_LOG} is empty: no step was logged yet")
        about = _header(path / "trainer.safetensors").get("settings", {})
        seed = int(about.get("config", {}).get("seed", 0))
        return Run(SFT, path, about, machine, (Curve(seed, tuple(rows)),))
    if curves := _candidates(path):
        return Run(CANDIDATE, path, machine=machine, curves=curves)
    if results := _results(path):
        return Run(
            EVALUATION, path, machine=machine, results=tuple(results.values()),
            files=tuple(results),
        )  # fmt: skip
    raise DataError(f"{path} holds no run that can be reported: looked for {KINDS}")


def _results(folder: Path) -> dict[Path, EvalResult]:
    """Results right in the folder; other JSON files are none of them."""
    result_of = {}
    for path in sorted(folder.glob("*.json")):
        data = _json(path)
        if isinstance(data, Mapping) and {"schema_version", "rows", "columns"} <= data.keys():
            result_of[path] = _result(path, folder)
    return result_of


def _result(path: Path, named: Path) -> EvalResult:
    try:
        result = EvalResult.load(path)
    except EvaluationError as error:
        told = str(error)
        raise EvaluationError(told if str(path) in told else f"{path}: {told}") from error
    if not result.rows:
        raise DataError(f"{path}: no question was played to its end yet; the same command goes on")
    return result


def _candidates(folder: Path) -> tuple[Curve, ...]:
    curves = []
    for path in sorted((folder / "agents").glob("seed-*.safetensors")):
        if path.name.endswith(".checkpoint.safetensors"):
            continue
        meta = _header(path).get("meta", {})
        rows = meta.get("curve")
        if not isinstance(rows, list) or "seed" not in meta:
            raise DataError(f"{path}: no learning curve is noted in it; train it again")
        about = {k: v for k, v in meta.items() if k not in ("curve", "seed")}
        curves.append(Curve(int(meta["seed"]), tuple(rows), about))
    return tuple(sorted(curves, key=lambda curve: curve.seed))


def _learned(path: Path) -> tuple[Curve, ...]:
    if not path.is_file():
        return ()
    try:
        return tuple(
            Curve(int(one["seed"]), tuple(one["curve"]), {"agent": one["agent"]})
            for one in _json(path)
        )
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(f"{path} holds no learning curves: {error!r}") from error


def _header(path: Path) -> dict[str, Any]:
    """The JSON that is kept in a safetensors file of ours; {} where there is no file."""
    if not path.is_file():
        return {}
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingExtraError("reading what a run was made of", "train") from error
    try:
        with safe_open(str(path), framework="numpy") as handle:
            header: dict[str, Any] = parse_json((handle.metadata() or {})["searchgym"], path)
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise DataError(f"{path}: not written by SearchGym, or broken ({error})") from None
    return header


def _ladder(path: Path) -> dict[str, Any]:
    data = _json(path)
    known = isinstance(data, dict) and {"rungs", "table"} <= data.keys()
    if not known:
        raise DataError(f"{path} is no transfer table: it needs 'rungs' and 'table'")
    if not data["table"]:
        raise DataError(f"{path} is empty: no agent has finished a rung yet")
    return dict(data)


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except FileNotFoundError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


class RunGroup(NamedTuple):
    """Runs that differ in their seed only: one series."""

    name: str
    curves: tuple[Curve, ...]
    about: Mapping[str, Any]


def grouped(runs: Sequence[Run]) -> list[RunGroup]:
    """Runs by all settings but seed, device and what may change in a run that goes on."""
    by: dict[str, list[Run]] = {}
    for run in runs:  # runs without written settings are each by themselves
        own = json.dumps(same_settings(run.about), sort_keys=True) if run.about else str(run.path)
        by.setdefault(own, []).append(run)
    names = _names([members[0] for members in by.values()])
    return [
        RunGroup(name, tuple(c for run in members for c in run.curves), members[0].about)
        for name, members in zip(names, by.values(), strict=True)
    ]


def same_settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those in which runs of one series may differ."""
    free = {"seed", "steps", "save_every"}
    kept = {k: v for k, v in about.items() if k not in ("device", "recipe")}
    for table in ("train", "config"):
        if isinstance(kept.get(table), Mapping):
            kept[table] = {k: v for k, v in kept[table].items() if k not in free}
    return kept


def _names(firsts: Sequence[Run]) -> list[str]:
    recipes = [str(run.about.get("recipe", "")) for run in firsts]
    if all(recipes) and len(set(recipes)) == len(recipes):
        return recipes
    names = [run.name for run in firsts]
    return names if len(set(names)) == len(names) else [str(run.path) for run in firsts]
