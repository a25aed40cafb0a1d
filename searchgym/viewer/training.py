"""The state of a training run, read from its folder while it goes on or after it has ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from ..errors import DataError
from ..reports.curves import thinned
from ..reports.sources import CANDIDATE, LIVE, PLAN, RL, RL_LOG, SFT, SFT_LOG, read_run
from ..reports.training import label
from ..rl.collapse import meaning
from ..scoring.metrics import CURVE, EXAMPLES, HEALTH, PLAY, is_rate
from ..storage.files import LOCK, locked, parse_json, read_json

SHOWN: Mapping[str, tuple[str, ...]] = {
    RL: (*PLAY, *HEALTH), SFT: EXAMPLES, CANDIDATE: CURVE,
}  # fmt: skip
"""Measures by kind of run, in the order of the page."""
Line = Sequence[tuple[float, float]]
RUNNING, FINISHED, STOPPED, WAITING = "running", "finished", "stopped", "waiting"
_LATEST = 10
"""Steps whose mean duration says how long the rest will take."""
SMOOTHINGS = {"": "none", "0.6": "some", "0.9": "much"}
"""Choices of smoothing: the weight of what came before in an exponential mean."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 316, 8, 128
"""Edges of a curve's plot in its picture of 320 × 150."""
DEAD = {
    "no_reward": ("reward", 0, 10, "not one episode earned anything"),
    "all_invalid": ("invalid", 1, 3, meaning("all_invalid")),
    "no_signal": ("grad_norm", 0, 3, meaning("no_signal")),
}
"""Warning → the measure and its value in so many of the newest steps by which a run is dead, and
what that means."""


class CurveLine(NamedTuple):
    """The curve of one seed or run, as a path of the picture."""

    name: str
    path: str
    raw: str
    """Path before smoothing; "" without smoothing."""
    points: str
    """Place, x and value of each point, in words, for the pointer."""
    last: tuple[float, float]


class Panel(NamedTuple):
    """One measure over the run."""

    label: str
    latest: str
    x_ticks: tuple[tuple[float, str], ...]
    """Place in the picture, and number."""
    y_ticks: tuple[tuple[float, str], ...]
    lines: tuple[CurveLine, ...]


class Warned(NamedTuple):
    """A named warning, and the step that gave it."""

    name: str
    step: int
    meaning: str
    dead: bool = False
    """True if nothing can be learnt as long as it lasts."""


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
    lines: Mapping[str, Mapping[str, Line]] = field(default_factory=dict)
    """Measure → seed ("" if there is one only) → (x, value)."""
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
            lines=_lines(RL, {"": rows}, "step"),
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
            lines=_lines(SFT, {"": rows}, "step"),
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
            if seed.isdecimal() and int(seed) not in done:
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
            lines=_lines(
                CANDIDATE, {f"seed {seed}": curves[seed] for seed in sorted(curves)}, "episodes"
            ), x="episodes",
        )  # fmt: skip


def _lines(
    kind: str, curves: Mapping[str, Sequence[Mapping[str, Any]]], x: str
) -> dict[str, dict[str, Line]]:
    """Lines of the measures that the rows of each seed hold."""
    made: dict[str, dict[str, Line]] = {}
    for measure in SHOWN[kind]:
        for seed, rows in curves.items():
            known = [row for row in rows if x in row]
            values = [_number(row.get(measure)) for row in known]
            if line := thinned([float(row[x]) for row in known], values):
                made.setdefault(measure, {})[seed] = line
    return made


def panels(runs: Mapping[str, RunProgress], smooth: float) -> list[Panel]:
    """A panel for each measure of runs of the first one's kind.

    Args:
        runs: By their names.
        smooth: Weight of what came before, in [0, 1).
    """
    kind = next(iter(runs.values())).kind
    alike = {name: run for name, run in runs.items() if run.kind == kind}
    made = []
    for measure in SHOWN.get(kind, ()):
        lines = {
            " ".join(filter(None, [name if len(alike) > 1 else "", seed])): line
            for name, run in alike.items()
            for seed, line in run.lines.get(measure, {}).items()
        }
        if lines:
            made.append(_panel(label(measure, kind), is_rate(measure), lines, smooth))
    return made


def _panel(name: str, unit: bool, lines: Mapping[str, Line], smooth: float) -> Panel:
    """Rates are drawn on a scale of 0 to 1, or to 0.1 where they stay below; others from 0 on or,
    where they are negative, from their least value on."""
    values = [y for line in lines.values() for _, y in line]
    xs = [at for line in lines.values() for at, _ in line]
    low, high = min(0.0, *values), max(0.0, *values)
    if unit:
        low, high = 0.0, 1.0 if high > 0.1 else 0.1
    if high <= low:
        high = low + 1.0
    first, last = min(xs), max(xs)

    def across(at: float) -> float:
        share = (at - first) / (last - first) if last > first else 0.5
        return round(_LEFT + (_RIGHT - _LEFT) * share, 1)

    def down(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(_BOTTOM - (_BOTTOM - _TOP) * share, 1)

    def path(line: Line) -> str:
        return "M" + " L".join(f"{across(at)} {down(value)}" for at, value in line)

    drawn = []
    for told, line in lines.items():
        shown = smoothed(line, smooth)
        points = ";".join(f"{across(at)},{_short(at)},{_short(value)}" for at, value in line)
        end = (across(line[-1][0]), down(shown[-1][1]))
        drawn.append(CurveLine(told, path(shown), path(line) if smooth else "", points, end))
    latest = fmean(line[-1][1] for line in lines.values())
    x_ticks = dict.fromkeys([first, round((first + last) / 2), last])
    return Panel(
        name, _short(latest), tuple((across(at), f"{at:,.0f}") for at in x_ticks),
        tuple((down(at), _short(at)) for at in (low, (low + high) / 2, high)), tuple(drawn),
    )  # fmt: skip


def smoothed(line: Line, weight: float) -> list[tuple[float, float]]:
    """Exponential means of a line, each divided by the sum of its weights, as TensorBoard does."""
    made, mean, seen = [], 0.0, 0.0
    for x, y in line:
        mean, seen = weight * mean + (1 - weight) * y, weight * seen + 1 - weight
        made.append((x, mean / seen))
    return made


def _warnings(rows: Sequence[Mapping[str, Any]]) -> tuple[Warned, ...]:
    """The warnings of a log, after what makes the run dead now."""
    dead = []
    for name, (measure, value, fewest, told) in DEAD.items():
        streak = [*takewhile(lambda row: row.get(measure) == value, reversed(rows))]  # noqa: B023
        if len(streak) >= fewest:
            dead.append(Warned(name, streak[-1]["step"], told, dead=True))
    names = {warned.name for warned in dead}
    first: dict[str, Warned] = {}
    for row in rows:
        for name in row.get("warnings", ()):
            first.setdefault(name, Warned(name, row["step"], meaning(name)))
    return (*dead, *(warned for warned in first.values() if warned.name not in names))


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
