"""What models learn from different diets, of small results."""

from __future__ import annotations

from pathlib import Path

import searchgym as sg
from searchgym.agents import OracleAgent
from tests.benchmarks import training_diets

TASKS = {"simple": 10}
SETS = ("one", "two")


def results(folder: Path) -> None:
    """Two models: one is the oracle after labels and rules after worlds, the other turned round."""
    for seed, name in enumerate(SETS):
        env = sg.SearchEnv(corpus="encyclopedia", world={"entities": 60, "seed": seed}, tasks=TASKS)
        diets = {"worlds": sg.RulesAgent(), "labels": OracleAgent(env.tasks)}
        for diet, agent in diets.items():
            other = "labels" if diet == "worlds" else "worlds"
            for model, called in (("taught", diet), ("turned", other)):
                found = sg.evaluate(agent, env, name=called)
                found.save(folder / model / name / f"{called}.json")
    (folder / "taught" / "one" / "machine.json").write_text("{}")


def test_rows_are_paired_and_the_title_is_the_finding(tmp_path: Path) -> None:
    results(tmp_path)
    models = {m: training_diets.rows_of(r) for m, r in training_diets.read(tmp_path).items()}
    worlds, labels = models["taught"]
    assert worlds.gain is None
    assert labels.gain is not None
    assert labels.gain.mean == labels.mean.mean - worlds.mean.mean > 0
    assert labels.mean.n == len(SETS) * TASKS["simple"]
    assert "| labels | 1.000 | 1.000 |" in training_diets.table(models["taught"])
    drawn = training_diets.figure(models)
    assert (
        drawn.title
        == "More F1 than after worlds: taught (labels); less F1 than after worlds: turned (labels)"
    )
    assert drawn.png().startswith(b"\x89PNG")
