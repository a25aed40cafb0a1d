"""Checks the figures that README and other pages state against the stored results.

A page marks a figure by an HTML comment right behind it, which readers do not see::

    F1 0.269 [0.202, 0.337]<!-- figure: agents/mine | ladder | hotpotqa | mine | f1 -->

that is: folder of an ``expected.json`` | run | rung | agent | metric. The interval may be left out,
and a figure has as many decimals as the page likes. A table of a whole ladder lies between marks::

    <!-- table: agents/mine | ladder | mine | rules -->
    …
    <!-- end of table -->

(folder | run | agent | baseline shown beside it); of a run with paired differences from the
baseline these are shown. :func:`check` says what no longer agrees, and
:func:`rewritten` is the page with the stored values put in. ``python -m docsite.figures`` checks
all pages; ``--write`` puts the stored values in, ``--unmarked`` prints figures without a mark.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from searchgym.benchmark.reference_runs import load
from searchgym.cards import catalog
from searchgym.errors import EvaluationError, unknown
from searchgym.evaluation.intervals import Interval
from searchgym.evaluation.table import Column, ResultTable
from searchgym.reports.findings import standings, tells
from searchgym_agents.leaderboard.entries import expected_files

_NUMBER = r"[-+−]?(?:\d++(?:\.\d++)?|\.\d++)"
_FIGURE = re.compile(
    rf"(?<![\w.])(?P<mean>{_NUMBER})(?:(?P<gap>\s*)\[(?P<low>{_NUMBER}), (?P<high>{_NUMBER})\])?"
    r"(?P<after>[*_`]*\s*)<!-- figure: (?P<place>[^>]*?) -->"
)
_TABLE = re.compile(
    r"(?P<begin><!-- table: (?P<place>[^>]*?) -->\n)(?P<body>.*?)(?P<end><!-- end of table -->)",
    re.DOTALL,
)
_MARK = re.compile(r"<!-- (figure|table): ")
_UNMARKED = re.compile(rf"(?<![\w.]){_NUMBER} \[{_NUMBER}, {_NUMBER}\]")


class Drift(NamedTuple):
    """A figure of a page that is not what is stored."""

    line: int
    stated: str
    stored: str
    place: str


class CheckedPage(NamedTuple):
    """Result of checking a page."""

    figures: int
    """Marked figures, and cells of marked tables."""
    drifts: tuple[Drift, ...]
    unmarked: tuple[str, ...]
    """Means with an interval that no mark ties to a stored result."""


def pages(root: Path | None = None) -> list[Path]:
    """README and every page of the catalogue, of the notebooks and of the site."""
    top = root or catalog("envs").parent
    paths = [top / "README.md", *(p for kind in ("envs", "agents", "corpora", "notebooks")
                                  for p in sorted((top / kind).rglob("*.md")))]  # fmt: skip
    paths += sorted((top / ".site").rglob("*.md"))
    return [path for path in paths if path.is_file()]


def check(text: str, root: Path | None = None) -> CheckedPage:
    """Compare the marked figures of a page with the stored results.

    Raises:
        EvaluationError: a mark that cannot be read, or names what is not stored.
    """
    top = root or catalog("envs").parent
    drifts, count = [], 0
    for match in _FIGURE.finditer(text):
        stored = _stored(match["place"], top)
        count += 1
        new = _figure(match, stored)
        if new != match[0]:
            drifts.append(
                Drift(_line(text, match.start()), match[0].partition("<!--")[0].strip(),
                      new.partition("<!--")[0].strip(), match["place"])
            )  # fmt: skip
    for match in _TABLE.finditer(text):
        rows = _ladder(match["place"], top).splitlines()
        here = match["body"].strip().splitlines()
        count += sum(row.count("|") - 1 for row in rows[2:])
        first = _line(text, match.start("body"))
        for number in range(max(len(rows), len(here))):
            old, new = (x[number] if number < len(x) else "" for x in (here, rows))
            if old != new:
                drifts.append(Drift(first + number, old, new, match["place"]))
    marks = len(_MARK.findall(text))
    if marks != len(_FIGURE.findall(text)) + len(_TABLE.findall(text)):
        raise EvaluationError(
            f"{marks} marks, but only {len(_FIGURE.findall(text))} stand behind a number and "
            f"{len(_TABLE.findall(text))} around a table that ends in <!-- end of table -->"
        )
    bare = _TABLE.sub("", _FIGURE.sub("", text))
    return CheckedPage(count, tuple(drifts), tuple(_UNMARKED.findall(bare)))


def rewritten(text: str, root: Path | None = None) -> str:
    """The page with every marked figure and table as it is stored."""
    top = root or catalog("envs").parent
    text = _FIGURE.sub(lambda match: _figure(match, _stored(match["place"], top)), text)
    return _TABLE.sub(
        lambda match: f"{match['begin']}{_ladder(match['place'], top)}\n{match['end']}",
        text,
    )


def contradictions(path: Path) -> list[str]:
    """Cells of an ``expected.json`` that its own parts contradict: a mean that is not that of its
    seeds, or lies outside its interval."""
    lines = []
    for name, run in load(path).items():
        for row in run["table"]:
            where = f"{name}, {row['rung']}, {row['agent']}, {row['metric']}"
            seeds = [float(x) for x in str(row["each_seed"]).split()]
            seeds = [x for x in seeds if not math.isnan(x)]
            if row["mean"] is None or not seeds:
                continue
            mean = sum(seeds) / len(seeds)
            if abs(mean - row["mean"]) > 1e-4 + 1e-9:  # each is rounded to four places
                lines.append(f"{where}: mean {row['mean']}, that of its seeds is {mean:.4f}")
            if not row["low"] - 1e-4 <= row["mean"] <= row["high"] + 1e-4:
                lines.append(f"{where}: mean {row['mean']} outside [{row['low']}, {row['high']}]")
    return lines


def _ladder(place: str, root: Path) -> str:
    folder, run, agent, beside = _parts(place, 4)
    return ladder_table(folder, run, agent, beside, root)


def ladder_table(folder: str, run: str, agent: str, beside: str, root: Path) -> str:
    """The Markdown table of a ladder: an agent's F1, another's beside it, gains, and ratios
    where it is above the best script."""
    stored = _run(folder, run, root)
    cells = {(r["rung"], r["agent"]): r for r in stored["table"] if r["metric"] == "f1"}
    if not stored["gains"]:
        return _paired_table(stored, cells, agent, beside)
    gains = {g["rung"]: g for g in stored["gains"] if g["agent"] == agent}
    reference = next(iter(gains.values()))["reference"] if gains else ""
    rows = []
    names = [r["name"] for r in stored["rungs"]]
    real = [r["name"] for r in stored["rungs"] if r["kind"] == "real"]
    stands = standings(stored["table"], stored.get("contrasts", ()))
    for rung in [*names, *(g for g in gains if g not in names)]:
        mine, other, gain = cells.get((rung, agent)), cells.get((rung, beside)), gains.get(rung)
        ratio = gain["ratio"] if gain and gain["ratio"] and tells(stands, gain, real) else None
        rows.append({
            "rung": rung,
            "questions": mine["questions"] if mine else gain["gain"]["n"] if gain else 0,
            "F1": mine and _interval(mine), beside: other and other["mean"],
            "gain": gain and _interval(gain["gain"]),
            "transfer ratio": 1 if rung == reference else ratio and _interval(ratio),
        })  # fmt: skip
    return _markdown(rows)


def _paired_table(
    stored: Mapping[str, Any], cells: Mapping[tuple[str, str], Any], agent: str, beside: str
) -> str:
    """An agent's F1, the others' beside it, and its difference from one on the same questions."""
    others = list(dict.fromkeys(name for _, name in cells if name != agent))
    gaps = {c["rung"]: c["difference"] for c in stored["contrasts"]
            if (c["agent"], c["other"]) == (agent, beside)}  # fmt: skip
    last = f"difference from {beside}"
    return _markdown([
        {"rung": rung, "questions": cells[rung, agent]["questions"],
         "F1": _interval(cells[rung, agent]), **{o: cells[rung, o]["mean"] for o in others},
         last: _interval(gaps[rung])}
        for rung in (r["name"] for r in stored["rungs"])
    ], last)  # fmt: skip


def _markdown(rows: Sequence[Mapping[str, Any]], signed: str = "") -> str:
    columns = tuple(Column(name, name, 3, signed=name == signed) for name in rows[0])
    return ResultTable("", "", columns, tuple(rows)).markdown()


def _figure(match: re.Match[str], stored: Mapping[str, Any]) -> str:
    """A figure with its mark, as it should stand on the page."""
    text = _like(match["mean"], stored["mean"])
    if match["low"] is not None:
        low, high = _like(match["low"], stored["low"]), _like(match["high"], stored["high"])
        text += f"{match['gap']}[{low}, {high}]"
    return f"{text}{match['after']}<!-- figure: {match['place']} -->"


def _like(text: str, value: float) -> str:
    """A value written as ``text`` is: as many decimals, a sign where it has a plus."""
    places = len(text.partition(".")[2])
    return format(value, f"{'+' if text.startswith('+') else ''}.{places}f")


def _stored(place: str, root: Path) -> Mapping[str, Any]:
    folder, run, rung, agent, metric = _parts(place, 5)
    rows = [r for r in _run(folder, run, root)["table"] if r["rung"] == rung]
    for name, value in (("agent", agent), ("metric", metric)):
        kept = [row for row in rows if row[name] == value]
        if not kept:
            known = {row[name] for row in rows} or {"(no such rung)"}
            raise EvaluationError(f"figure {place!r}: {unknown(name, value, known)}")
        rows = kept
    row: Mapping[str, Any] = rows[0]
    return row


def _run(folder: str, name: str, root: Path) -> Mapping[str, Any]:
    runs = load(root / folder / "expected.json")
    if name not in runs:
        raise EvaluationError(unknown(f"run of {folder}/expected.json", name, runs))
    run: Mapping[str, Any] = runs[name]
    return run


def _parts(place: str, count: int) -> Sequence[str]:
    parts = [part.strip() for part in place.split("|")]
    if len(parts) != count:
        raise EvaluationError(f"mark {place!r}: expected {count} parts between |, got {len(parts)}")
    return parts


def _interval(row: Mapping[str, Any]) -> Interval:
    return Interval(row["mean"], row["low"], row["high"], row.get("n", 0), "")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def verify(write: bool = False, unmarked: bool = False) -> bool:
    """Print every figure of the pages that is not what is stored; True if all are."""
    top = catalog("envs").parent
    good = True
    for path in expected_files():
        lines = contradictions(path)
        good &= not lines
        for line in lines:
            print(f"{path.relative_to(top)}: {line}")
    count = bare = marked = 0
    for path in pages():
        text, name = path.read_text(encoding="utf-8"), path.relative_to(top)
        try:
            if write and (new := rewritten(text)) != text:
                path.write_text(new, encoding="utf-8")
                print(f"{name}: written anew")
                text = new
            checked = check(text)
        except EvaluationError as error:
            raise EvaluationError(f"{name}: {error}") from error
        count, bare, marked = (
            count + checked.figures, bare + len(checked.unmarked), marked + bool(checked.figures)
        )  # fmt: skip
        good &= not checked.drifts
        for drift in checked.drifts:
            print(f"{name}:{drift.line}: states {drift.stated}, stored is {drift.stored}")
        if unmarked:
            for figure in checked.unmarked:
                print(f"{name}: {figure} is not marked")
    print(f"{count} figures on {marked} pages {'agree with' if good else 'were compared with'} "
          "the stored results")  # fmt: skip
    if bare and not unmarked:
        print(f"{bare} more have an interval but no mark; --unmarked prints them")
    return good


if __name__ == "__main__":
    sys.exit(not verify("--write" in sys.argv, "--unmarked" in sys.argv))
