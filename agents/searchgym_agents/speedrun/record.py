"""A run of the speedrun, its record, and the check of a record by playing its actions again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from searchgym.core.trajectory import read_jsonl
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError, EvaluationError, check_known
from searchgym.evaluation.journal import trajectories_of
from searchgym.evaluation.machine import machine, today
from searchgym.evaluation.play import spread
from searchgym.evaluation.run import asked_digest, evaluate
from searchgym.storage.files import read_json, write_whole
from searchgym.types import TurnRequest

from .tracks import TRACKS, Plan

BAR = 0.65
"""Exact match on all held-out questions at which the clock has stopped for good."""
HELD_OUT: Mapping[str, Any] = {
    "corpus": "encyclopedia", "split": "test", "max_turns": 4, "tasks": {"chain-2": 300},
    "world": {"entities": 1500, "homonyms": 0.02},
}  # fmt: skip
"""Two-hop questions of a world, and in phrasings, that no training shows: the ladder's rung
``held-out wording``."""
SCREEN, NEAR = 60, 0.15
"""Questions asked first; the others only where the exact match is at most so far below the bar."""
FORMAT = 1


class Clock:
    """Wall and processor seconds of this process and those it started, pauses left out."""

    def __init__(self) -> None:
        self._paused = [0.0, 0.0]
        self._began = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter(), sum(os.times()[:4])

    def seconds(self) -> tuple[float, float]:
        """Return (wall, processor)."""
        now = zip(self._now(), self._began, self._paused, strict=True)
        wall, processor = (at - began - paused for at, began, paused in now)
        return wall, processor

    @contextmanager
    def stopped(self) -> Iterator[tuple[float, float]]:
        """Pause; gives the seconds until then."""
        at = self._now()
        try:
            yield self.seconds()
        finally:
            self._paused = [
                p + now - then for p, now, then in zip(self._paused, self._now(), at, strict=True)
            ]


class _EndedError(Exception):
    """Ends a training: the argument says whether the agent has reached the bar."""


def held_out() -> SearchEnv:
    """Make the environment of the held-out questions."""
    return SearchEnv(**HELD_OUT)


def run(
    track: str,
    plan: Plan,
    *,
    every: int | None = None,
    seconds: float | None = None,
    report: Callable[[Mapping[str, Any]], object] = lambda point: None,
) -> dict[str, Any]:
    """Train until the bar is reached or the track's budget is spent, and write
    ``plan.out/record.json``, which is also returned.

    The clock runs from here, through worlds, encoding and updates, and stands still while held-out
    questions are played. ``final.json`` and its trajectories, the last evaluation, stand beside the
    record, as ``searchgym verify`` takes them.

    Args:
        every: Updates between two looks; the track's by default.
        seconds: Wall seconds of the clock after which the next look is the last.
        report: Told each point of the curve.

    Raises:
        CardError: an unknown track, or a model that is not of its size.
        EvaluationError: the folder holds a record already.
    """
    check_known("track", TRACKS, track)
    chosen, final = TRACKS[track], plan.out / "final.json"
    if (plan.out / "record.json").exists():
        raise EvaluationError(f"{plan.out} holds a record: name another folder with --out")
    plan = plan._replace(changes=(*chosen.changes, *plan.changes), model=plan.model or chosen.model)
    if chosen.parameters[0] and plan.model is None:
        raise CardError(f"the track {track!r} needs --model: {chosen.about}")
    env = held_out()
    ids = [task.id for task in env.tasks]
    some = set(spread(ids, SCREEN))
    first = [task for task in env.tasks if task.id in some]
    found: dict[str, Any] = {}
    curve: list[dict[str, Any]] = []
    clock = Clock()

    def look(agent: Any, networks: Any, updates: int) -> None:
        if curve and curve[-1]["updates"] == updates:
            return
        with clock.stopped() as (wall, processor):
            found["agent"] = agent
            found["parameters"] = sum(p.numel() for p in networks.parameters())
            low, high = chosen.parameters
            if not low <= found["parameters"] <= high:
                raise CardError(
                    f"{plan.model} has {found['parameters']:,} parameters; track {track!r}: "
                    f"{chosen.about}"
                )
            result = evaluate(agent, env, tasks=first, name="screen")
            if result.means["em"].mean >= BAR - NEAR or not curve:
                result = evaluate(agent, env, name="final", out=final, fresh=True)
            em, f1 = (result.means[name].mean for name in ("em", "f1"))
            point = {"updates": updates, "wall_s": wall, "processor_s": processor, "em": em,
                     "f1": f1, "questions": len(result.rows)}  # fmt: skip
            curve.append(point)
            report(point)
            reached = len(result.rows) == len(ids) and em >= BAR
            if reached or (seconds is not None and wall >= seconds):
                raise _EndedError(reached)

    try:
        chosen.train(plan, look, every or chosen.every)
        reached = False
    except _EndedError as ended:
        (reached,) = ended.args
    last = curve[-1]
    if last["questions"] < len(ids):  # the bar was far: the end is measured in full all the same
        result = evaluate(found["agent"], env, name="final", out=final, fresh=True)
        last |= {
            "em": result.means["em"].mean, "f1": result.means["f1"].mean, "questions": len(ids)
        }  # fmt: skip
    played = read_jsonl(trajectories_of(final))
    record = {
        "speedrun": FORMAT, "track": track, "seed": plan.seed, "model": plan.model,
        "changes": list(plan.changes), "parameters": found["parameters"], "commit": commit(),
        "machine": machine(), "date": today(), "curve": curve, "reached": reached,
        **{name: last[name] for name in ("wall_s", "processor_s", "em", "f1")},
        "questions": asked_digest(list(env.tasks)),
        "actions": {t.id: [str(turn["text"]) for turn in t.turns] for t in played},
    }  # fmt: skip
    write_whole(plan.out / "record.json", json.dumps(record, indent=1))
    return record


class _Recorded:
    """An agent that plays a record's actions."""

    def __init__(self, actions: Mapping[str, Sequence[str]]) -> None:
        self.actions = actions

    def act(self, requests: Sequence[TurnRequest]) -> list[str]:
        texts = ((self.actions.get(r.episode_id, ()), r.turn) for r in requests)
        return [str(said[turn]) if turn < len(said) else "" for said, turn in texts]


