"""The ladder on a terminal: everything fits 80 columns, whatever the agents are called."""

import io

import pytest
from rich.console import Console

from searchgym import ConstantAgent, FirstHitAgent, RulesAgent
from searchgym.agents import OracleAgent
from searchgym.benchmark import Rung, transfer
from searchgym.benchmark.ladder_table import print_ladder, stands_of, verdicts
from searchgym.benchmark.table import TransferTable
from tests.small import CORPUS, TASKS

LONG = "runs/a-long-name/agents/seed-0.safetensors, closed book"
RUNGS = [
    Rung("held-out world", "generated", {"corpus": CORPUS, "tasks": TASKS}),
    Rung("remote engine: 2wikimultihopqa", "real", {"corpus": CORPUS, "tasks": TASKS}),
]


@pytest.fixture(scope="module")
def table() -> TransferTable:
    agents = {"before": ConstantAgent("x"), "rules": RulesAgent(), "first-hit": FirstHitAgent()}
    table = transfer({**agents, LONG: OracleAgent(TASKS)}, RUNGS)
    table.baselines, table.reference = {LONG: "before"}, "held-out world"
    return table


def printed(table: TransferTable, width: int = 80, **options: object) -> str:
    out = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_ladder(table, out, **options)  # type: ignore[arg-type]
    return out.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("many", [0, 9])
def test_nothing_is_cut_off_at_80_columns(table: TransferTable, full: bool, many: int) -> None:
    more = {f"agent number {i} of many": ConstantAgent("x") for i in range(many)}
    wide = transfer({**more, "mine": OracleAgent(TASKS)}, RUNGS) if many else table
    text = printed(wide, full=full)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for name in wide.agents:
        for word in name.replace("/", " ").split():
            assert word[:10] in text.replace("\n", ""), name


def test_one_row_a_rung_and_one_column_an_agent(table: TransferTable) -> None:
    text = printed(table, hidden=("first-hit",))
    assert "first-hit" not in text
    (row,) = [line for line in text.splitlines() if line.strip().startswith("held-out world (2)")]
    assert "1.00 [0." in row
    assert row.rstrip().endswith("100 %")


def test_the_trained_agent_is_bold_whatever_its_name(table: TransferTable) -> None:
    out = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    print_ladder(table, out)
    bold = [part.split("\x1b[0m")[0] for part in out.file.getvalue().split("\x1b[1m")[1:]]  # type: ignore[attr-defined]
    assert any("1.00 [0." in part for part in bold)
    assert not any(part.strip() == "0.00" for part in bold)


def test_the_verdict_is_a_sentence(table: TransferTable) -> None:
    line, *stands = verdicts(table, stands_of(table))
    assert line.startswith(f"{LONG}: F1 1.00 (before 0.00) in held-out world")
    assert all(line.startswith(f"{LONG} is ") for line in stands)
    assert all(sum(rung.name in line for line in stands) == 1 for rung in RUNGS), stands
    assert verdicts(transfer({"x": ConstantAgent("x")}, RUNGS), {}) == []


def test_nothing_is_kept_where_a_script_is_better(table: TransferTable) -> None:
    lost = transfer({"rules": OracleAgent(TASKS), LONG: RulesAgent(), "before": ConstantAgent("x")},
                    RUNGS)  # fmt: skip
    lost.baselines, lost.reference = {LONG: "before"}, "held-out world"
    assert "kept" in printed(lost)
    rows = [line for line in printed(lost).splitlines() if "2wikimultihopqa" in line]
    assert not any("%" in row for row in rows)
    assert not any("keeps" in line for line in verdicts(lost, stands_of(lost)))


def test_nothing_is_kept_where_nothing_was_gained() -> None:
    equal = transfer({"mine": ConstantAgent("x"), "before": ConstantAgent("y")}, RUNGS)
    equal.baselines, equal.reference = {"mine": "before"}, "held-out world"
    assert "kept" in printed(equal)
    assert "%" not in printed(equal).partition("kept")[2].partition("mine: F1")[0]
