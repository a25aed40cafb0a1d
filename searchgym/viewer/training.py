"""The state of a training run, read from its folder while it goes on or after it has ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from ..errors import DataError
from ..reports.curves import thinned
from ..reports.sources import CANDIDATE, LIVE, PLAN, RL, RL_LOG, SFT, SFT_LOG, read_run
from ..reports.training import MEANING, label
from ..scoring.metrics import CURVE, EXAMPLES, HEALTH, PLAY, is_rate
from ..storage.files import LOCK, locked, parse_json, read_json

SHOWN: Mapping[str, tuple[str, ...]] = {
    RL: (*PLAY, *HEALTH), SFT: EXAMPLES, CANDIDATE: CURVE,
}  # fmt: skip
"""Measures by kind of run, in the order of the page."""
RUNNING, FINISHED, STOPPED, WAITING = "running", "finished", "stopped", "waiting"
_LATEST = 10
"""Steps whose mean duration says how long the rest will take."""
_WIDE, _HIGH = 300, 110
"""Size of a curve's picture, in its own units."""


class CurveLine(NamedTuple):
    """One seed's curve, as a path in a picture of 300 × 110."""

    seed: int
    path: str
    last: tuple[float, float]


class Panel(NamedTuple):
    """One measure over the run."""

    label: str
    latest: str
    low: str
    high: str
    lines: tuple[CurveLine, ...]


class Warned(NamedTuple):
    """A named warning, and the step that gave it."""

    name: str
    step: int
    meaning: str


@dataclass(frozen=True)
class RunProgress:
    """A training run at one moment."""

    kind: str
    title: str
    state: str
    """RUNNING, FINISHED, STOPPED (neither running nor done) or WAITING (nothing is written yet)."""
    fraction: float | None = None
    """Share of the run that is done; None if the run does not say how long it is."""
    told: str = ""
    """Progress in words: "step 7 of 14"."""
    left_s: float | None = None
    panels: tuple[Panel, ...] = ()
    warnings: tuple[Warned, ...] = ()
    x: str = "step"
    facts: Mapping[str, str] = field(default_factory=dict)


class LogTail:
    """The rows of a log that grows: each poll reads what is new only."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, list[dict[str, Any]]()
        self._at = 0

    def read(self) -> list[dict[str, Any]]:
        """Return all rows; lines that are not whole or no JSON objects are left out."""
        if not self.path.is_file():
            return []
        if self.path.stat().st_size < self._at:  # resumed from a checkpoint, or begun anew
            self.rows, self._at = [], 0
        with self.path.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            try:
                row = parse_json(line, self.path)
            except ValueError:
                continue
            if isinstance(row, dict) and isinstance(row.get("step"), int):
                self.rows.append(row)
        return self.rows


class TrainingRun:
    """Reads a run's folder whenever it is asked.

    Args:
        folder: That of ``searchgym train``, ``warmstart`` or ``quickstart``. It may be empty yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rl, self._sft = LogTail(folder / RL_LOG), LogTail(folder / SFT_LOG)

    def progress(self) -> RunProgress:
        """The state now.

        Raises:
            DataError: what was written cannot be read, or is not what a training writes.
        """
        try:
            return self._progress()
        except DataError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise DataError(
                f"{self.folder} holds values that no training writes ({type(error).__name__}: "
                f"{error!s:.200}): were its {PLAN} or logs changed by hand?"
            ) from error

    def _progress(self) -> RunProgress:
        agents = self.folder / "agents"
        if (self.folder / PLAN).is_file() or self._rl.path.is_file():
            return self._language_model()
        if self._sft.path.is_file():
            return self._examples()
        if any(agents.glob(f"seed-*{LIVE}")) or any(agents.glob("seed-*.safetensors")):
            return self._candidates(agents)
        state = RUNNING if self._locked() else WAITING
        return RunProgress("", self.folder.name, state, told="nothing is written yet")

    def _locked(self) -> bool:
        return locked(self.folder / LOCK)

    def _language_model(self) -> RunProgress:
        rows = self._rl.read()
        plan = _json(self.folder / PLAN)
        steps = (plan.get("train") or {}).get("steps") or 0
        done = rows[-1]["step"] + 1 if rows else 0
        running = self._locked()
        finished = not running and done >= (steps or 1) and (self.folder / "model").is_dir()
        spent = [
            row["rollout_s"] + row["update_s"]
            for row in rows[-_LATEST:]
            if isinstance(row.get("rollout_s"), float) and isinstance(row.get("update_s"), float)
        ]
        left = fmean(spent) * (steps - done) if spent and steps > done else None
        state = RUNNING if running else FINISHED if finished else STOPPED if rows else WAITING
        title = self.folder.name
        if plan:
            title = f"{plan.get('recipe')} · {plan.get('model')} in {plan.get('env')}"
        return RunProgress(
            RL, title, state,
            fraction=min(1.0, done / steps) if steps else None,
            told=f"step {done:,} of {steps:,}" if steps else f"step {done:,}",
            left_s=left if running else None,
            panels=panels(RL, {0: rows}, "step"),
            warnings=_warnings(rows),
            facts=_facts(rows[-1]) if rows else {},
        )  # fmt: skip

    def _examples(self) -> RunProgress:
        rows = self._sft.read()
        running = self._locked()
        done = rows[-1]["step"] if rows else 0
        whole = (self.folder / "model.safetensors").is_file()
        return RunProgress(
            SFT, self.folder.name, RUNNING if running else FINISHED if whole else STOPPED,
            fraction=1.0 if whole and not running else None, told=f"step {done:,}",
            panels=panels(SFT, {0: rows}, "step"),
        )  # fmt: skip

    def _candidates(self, agents: Path) -> RunProgress:
        """Finished seeds from their files, those that go on from the notes beside them."""
        done: dict[int, Sequence[Mapping[str, Any]]] = {}
        if any(p for p in agents.glob("seed-*.safetensors") if ".checkpoint." not in p.name):
            run = read_run(self.folder) if not (self.folder / "transfer.json").is_file() else None
            done = {curve.seed: curve.rows for curve in run.curves} if run else {}
        going: dict[int, Mapping[str, Any]] = {}
        for path in sorted(agents.glob(f"seed-*{LIVE}")):
            seed = path.name.removeprefix("seed-").removesuffix(LIVE)
            if seed.isdigit() and int(seed) not in done:
                going[int(seed)] = _json(path)
        running = [n for n in going if locked(agents / f".seed-{n}.lock")]
        curves = {**done, **{seed: note.get("curve", ()) for seed, note in going.items()}}
        now = going[running[0]] if running else next(iter(going.values()), {})
        at = running[0] if running else next(iter(going), None)
        state = RUNNING if running else STOPPED if going else FINISHED
        fraction = float(now.get("fraction", 0.0)) if going else 1.0
        last = max((rows[-1] for rows in curves.values() if rows), key=_episodes, default=None)
        told = [f"seed {at}: {now.get('what', '')}"] if going else []
        if last is not None:
            told.append(f"{_episodes(last):,.0f} episodes at the last evaluation")
        return RunProgress(
            CANDIDATE, f"{self.folder.name}: candidate agent", state, fraction=min(1.0, fraction),
            told=", ".join(told), left_s=_number(now.get("left_s")) if running else None,
            panels=panels(CANDIDATE, curves, "episodes"), x="episodes",
        )  # fmt: skip