def check_record(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Read a record and play its actions again in the held-out world; what is wrong with it.

    Times and the machine cannot be checked: who doubts them trains again.

    Raises:
        EvaluationError: it is no record.
    """
    record = read_json(path)
    if not isinstance(record, dict) or record.get("speedrun") != FORMAT:
        raise EvaluationError(f"{path} is no record as 'searchgym speedrun' writes it")
    try:
        check_known("track", TRACKS, record["track"], error=EvaluationError)
        return record, _wrong(record)
    except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise EvaluationError(f"{path} is no record: {error!r:.200}") from error


def _wrong(record: Mapping[str, Any]) -> list[str]:
    wrong = []
    env, curve = held_out(), record["curve"]
    low, high = TRACKS[record["track"]].parameters
    if not max(low, 1) <= record["parameters"] <= min(high, sys.float_info.max):
        wrong.append(f"{record['parameters']:,} parameters are not of track {record['track']!r}")
    if record["questions"] != asked_digest(list(env.tasks)):
        wrong.append("other questions than the held-out ones")
    for name in ("updates", "wall_s", "processor_s"):
        seen = [point[name] for point in curve]
        if seen != sorted(seen) or not 0 < seen[0] <= seen[-1] <= sys.float_info.max:
            wrong.append(f"{name} of the curve do not go up from above 0")
    if any(curve[-1][k] != record[k] for k in ("wall_s", "processor_s", "em", "f1")):
        wrong.append("the curve does not end with what is stated")
    if any(p["em"] >= BAR and p["questions"] == len(env.tasks) for p in curve[:-1]):
        wrong.append("the bar was reached before the end of the curve")
    again = evaluate(_Recorded(record["actions"]), env)
    for name in ("em", "f1"):
        if abs((mean := again.means[name].mean) - record[name]) > 1e-9:
            wrong.append(f"{name} {record[name]:.4f} is stated, played again {mean:.4f}")
    if record["reached"] is not (again.means["em"].mean >= BAR):
        wrong.append(f"'reached' is {record['reached']}, the bar is {BAR}")
    return wrong


def records() -> list[dict[str, Any]]:
    """The records that are kept here: by track, those that reached the bar first, by time."""
    found = [read_json(path) for path in (Path(__file__).parent / "records").glob("*.json")]
    order = list(TRACKS)
    return sorted(
        found, key=lambda r: (order.index(r["track"]), not r["reached"], r["processor_s"])
    )


def commit() -> str | None:
    """The commit of the checkout, with a "+" where files differ from it; None elsewhere."""
    here = Path(__file__).parent
    told = [
        subprocess.run(["git", "-C", here, *what], capture_output=True, text=True, check=False)
        for what in (("rev-parse", "HEAD"), ("status", "--porcelain", "-uno"))
    ]  # fmt: skip
    if any(done.returncode for done in told):
        return None
    return told[0].stdout.strip() + ("+" if told[1].stdout.strip() else "")
