"""A person plays environments of tools: what may be typed, what is told, what is paid."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from searchgym.cli import typed
from searchgym.cli.play import Game
from searchgym.cli.targets import make_search_env
from searchgym.objects import load_known
from searchgym.tools import TOOLS, tool_spec
from searchgym.types import Call, ToolSpec
from tests.cli.conftest import Cli

TINY = ("-s", "world.entities=400", "-s")
OF_TOOLS = {
    "ServiceQA-v1": 'tasks={"service": 8}',
    "TravelQA-v0": 'tasks={"travel": 8}',
    "SqlQA-v0": 'tasks={"sql": 12, "at_most": true}',
    "AmbiguousQA-v0": 'tasks={"ambiguous": 8, "at_most": true}',
    "ComputedQA-v0": 'tasks={"computed": 8, "at_most": true}',
    "QueryRewriteQA-v0": 'tasks={"follow_up": 8, "at_most": true}',
}


def small(name: str) -> tuple[str, ...]:
    return (*TINY, OF_TOOLS[name])


def tool(called: str, required: int, /, **fields: str) -> ToolSpec:
    properties = {key: {"type": kind} for key, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": [*fields][:required]}
    return ToolSpec(called, "", schema)


SQL = tool("sql", 1, query="string")
ORDERS = tool("orders", 2, name="string", city="string")
NEAR = tool("near", 1, title="string", most="integer", kinds="array")
KNOWN = {each.name: each for each in (SQL, ORDERS, NEAR)}


# --- what may be typed ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("sql SELECT 1 WHERE query=2", Call("sql", {"query": "SELECT 1 WHERE query=2"})),
        ("sql: SELECT 1", Call("sql", {"query": "SELECT 1"})),
        ("sql query=1", Call("sql", {"query": "query=1"})),
        ("sql", Call("sql", {})),
        ("orders name=Ann Lee  city=Os=lo", Call("orders", {"name": "Ann Lee", "city": "Os=lo"})),
        ('orders city="Oslo" name="A"', Call("orders", {"city": "Oslo", "name": "A"})),
        ("orders of a king", Call("orders", {})),
        ("near the sea", Call("near", {"title": "the sea"})),
        ("near title=Oslo most=3", Call("near", {"title": "Oslo", "most": 3})),
        ('near title=Oslo kinds=["a"]', Call("near", {"title": "Oslo", "kinds": ["a"]})),
        ("near title=Oslo most=many", Call("near", {"title": "Oslo", "most": "many"})),
        ("nearby towns", None),
        ("", None),
    ],
)
def test_calls_are_typed_by_name(line: str, call: Call | None) -> None:
    assert typed.read(line, KNOWN) == call


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (Call("sql", {"query": "SELECT 1"}), "sql SELECT 1"),
        (Call("orders", {"name": "Ann Lee", "city": "Oslo"}), "orders name=Ann Lee city=Oslo"),
        (Call("near", {"title": "Oslo", "most": 3}), "near title=Oslo most=3"),
        (Call("sql", {"query": "SELECT\n1"}), None),
        (Call("orders", {"name": "the name= of", "city": " city=x"}), None),
    ],
)
def test_what_is_written_short_is_read_as_the_same_call(call: Call, line: str | None) -> None:
    assert typed.write(call, KNOWN[call.tool]) == line


def test_every_tool_has_a_form_that_begins_with_its_name() -> None:
    assert [typed.form(each) for each in (SQL, ORDERS, NEAR)] == [
        "sql …", "orders name=… city=…", "near title=… [most=…] [kinds=…]"
    ]  # fmt: skip
    specs = [spec for made in map(load_known, TOOLS.values()) if (spec := tool_spec(made))]
    assert len(specs) > 5
    assert all(typed.form(spec).startswith(spec.name) for spec in specs)


@pytest.mark.parametrize("name", OF_TOOLS)
def test_who_types_what_the_hint_says_wins(name: str) -> None:
    env = make_search_env(name, small(name)[1::2], stepped=True, dialect="plain")
    shown = io.StringIO()

    def lines() -> Iterator[str]:
        while True:
            yield "hint"
            yield shown.getvalue().splitlines()[-1].removeprefix("The oracle would type  ")

    typed_lines = lines()
    game = Game(env, lambda: next(typed_lines), Console(file=shown, width=80))
    assert game.play(seed=3)
    (outcome,) = game.outcomes
    assert outcome["return"] >= 1.0
    assert outcome["invalid"] == 0
    assert outcome["turns"] == game.hints
    assert all(len(line) <= 80 for line in shown.getvalue().splitlines() if "oracle" not in line)


def test_the_dialects_own_line_is_a_call_too(cli: Cli) -> None:
    line = 'call: {"name": "ask_user", "arguments": {"question": "In which city do you live?"}}'
    asked = "ask_user In which city do you live?"
    shown = [
        cli("play", "ServiceQA-v1", "--seed", 3, *small("ServiceQA-v1"), stdin=f"{each}\nquit\n")
        for each in (line, asked)
    ]
    said = [done.out.partition("output of ask_user:")[2] for done in shown]
    assert "I live in" in said[0]
    assert said[0] == said[1]


def test_what_is_no_move_costs_no_turn(cli: Cli) -> None:
    lines = "orders name=x\nstock\norders of a king\nquit\n"
    done = cli("play", "ServiceQA-v1", "--seed", 3, *small("ServiceQA-v1"), stdin=lines)
    assert done.out.count("type: orders name=… city=…") == 2
    assert "13 turns left" not in done.out
    done = cli("play", "SqlQA-v0", *small("SqlQA-v0"), stdin="who is it?\nquit\n")
    assert "no search here" in done.out
    assert "5 turns left" not in done.out


def test_the_last_turn_is_not_wasted_on_a_call(cli: Cli) -> None:
    lines = "sql SELECT 1\nsql SELECT 1\nanswer: x\n"
    done = cli("play", "SqlQA-v0", *small("SqlQA-v0"), "-s", "max_turns=2", stdin=lines)
    assert "No calls left" in done.out
    assert "Not quite" in done.out


# --- what is told ---------------------------------------------------------------------------------
def test_help_names_what_the_environment_takes(cli: Cli) -> None:
    told = cli("play", "SqlQA-v0", *small("SqlQA-v0"), stdin="help\nquit\n").out
    assert "sql …" in told
    assert "any text" not in told
    told = cli("play", "TravelQA-v0", *small("TravelQA-v0"), stdin="help\nquit\n").out
    for each in ("any text", "trains …", "hotels …", "place name=… city=…", "answer: …"):
        assert each in told
    told = cli("play", "QueryRewriteQA-v0", *small("QueryRewriteQA-v0"), stdin="help\nquit\n").out
    assert "ends the question" in told
    assert "answer: …" not in told


def test_a_person_is_told_what_an_agent_is_told(cli: Cli) -> None:
    service = cli("play", "ServiceQA-v1", *small("ServiceQA-v1"), stdin="quit\n").out
    assert "up to 30 days after its delivery" in service
    assert service.index("30 days") < service.index("Question 1")
    travel = cli("play", "TravelQA-v0", *small("TravelQA-v0"), stdin="quit\n").out
    assert "DAY | train, visit or hotel | NAME | TIME | PRICE" in travel
    sql = cli("play", "SqlQA-v0", *small("SqlQA-v0"), stdin="rules\nquit\n").out
    assert "tv_cast(tv_series tv_series, person person)" in sql
    rewrite = cli(
        "play", "QueryRewriteQA-v0", *small("QueryRewriteQA-v0"), stdin="rules\nquit\n"
    ).out
    assert "as a query for a search engine" in rewrite
    for told in (service, travel, sql, rewrite):
        assert '{"name"' not in told
        assert "<search>" not in told


# --- by what they are judged ----------------------------------------------------------------------
def test_the_right_words_without_the_deed_are_not_right(cli: Cli) -> None:
    env = make_search_env("ServiceQA-v1", small("ServiceQA-v1")[1::2], dialect="plain")
    task = next(t for t in env.tasks if "denied" not in t.answers[0])
    typed_in = f"answer: {task.answers[0]}\n"
    options = ("--task", task.id, *small("ServiceQA-v1"))
    done = cli("play", "ServiceQA-v1", *options, stdin=typed_in)
    assert "Reward 0 of 1" in done.out
    assert "Right" not in done.out
    assert "service: Pay 1 if" in done.out
    said = cli("play", "ServiceQA-v1", *options, "--json", stdin=typed_in).json
    assert (said["metric"], said["score"]) == ("reward", 0.0)
    assert (said["episodes"][0]["em"], said["episodes"][0]["return"]) == (1.0, 0.0)


def test_a_plan_in_another_spacing_is_paid(cli: Cli) -> None:
    env = make_search_env("TravelQA-v0", small("TravelQA-v0")[1::2], dialect="plain")
    env.reset(seed=3)
    *calls, plan = env.oracle()
    typed_in = "\n".join([*calls, plan.replace(" | ", "|")]) + "\n"
    done = cli("play", "TravelQA-v0", "--seed", 3, *small("TravelQA-v0"), stdin=typed_in)
    assert "Reward 1 of 1" in done.out
    assert "Score: mean reward 1.00 of 1" in done.out
    assert "F1" not in done.out


def test_a_query_is_judged_by_what_it_finds(cli: Cli) -> None:
    options = ("--seed", 3, *small("QueryRewriteQA-v0"))
    env = make_search_env("QueryRewriteQA-v0", small("QueryRewriteQA-v0")[1::2], dialect="plain")
    env.reset(seed=3)
    (query,) = env.oracle()
    done = cli("play", "QueryRewriteQA-v0", *options, stdin=f"{query}\n")
    assert "Reward 1." in done.out
    assert "Not quite" not in done.out
    assert re.search(r"… and \d+ more", done.out), "of a hundred results the first are enough"
    lost = cli("play", "QueryRewriteQA-v0", *options, "--json", stdin="answer: x\n")
    assert lost.json["score"] == -0.1
    assert "A query that finds it" in lost.err


def test_no_page_holds_what_is_right_to_refuse(cli: Cli) -> None:
    options = (*TINY, 'tasks={"unanswerable": 4}', "--seed", 3)
    done = cli("play", "AbstainQA-v0", *options, stdin="answer: unanswerable\n")
    assert "Right · reward 1 of 1" in done.out
    assert "no page is known to hold it" in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("SelfSearchQA-v0",), "no engine"),
        (("SelfSearchQA-v0", "-s", "dialect=search_r1"), "no engine"),
        (("SimpleQA-v0", "-s", "engine.name=self"), "no engine"),
        (("SimpleQA-v0", "-s", "dialect=search_r1"), "leave out --set dialect"),
    ],
)
def test_what_no_person_can_type_is_refused(cli: Cli, options: tuple[str, ...], said: str) -> None:
    done = cli("play", *options)
    assert done.code == 2
    assert said in done.err
    assert not done.out