def panels(
    kind: str, curves: Mapping[int, Sequence[Mapping[str, Any]]], x: str
) -> tuple[Panel, ...]:
    """A panel for each measure that the rows hold."""
    made = []
    for name in SHOWN[kind]:
        lines = {
            seed: thinned(
                [float(row[x]) for row in rows if x in row],
                [_number(row.get(name)) for row in rows if x in row],
            )
            for seed, rows in curves.items()
        }
        lines = {seed: line for seed, line in lines.items() if line}
        if lines:
            made.append(_panel(label(name, kind), is_rate(name), lines))
    return tuple(made)


def _panel(name: str, unit: bool, lines: Mapping[int, Sequence[tuple[float, float]]]) -> Panel:
    """Rates are drawn on a scale of 0 to 1, or to 0.1 where they stay below; others from 0 on or,
    where they are negative, from their least value on."""
    values = [y for line in lines.values() for _, y in line]
    xs = [at for line in lines.values() for at, _ in line]
    low, high = min(0.0, *values), max(0.0, *values)
    if unit:
        low, high = 0.0, 1.0 if high > 0.1 else 0.1
    if high <= low:
        high = low + 1.0
    left, wide = min(xs), max(max(xs) - min(xs), 1e-9)

    def place(at: float, value: float) -> tuple[float, float]:
        x = 4 + (_WIDE - 8) * (at - left) / wide if len(set(xs)) > 1 else _WIDE / 2
        y = 5 + (_HIGH - 10) * (1 - (min(max(value, low), high) - low) / (high - low))
        return round(x, 1), round(y, 1)

    drawn = []
    for seed, line in sorted(lines.items()):
        points = [place(at, value) for at, value in line]
        path = "M" + " L".join(f"{px} {py}" for px, py in points)
        drawn.append(CurveLine(seed, path, points[-1]))
    latest = fmean(line[-1][1] for line in lines.values())
    return Panel(name, _short(latest), _short(low), _short(high), tuple(drawn))


def _warnings(rows: Sequence[Mapping[str, Any]]) -> tuple[Warned, ...]:
    """The warnings of a log, and what its newest steps show that no warning says."""
    found = [Warned(name, row["step"], MEANING.get(name, ""))
             for row in rows for name in row.get("warnings", ())]  # fmt: skip
    newest = rows[-3:]
    for name, measure, value in (("all_invalid", "invalid", 1), ("no_signal", "grad_norm", 0)):
        dead = len(newest) == 3 and all(row.get(measure) == value for row in newest)
        if dead and name not in {warned.name for warned in found}:
            found.append(Warned(name, newest[0]["step"], MEANING.get(name, "")))
    return tuple(found)


def _facts(row: Mapping[str, Any]) -> dict[str, str]:
    """The newest step in numbers that no curve shows."""
    play = max(row.get("rollout_s") or 0.0, 1e-9)
    return {
        "episodes per step": f"{row.get('episodes', 0):,.0f}",
        "episodes/s": f"{(row.get('episodes') or 0) / play:.2f}",
        "seconds per step": f"{play + (row.get('update_s') or 0.0):.1f}",
        "lost to infrastructure": f"{row.get('infra_errors') or 0:,.0f}",
    }


def _episodes(row: Mapping[str, Any]) -> float:
    return float(row.get("episodes", 0))


def _short(value: float) -> str:
    if value and abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _number(value: object) -> float | None:
    real = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if real else None  # type: ignore[arg-type]


def _json(path: Path) -> dict[str, Any]:
    try:
        value = read_json(path)
    except FileNotFoundError:
        return {}
    if not isinstance(value, dict):
        raise DataError(f"{path} holds no JSON object")
    return value
