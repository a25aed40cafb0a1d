"""What models learn from different diets: ``python -m tests.benchmarks.training_diets FOLDER``

Reads the results that ``searchgym eval SET -a DIET=… --out FOLDER/MODEL/SET`` wrote, one DIET of
which is ``worlds``; every diet of a model is asked the same questions. Prints a table, and draws
``diets.png`` in FOLDER: how much more F1 each diet gives than worlds, per model, over all its
questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.charts import Figure, forest
from searchgym.evaluation import EvalResult, Interval, mean_interval, paired_interval

BASE = "worlds"
Results = Mapping[str, Mapping[str, EvalResult]]
"""Set → diet → result."""


class Row(NamedTuple):
    """What a model learnt from a diet."""

    diet: str
    sets: dict[str, float]
    """F1 on each set."""
    mean: Interval
    """Over all questions."""
    gain: Interval | None
    """Beyond worlds, question by question."""


def read(folder: Path) -> Mapping[str, Results]:
    """Results of each model."""
    found: dict[str, dict[str, dict[str, EvalResult]]] = {}
    for file in sorted(folder.glob("*/*/*.json")):
        if file.stem != "machine":
            result = EvalResult.load(file)
            sets = found.setdefault(file.parts[-3], {})
            sets.setdefault(file.parts[-2], {})[result.agent] = result
    return found


def f1_of(*results: EvalResult) -> list[NDArray[np.float64]]:
    """F1 of each result, question by question in the order of the first."""
    scores = [
        dict(zip((row.task_id for row in one.rows), one.values("f1"), strict=True))
        for one in results
    ]
    if any(one.keys() != scores[0].keys() for one in scores):
        raise SystemExit(f"{results[0].set}: the diets were not asked the same questions")
    return [np.array([one[task] for task in scores[0]]) for one in scores]


def rows_of(results: Results) -> list[Row]:
    """A row for each diet that was asked on every set."""
    everywhere = set.intersection(*(set(diets) for diets in results.values()))
    rows = []
    for diet in sorted(everywhere, key=lambda name: (name != BASE, name)):
        pairs = [f1_of(diets[BASE], diets[diet]) for diets in results.values()]
        base, mine = (np.concatenate(part) for part in zip(*pairs, strict=True))
        sets = {name: float(np.mean(values)) for name, (_, values) in
                zip(results, pairs, strict=True)}  # fmt: skip
        gain = None if diet == BASE else paired_interval(mine, base)
        rows.append(Row(diet, sets, mean_interval(mine, unit=True), gain))
    return rows


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    sets = list(rows[0].sets)
    lines = [f"| diet | {' | '.join(sets)} | mean | difference from {BASE} |",
             "|---" * (len(sets) + 3) + "|"]  # fmt: skip
    for row in rows:
        each = " | ".join(f"{row.sets[name]:.3f}" for name in sets)
        gain = "" if row.gain is None else f"{row.gain:+.3f}"
        lines.append(f"| {row.diet} | {each} | {row.mean} | {gain} |")
    return "\n".join(lines)


def figure(models: Mapping[str, Sequence[Row]]) -> Figure:
    """Differences from worlds, a mark for each model and diet."""
    gains: list[dict[str, Any]] = [
        {"y": model, "by": row.diet, "mean": row.gain.mean, "low": row.gain.low,
         "high": row.gain.high}
        for model, rows in models.items() for row in rows if row.gain is not None
    ]  # fmt: skip
    diets = list(dict.fromkeys(mark["by"] for mark in gains))
    said = []
    for word, sign, end in (("more", 1, "low"), ("less", -1, "high")):
        which = {
            model: ", ".join(m["by"] for m in gains if m["y"] == model and sign * m[end] > 0)
            for model in models
        }
        if any(which.values()):
            told = ", ".join(f"{model} ({diets})" for model, diets in which.items() if diets)
            said.append(f"{word} F1 than after {BASE}: {told}")
    title = "; ".join(said) or f"no diet gives more or less F1 than {BASE} beyond doubt"
    return Figure(
        "diets",
        title[0].upper() + title[1:],
        f"Difference of F1 from a model taught in {BASE}, over the same questions, and its 95 % "
        "interval.",
        f"For each model, how much more F1 it has after each diet than after {BASE}.",
        lambda narrow=False: forest(
            gains, by=diets, x_title=f"F1 beyond {BASE}", rate=False, zero=0.0, narrow=narrow
        ),
        tuple(gains),
    )  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    """Print the tables and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(given).folder
    models = {model: rows_of(results) for model, results in read(folder).items()}
    for model, rows in models.items():
        print(f"\n{model}, {rows[0].mean.n} questions\n\n{table(rows)}")
    figure(models).save(folder)


if __name__ == "__main__":
    main()
