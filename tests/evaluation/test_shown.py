"""Results in one line, as a table of a notebook, as a data frame and as a chart."""

from __future__ import annotations

import sys

import pytest

from searchgym import ConstantAgent, FirstHitAgent, RulesAgent
from searchgym.benchmark import transfer
from searchgym.envs import SearchEnv
from searchgym.errors import EvaluationError, MissingExtraError
from searchgym.evaluation.comparison import compare
from searchgym.evaluation.intervals import wilson
from searchgym.evaluation.result import EvalResult
from searchgym.evaluation.run import evaluate

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def results() -> dict[str, EvalResult]:
    made = SearchEnv(corpus="encyclopedia", world={"entities": 300},
                     tasks={"simple": 14, "chain-2": 13})  # fmt: skip
    agents = {"rules": RulesAgent(), "first-hit": FirstHitAgent(), EVIL: ConstantAgent("x")}
    return {name: evaluate(agent, made, name=name, label="Q") for name, agent in agents.items()}


def test_a_result_is_one_line(results: dict[str, EvalResult]) -> None:
    shown = repr(results["rules"])
    assert str(results["rules"]) == shown
    assert shown.startswith("<EvalResult of rules on Q: 27 questions, EM ")
    assert len(shown) < 200
    assert f"F1 {results['rules'].means['f1']:.2f}" in shown


def test_a_table_of_families_with_every_text_escaped(results: dict[str, EvalResult]) -> None:
    html = results[EVIL]._repr_html_()
    assert "<script" not in html
    assert html.count("<tr>") == 4, "head, all, two families"
    assert f"{results['rules'].means['f1']:.2f}" in results["rules"]._repr_html_()


def test_a_frame_has_a_row_for_each_question(results: dict[str, EvalResult]) -> None:
    frame = results["rules"].to_frame()
    assert len(frame) == 27
    assert frame["f1"].mean() == pytest.approx(results["rules"].means["f1"].mean)
    assert set(frame["agent"]) == {"rules"}


def test_without_pandas_it_says_what_to_install(
    results: dict[str, EvalResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[frames\]"):
        results["rules"].to_frame()


def test_a_plot_draws_what_by_family_says(results: dict[str, EvalResult]) -> None:
    figure = results["rules"].plot(results["first-hit"])
    means = {(r["by"], r["family"]): r["mean"] for r in figure.rows}
    for name in ("rules", "first-hit"):
        for family, mean in results[name].by_family("f1").items():
            assert means[name, family] == pytest.approx(mean, abs=1e-5)
    assert figure.png()[:4] == b"\x89PNG"
    whole = results["rules"].plot(metric="searches", by="all")
    assert whole.rows[0]["mean"] == pytest.approx(results["rules"].means["searches"].mean)
    with pytest.raises(EvaluationError, match="unknown way to divide the questions 'hops'"):
        results["rules"].plot(by="hops")
    with pytest.raises(EvaluationError, match="unknown metric"):
        results["rules"].plot(metric="bleu")
    with pytest.raises(EvaluationError, match="two results of one agent"):
        results["rules"].plot(results["rules"])


def test_comparisons(results: dict[str, EvalResult]) -> None:
    found = compare(results["rules"], results[EVIL], "f1")
    assert str(found).startswith(f"rules − {EVIL}: F1 {found.difference.mean:+.3f} [")
    assert "<script" not in found._repr_html_()
    (row,) = found.plot().rows
    assert row["mean"] == pytest.approx(found.difference.mean, abs=1e-5)


def test_a_transfer_table() -> None:
    made = SearchEnv(corpus="encyclopedia", world={"entities": 300}, tasks={"simple": 14})
    table = transfer({"rules": RulesAgent(), EVIL: [ConstantAgent("x"), FirstHitAgent()]}, [made])
    assert len(repr(table)) < 80
    assert "<script" not in table._repr_html_()
    frame = table.to_frame()
    assert set(frame["agent"]) == {"rules", EVIL}
    f1 = frame[(frame["agent"] == "rules") & (frame["metric"] == "f1")]["mean"]
    cell = table.cell(table.rungs[0], "rules", "f1")
    assert cell is not None
    assert f1.item() == pytest.approx(cell.mean, abs=1e-6)
    assert {r["by"] for r in table.plot().rows} == {"rules", EVIL}
    two = table.cell(table.rungs[0], EVIL, "searches")
    assert two is not None
    # over seeds none can be told of two; the questions are all alike
    assert (two.mean, two.low) == (0.5, pytest.approx(0.5 - wilson(0, two.n)[1]))
