"""A person plays: typed lines, what is shown, the score; and the same through a real pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from searchgym.cli.options import overrides
from searchgym.cli.targets import make_search_env
from searchgym.core import read_jsonl
from tests.cli.conftest import SMALL, Cli


def oracle_lines(name: str, seed: int, *settings: str) -> list[str]:
    env = make_search_env(name, [s for s in settings if s != "-s"], dialect="plain")
    env.reset(seed=seed)
    return env.oracle()


def test_the_oracles_lines_win(cli: Cli) -> None:
    lines = oracle_lines("SearchQA-v0", 5, *SMALL)
    done = cli("play", "SearchQA-v0", "--seed", 5, *SMALL, stdin="\n".join(lines) + "\n")
    assert done.code == 0
    assert "Question 1" in done.out
    assert f"› {lines[-1]}" in done.out, "what is piped is printed"
    assert "Right" in done.out
    assert "Score: 1 of 1 right" in done.out
    assert f"{len(lines) - 1} search" in done.out


def test_bare_text_is_a_search_and_help_and_hints_cost_nothing(cli: Cli) -> None:
    lines = oracle_lines("SimpleQA-v0", 2, *SMALL)
    query = lines[0].removeprefix("search: ")
    typed = f"help\nhint\n\n{query}\n{lines[-1]}\n"
    done = cli("play", "SimpleQA-v0", "--seed", 2, *SMALL, "--json", stdin=typed)
    (episode,) = done.json["episodes"]
    assert (episode["em"], episode["queries"]) == (1.0, 1)
    assert done.json["hints"] == 1
    assert lines[0] in done.err  # the hint, on the side channel because of --json


def test_a_wrong_answer_shows_the_right_one(cli: Cli) -> None:
    done = cli("play", "SimpleQA-v0", "--seed", 2, *SMALL, stdin="answer: no idea whatsoever\n")
    right = oracle_lines("SimpleQA-v0", 2, *SMALL)[-1].removeprefix("answer: ")
    assert "Not quite" in done.out
    assert right in done.out
    assert "Score: 0 of 1 right" in done.out


@pytest.mark.parametrize("typed", ["quit\n", "exit\n", ""])
def test_leaving_is_no_error(cli: Cli, typed: str) -> None:
    done = cli("play", "SimpleQA-v0", *SMALL, stdin=typed)
    assert done.code == 0
    assert "no score" in done.out


def test_the_last_turn_is_announced_and_not_wasted(cli: Cli) -> None:
    typed = "one\ntwo\nthree\nfour\nanswer: x\n"
    done = cli("play", "SimpleQA-v0", "--seed", 1, *SMALL, "-s", "max_turns=3", stdin=typed)
    assert "Last turn: answer now." in done.out
    assert "No searches left" in done.out
    assert "Not quite" in done.out


def test_a_page_is_opened_by_its_number(cli: Cli) -> None:
    lines = oracle_lines("LongSearchQA-v0", 3, *SMALL)
    typed = f"open 1\n{lines[0]}\nopen 9\nopen 1\n{lines[-1]}\n"
    done = cli("play", "LongSearchQA-v0", "--seed", 3, *SMALL, "--json", stdin=typed)
    assert "There is no result 1 to open" in done.err
    assert "There is no result 9 to open" in done.err
    assert "part 1 of 1" in done.err
    assert done.json["episodes"][0]["end"] == "answered"
    typed = f"{lines[0]}\nopen 1\nquit\n"
    closed = cli("play", "SimpleQA-v0", *SMALL, stdin=typed)
    assert "Pages cannot be opened here" in closed.out


def test_several_questions_and_a_record(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    done = cli(
        "play", "SimpleQA-v0", "--seed", 4, *SMALL, "--episodes", 3, "--record", path,
        stdin="a\nanswer: x\nanswer: y\nanswer: z\n",
    )  # fmt: skip
    assert "Score: 0 of 3 right" in done.out
    played = list(read_jsonl(path))
    assert [t.answer for t in played] == ["x", "y", "z"]
    assert len({t.task_id for t in played}) > 1
    assert played[0].replay().observation() is not None


def test_a_task_is_chosen_by_its_id(cli: Cli) -> None:
    env = make_search_env("SimpleQA-v0", SMALL[1::2])
    task = env.tasks[3]
    done = cli("play", "SimpleQA-v0", "--task", task.id, *SMALL, stdin="answer: x\n")
    assert done.code == 0
    out = " ".join(done.out.replace("│", " ").split())
    assert task.question in out


def test_settings_are_read_as_json_and_nest() -> None:
    assert overrides(["k=5", "world.entities=9", "world.seed=1", "dialect=plain", "x=true"]) == {
        "k": 5, "world": {"entities": 9, "seed": 1}, "dialect": "plain", "x": True,
    }  # fmt: skip
