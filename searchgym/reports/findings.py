"""Findings of a transfer table as sentences: scores, kept gains, sets on which rules are better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..charts.palette import SCRIPTS, UNTRAINED
from ..evaluation.intervals import Interval
from ..scoring.metrics import label
from .report import listed, percent, quoted
from .sources import Run

METRIC = "f1"
ALL_REAL = "real sets, averaged"
"""Stands for a rung where gains on all real sets are averaged."""
RULES = "rules"
"""The agent that a trained one has to beat."""
MOST_SETS = 4
"""Sets named one by one in a sentence."""


class LeadOverScript(NamedTuple):
    """Verdict on an agent's mean on a rung beside that of the rung's best script."""

    script: str
    own: float
    other: float
    sign: int
    """1: above beyond doubt, -1: below beyond doubt, 0: not told apart."""

    def __str__(self) -> str:
        return f"{self.own:.2f}, {self.script} {self.other:.2f}"


Standings = Mapping[tuple[str, str], LeadOverScript]
"""Rung and agent → how it stands; without those of rungs on which no script has played."""


def standings(
    cells: Sequence[Mapping[str, Any]], contrasts: Sequence[Mapping[str, Any]] = (),
    metric: str = METRIC,
) -> Standings:  # fmt: skip
    """Compare each agent of a table with the best script of each rung: by the interval of their
    difference on the same questions, or where none is there by their own, which must not overlap.
    """
    own = {(c["rung"], c["agent"]): c for c in cells if c["metric"] == metric}
    gaps = {(c["rung"], c["agent"], c["other"]): c["difference"] for c in contrasts
            if c["metric"] == metric}  # fmt: skip
    found = {}
    for (rung, agent), cell in own.items():
        scripts = [own[rung, s] for s in SCRIPTS if (rung, s) in own and s != agent]
        scripts = [s for s in scripts if s["mean"] is not None and s["mean"] == s["mean"]]
        if not scripts or cell["mean"] is None:
            continue
        best = max(scripts, key=lambda script: float(script["mean"]))
        gap = gaps.get((rung, agent, best["agent"]))
        if gap is not None:
            sign = (gap["low"] > 0) - (gap["high"] < 0)
        elif None in (cell["low"], cell["high"], best["low"], best["high"]):
            sign = 0
        else:
            sign = (cell["low"] > best["high"]) - (cell["high"] < best["low"])
        found[rung, agent] = LeadOverScript(best["agent"], cell["mean"], best["mean"], sign)
    return found


def tells(stands: Standings, gain: Mapping[str, Any], real: Sequence[str] = ()) -> bool:
    """Return whether a transfer ratio says something: the gain is over a script, or the agent is
    above the best script there beyond doubt. Over all ``real`` sets: above on one, below on none.
    """
    if gain["baseline"] in SCRIPTS:
        return True
    rungs = real if gain["rung"] == ALL_REAL else (gain["rung"],)
    signs = {stands[r, gain["agent"]].sign for r in rungs if (r, gain["agent"]) in stands}
    return not signs or (1 in signs and -1 not in signs)


NOT_ABOVE = "not above the best script beyond doubt"
"""Why a transfer ratio is not shown."""


def told_standings(stands: Standings, agent: str, rungs: Sequence[str]) -> list[str]:
    """Return where an agent is above the best script beyond doubt, below it, and neither."""
    parts = []
    for sign, words in ((1, "above"), (-1, "below"), (0, "not told apart from")):
        here = [(r, stands[r, agent]) for r in rungs
                if (r, agent) in stands and stands[r, agent].sign == sign]  # fmt: skip
        if here:
            named = here if sign < 0 else here[:MOST_SETS]
            more = [f"{len(here) - len(named)} more"] if len(here) > len(named) else []
            sets = listed([f"{r} ({stand})" for r, stand in named] + more)
            parts.append(f"{words} the best script on {sets}")
    return parts


class Findings:
    """The finding of one table or of several.

    Args:
        cells: Rows of the tables, under the names that the report gives the agents.
        rungs: Sets, near ones first, as the tables have them.
        focus: The agent that the report is about.
        own: All agents that it is about: no baselines.
    """

    def __init__(
        self, cells: Sequence[Mapping[str, Any]], rungs: Sequence[Mapping[str, Any]], focus: str,
        own: Sequence[str], runs: Sequence[Run],
    ) -> None:  # fmt: skip
        self.cells = {(c["rung"], c["agent"]): c for c in cells if c["metric"] == METRIC}
        self.rungs, self.focus, self.own, self.runs = rungs, focus, own, runs
        played = [r for r in rungs if (r["name"], focus) in self.cells]
        self.generated = [r["name"] for r in played if r.get("kind") == "generated"]
        self.real = [r["name"] for r in played if r.get("kind") == "real"]

    def title(self) -> str:
        """Say where the agent beats the best script and where not; else what was measured."""
        stands = [stand for (_, agent), stand in self._standings().items() if agent == self.focus]
        if stands:
            won, lost = (sum(stand.sign == sign for stand in stands) for sign in (1, -1))
            who = "The trained agent" if self.focus == "trained" else quoted(self.focus)
            told = f"{who} clearly beats the best script on {won} of {len(stands)}"
            return f"{told} sets" + (f" and loses on {lost}" if lost else "")
        names = [str(r["name"]) for r in self.rungs]
        there = self.real or names[-1:]
        far = listed(there) if len(there) <= 2 else f"{len(there)} sets of real questions"
        start = " from generated worlds" if self.generated and self.real else ""
        return f"Transfer of {quoted(self.focus)}{start} to {far}"

    def sentences(self) -> list[str]:
        """The finding, where the agent is above scripts and where not, other agents' scores."""
        out = [*filter(None, [self._lead()]), *self._stands()]
        for name in dict.fromkeys([self.focus, *self.own]):
            if line := self._scores(name):
                out.append(line)
        for other, (wins, tried) in self._wins().items():
            out.append(
                f"{quoted(self.focus)} is better than {quoted(other)} beyond chance (Holm) on "
                f"{wins} of {tried} real sets."
            )
        return out

    def _lead(self) -> str:
        home = self._home()
        if home is None:
            return ""
        own = self.cells[home, self.focus]
        told = f"{quoted(self.focus)} has {label(METRIC)} {own['mean']:z.2f} in {home}"
        if (rules := self.cells.get((home, RULES))) is not None and self.focus != RULES:
            told += f" (rules {rules['mean']:z.2f})"
        kept = self._kept()
        return f"{told}{'; it keeps ' + listed(kept) if kept else ''}."

    def _home(self) -> str | None:
        reference = next((str(run.ladder.get("reference") or "") for run in self.runs), "")
        if (reference, self.focus) in self.cells:
            return reference
        return next((r["name"] for r in self.rungs if (r["name"], self.focus) in self.cells), None)

    def _kept(self) -> list[str]:
        """Shares of the gain that are left, on all real sets together if there are several."""
        shares: dict[str, str] = {}
        for run in self.runs:
            stands = standings(run.ladder["table"], run.ladder.get("contrasts", ()))
            for gain in run.ladder.get("gains", ()):
                ratio = Interval.read(gain.get("ratio"))
                agent = self._name_of(run, str(gain.get("agent")))
                if gain.get("metric") != METRIC or not ratio or agent != self.focus:
                    continue
                if not tells(stands, gain, self.real):
                    continue
                if gain["rung"] in (ALL_REAL, *self.real):
                    where = "real sets" if gain["rung"] == ALL_REAL else gain["rung"]
                    baseline = str(gain["baseline"])
                    over = "itself before training"
                    if baseline != f"{gain['agent']}{UNTRAINED}" and baseline != "untrained":
                        over = quoted(baseline)
                    shares[gain["rung"]] = (
                        f"{percent(ratio.mean)} [{percent(ratio.low)}, {percent(ratio.high)}] of "
                        f"its gain over {over} on {where}"
                    )
        if ALL_REAL in shares:
            return [shares[ALL_REAL]]
        return list(shares.values())

    def _name_of(self, run: Run, agent: str) -> str:
        return f"{run.name}: {agent}" if len(self.runs) > 1 else agent

    def _standings(self) -> Standings:
        pairs = [{**c, "agent": self._name_of(run, c["agent"])}
                 for run in self.runs for c in run.ladder.get("contrasts", ())]  # fmt: skip
        return standings(list(self.cells.values()), pairs)

    def _stands(self) -> list[str]:
        stands = self._standings()
        parts = told_standings(stands, self.focus, [str(r["name"]) for r in self.rungs])
        return [f"It is {part}." for part in parts] if self.focus not in SCRIPTS else []

    def _scores(self, agent: str) -> str:
        own = {rung: c for (rung, name), c in self.cells.items() if name == agent}
        near = [n for n in self.generated if n in own]
        told = [
            f"{own[n]['mean']:z.2f} [{own[n]['low']:z.2f}, {own[n]['high']:z.2f}] in {n}"
            for n in dict.fromkeys(near[:1] + near[-1:])
        ]
        if real := [n for n in self.real if n in own]:
            scores = ", ".join(f"{own[n]['mean']:z.2f} ({n})" for n in real)
            told.append(f"on real passages {scores}")
        return f"{label(METRIC)} of {quoted(agent)}: {'; '.join(told)}." if told else ""

    def _wins(self) -> dict[str, tuple[int, int]]:
        beaten: dict[str, list[bool]] = {}
        for run in self.runs:
            for c in run.ladder.get("contrasts", ()):
                if c["rung"] in self.real and self._name_of(run, c["agent"]) == self.focus:
                    better = c["p_holm"] < 0.05 and c["difference"]["mean"] > 0
                    beaten.setdefault(str(c["other"]), []).append(better)
        return {name: (sum(b), len(b)) for name, b in beaten.items() if any(b)}
