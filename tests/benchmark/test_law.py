"""The law of transfer: ridge regression over agents, checked against NumPy's least squares."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from searchgym import FirstHitAgent, RandomAgent
from searchgym.benchmark.ladder import Rung
from searchgym.benchmark.run import transfer
from searchgym.errors import EvaluationError
from searchgym_agents.law.law import AgentScores, Law, fit, left_out, measured, r_squared, scores

RUNGS = ("held-out wording", "other schema")


def agents(n: int, noise: float = 0.0) -> list[AgentScores]:
    """Agents whose real F1 is 0.05 + 0.3 of the first rung + 0.2 of the second."""
    rng = np.random.default_rng(3)
    found = []
    for i in range(n):
        a, b = rng.uniform(0, 1, 2)
        real = 0.05 + 0.3 * a + 0.2 * b + noise * rng.normal()
        simulated = dict(zip(RUNGS, (float(a), float(b)), strict=True))
        found.append(AgentScores(f"agent-{i}", simulated, {"hotpotqa": real, "nq": real}))
    return found


def test_without_penalty_it_is_least_squares() -> None:
    found = agents(9, noise=0.05)
    law = fit(found, RUNGS, ridge=0.0)
    x = np.array([[1.0, *(a.simulated[r] for r in RUNGS)] for a in found])
    y = np.array([a.real["nq"] for a in found])
    expected = x @ np.linalg.lstsq(x, y)[0]
    assert [law.predict(a) for a in found] == pytest.approx(expected.tolist(), abs=1e-12)


def test_an_exact_line_is_found_and_a_large_penalty_gives_the_mean() -> None:
    found = agents(8)
    exact = fit(found, RUNGS, ridge=0.0)
    new = AgentScores("new", {RUNGS[0]: 0.5, RUNGS[1]: 0.25}, {})
    assert exact.predict(new) == pytest.approx(0.05 + 0.15 + 0.05)
    assert left_out(found, exact) == pytest.approx([a.real["nq"] for a in found])
    flat = fit(found, RUNGS, ridge=1e9)
    assert flat.predict(new) == pytest.approx(np.mean([a.real["nq"] for a in found]), abs=1e-6)


def test_ridge_of_one_rung_by_hand() -> None:
    """x = 0, 1, 2, 3; y = 0, 1, 2, 3 tenths; standardised Σz² = 4, Σzy = 4·sd/10."""
    line = [AgentScores(str(i), {"w": float(i)}, {"nq": i / 10}) for i in range(4)]
    law = fit(line, ("w",), ridge=4.0)
    assert law.weights[0] == pytest.approx(4 * np.sqrt(1.25) / 10 / 8)
    assert law.predict(line[3]) == pytest.approx(0.15 + 0.15 / 2)


def test_r_squared() -> None:
    right = r_squared([0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4])
    assert (right.mean, right.low, right.high, right.n) == (1.0, 1.0, 1.0, 4)
    assert r_squared([0.1, 0.2, 0.3], [0.2, 0.2, 0.2]).mean == pytest.approx(0.0)
    worse = r_squared([0.0, 0.1, 0.2], [0.2, 0.1, 0.0])
    assert worse.mean == pytest.approx(-3.0)
    with pytest.raises(EvaluationError, match="different real scores"):
        r_squared([0.1, 0.1, 0.1], [0.1, 0.2, 0.3])


def test_a_law_is_kept_and_forged_ones_are_refused(tmp_path: Path) -> None:
    law = fit(agents(6, noise=0.02), RUNGS)
    path = tmp_path / "law.json"
    law.save(path)
    assert Law.load(path) == law
    table = json.loads(path.read_text())
    for key, value in {"schema": 9, "weights": [1.0], "more": 1}.items():
        path.write_text(json.dumps({**table, key: value}))
        with pytest.raises(EvaluationError, match="not a law of transfer"):
            Law.load(path)
    with pytest.raises(EvaluationError, match="searchgym law FOLDER --fix"):
        Law.load(tmp_path / "none.json")


def test_what_is_missing_is_said() -> None:
    found = agents(6)
    with pytest.raises(EvaluationError, match="at least 4 agents, got 3"):
        fit(found[:3], RUNGS)
    with pytest.raises(EvaluationError, match="agent-0 has not played no such rung"):
        fit(found, ("no such rung",))
    with pytest.raises(EvaluationError, match="no real set"):
        fit([found[0]._replace(real={}), *found[1:]], RUNGS)
    with pytest.raises(EvaluationError, match="has not played musique"):
        fit(found, RUNGS, sets=("musique",))


def test_new_agents_are_told_from_those_that_it_was_fitted_to() -> None:
    found = agents(12, noise=0.01)
    law = fit(found[:6], RUNGS)
    unplayed = AgentScores("unplayed", {RUNGS[0]: 0.5, RUNGS[1]: 0.5}, {})
    told = scores(law, [*found, unplayed])
    assert [row["law"] for row in told["agents"]] == ["fitted"] * 6 + ["foretold"] * 7
    assert told["agents"][-1]["real"] is None
    new = [row for row in told["agents"] if row["law"] == "foretold"][:-1]
    assert [row["predicted"] for row in new] == [law.predict(a) for a in found[6:]]
    assert told["r2"]["foretold"]["n"] == 6
    assert told["r2"]["leave one out"]["n"] == 12
    assert "of 6 unseen ones" in told["finding"]


def test_results_of_the_ladder_are_read(tmp_path: Path) -> None:
    world = {
        "corpus": "encyclopedia", "world": {"entities": 120}, "tasks": {"simple": 6},
    }  # fmt: skip
    rungs = [Rung(name, "generated", world) for name in ("held-out wording", "nq")]
    table = transfer({"first": FirstHitAgent(), "any": RandomAgent()}, rungs, out_dir=tmp_path)
    found = measured([tmp_path])
    assert [a.agent for a in found] == ["any", "first"]
    cell = table.cell("nq", "first", "f1")
    assert cell is not None
    assert found[1].real == {"nq": cell.mean}
    assert found[1].simulated == {"held-out wording": cell.mean}
    with pytest.raises(EvaluationError, match="holds no results"):
        measured([tmp_path / "elsewhere"])
