"""Findings of a transfer table as sentences: scores, kept gains, sets on which rules are better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..charts.palette import UNTRAINED
from ..evaluation.shown import label
from .naming import listed, percent, quoted
from .report import Quantity
from .sources import Run

METRIC = "f1"
ALL_REAL = "real sets, averaged"
"""Stands for a rung where gains on all real sets are averaged."""
RULES = "rules"
"""The agent that a trained one has to beat."""
MOST_SETS = 4
"""Sets named one by one in a sentence."""


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
        """List which agent was measured on which set."""
        names = [str(r["name"]) for r in self.rungs]
        there = self.real or names[-1:]
        far = listed(there) if len(there) <= 2 else f"{len(there)} sets of real questions"
        start = " from generated worlds" if self.generated and self.real else ""
        return f"Transfer of {quoted(self.focus)}{start} to {far}"

    def sentences(self) -> list[str]:
        """The finding, where the agent loses to rules, every other agent's scores."""
        out = [line for line in (self._lead(), self._lost()) if line]
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
        told = f"{quoted(self.focus)} has {label(METRIC)} {own['mean']:.2f} in {home}"
        if (rules := self.cells.get((home, RULES))) is not None and self.focus != RULES:
            told += f" (rules {rules['mean']:.2f})"
        kept = self._kept()
        return f"{told}{'; it keeps ' + listed(kept) if kept else ''}."

    def _home(self) -> str | None:
        """The rung that gains are measured by, else the nearest."""
        reference = next((str(run.ladder.get("reference") or "") for run in self.runs), "")
        if (reference, self.focus) in self.cells:
            return reference
        return next((r["name"] for r in self.rungs if (r["name"], self.focus) in self.cells), None)

    def _kept(self) -> list[str]:
        """Shares of the gain that are left, on all real sets together if there are several."""
        shares: dict[str, str] = {}
        for run in self.runs:
            for gain in run.ladder.get("gains", ()):
                ratio = Quantity.of(gain.get("ratio"))
                agent = self._name_of(run, str(gain.get("agent")))
                if gain.get("metric") != METRIC or not ratio or agent != self.focus:
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

    def _lost(self) -> str:
        """List sets on which the agent's mean is below that of rules, with known differences."""
        if self.focus == RULES:
            return ""
        # fmt: off
        shared = [r["name"] for r in self.rungs
                  if {(r["name"], self.focus), (r["name"], RULES)} <= {*self.cells}]
        lost = [n for n in shared
                if self.cells[n, self.focus]["mean"] < self.cells[n, RULES]["mean"]]
        # fmt: on
        if not lost:
            return ""
        parts = []
        for name in lost[:MOST_SETS]:
            own, rules = self.cells[name, self.focus], self.cells[name, RULES]
            overlap = own["high"] >= rules["low"]
            parts.append(
                f"{name} ({own['mean']:.2f} against {rules['mean']:.2f}; the intervals "
                f"{'overlap' if overlap else 'are apart'})"
            )
        if more := len(lost) - MOST_SETS:
            parts += [f"{more} further sets"] if more > 0 else []
        return f"It loses to rules on {listed(parts)}."

    def _scores(self, agent: str) -> str:
        """An agent's scores at both ends of the generated sets and on the real ones."""
        own = {rung: c for (rung, name), c in self.cells.items() if name == agent}
        near = [n for n in self.generated if n in own]
        told = [
            f"{own[n]['mean']:.2f} [{own[n]['low']:.2f}, {own[n]['high']:.2f}] in {n}"
            for n in dict.fromkeys(near[:1] + near[-1:])
        ]
        if real := [n for n in self.real if n in own]:
            scores = ", ".join(f"{own[n]['mean']:.2f} ({n})" for n in real)
            told.append(f"on real passages {scores}")
        return f"{label(METRIC)} of {quoted(agent)}: {'; '.join(told)}." if told else ""

    def _wins(self) -> dict[str, tuple[int, int]]:
        """Other agent → real sets on which it is beaten beyond chance, and those tried."""
        beaten: dict[str, list[bool]] = {}
        for run in self.runs:
            for c in run.ladder.get("contrasts", ()):
                if c["rung"] in self.real and self._name_of(run, c["agent"]) == self.focus:
                    better = c["p_holm"] < 0.05 and c["difference"]["mean"] > 0
                    beaten.setdefault(str(c["other"]), []).append(better)
        return {name: (sum(b), len(b)) for name, b in beaten.items() if any(b)}
