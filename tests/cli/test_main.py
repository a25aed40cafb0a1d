"""Exit codes, one-line errors, help with examples for every command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import searchgym
from searchgym.cli.main import run
from searchgym.errors import CardError
from tests.cli.application import application, commands
from tests.cli.conftest import SMALL, Cli

GROUPS = {"world": "inspect", "corpus": "inspect", "simulator": "train", "tasks": "make"}
"""Each with one of its commands."""


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_has_help_with_examples(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(application(), [*path, "--help"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert "Usage: " in result.output
    if path not in {(group,) for group in GROUPS}:  # their commands have the examples
        assert f"$ searchgym {' '.join(path)}" in result.output


def test_without_a_command_help_is_shown(cli: Cli) -> None:
    done = cli()
    assert done.code == 0
    assert "quickstart" in done.out


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_without_a_command_shows_its_help(cli: Cli, name: str) -> None:
    done = cli(name)
    assert (done.code, done.err) == (0, "")
    assert GROUPS[name] in done.out


def test_a_usage_error_names_the_help_that_helps(cli: Cli) -> None:
    assert cli("world", "export", "x").err.strip().endswith("(try 'searchgym world export --help')")


def test_the_version(cli: Cli) -> None:
    assert cli("--version").out.strip() == f"searchgym {searchgym.__version__}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lst"], "Did you mean 'list'"),
        (["show", "SimpelQA-v0"], "Did you mean 'SimpleQA-v0'"),
        (["list", "env"], "Did you mean 'envs'"),
        (["play", "SimpelQA-v0"], "Did you mean 'SimpleQA-v0'"),
        (["play", "nowhere_at_all:X-v0"], "cannot load 'nowhere_at_all:X-v0'"),
        (["eval", "SearchQA-v0", "-a", "ruels"], "Did you mean 'rules'"),
        (["eval", "SearchQA-v0", "-a", "none.safetensors"], "does not exist"),
        (["eval", "SearchQA-v0", "-s", "max_turn=3"], "Did you mean 'max_turns'"),
        (["eval", "SearchQA-v0", "-s", "max_turns"], "KEY=VALUE"),
        (["eval", "SearchQA-v0", "-s", "k=0"], "k must be at least 1"),
        (["eval", "SearchQA-v0", "-s", 'max_turns="x"'], "max_turns must be a whole number"),
        (
            ["transfer", "rules", "--reference", "nix", "--env", "SimpleQA-v0", "-n", "2"],
            "unknown rung 'nix'",
        ),
        (["eval", "SearchQA-v0", "-s", "judge.model=x"], "-s judge.base_url="),
        (["eval", "SearchQA-v0", "--judge", "x"], "--judge is -s judge.KEY=VALUE"),
        (["eval", "SearchQA-v0", "-A", "k=1"], "-A is -s agent.KEY=VALUE now"),
        (["train", "grpo", "--lora", "8"], "--lora is -s lora.rank=RANK now"),
        (["graph", "show", "kg:x"], "type now: searchgym world inspect GRAPH"),
        (["eval", "SearchQA-v0", "-s", "search_enabled=no"], "must be true or false, got 'no'"),
        (["search", "nofolder", "x"], "nor is there a file or folder of that name here"),
        (["world", "inspect", "atlantis"], "unknown card in corpora/ 'atlantis'"),
        (["world", "inspect", "hotpotqa"], "not a generated world"),
        (["world", "inspect", "encyclopedia", "-s", "entitis=5"], "unknown option of world"),
        (["world", "inspect", "encyclopedia", "--split", "trial"], "split must be one of"),
        (["data", "get", "nothing"], "unknown real set 'nothing'"),
        (["train", "rules"], "does not learn"),
        (["train", "candidate", "-s", "confg.episodes=1"], "Did you mean 'config'"),
        (
            ["train", "candidate", "-s", "worlds=3"],
            "worlds is a list of at least one seed, [0, 1]; got 3",
        ),
        (["train", "candidate", "-s", "config=3"], "config is a table, got 3"),
        (["serve", "docs", "--mcp"], "searchgym serve ./docs serves searches in it, over MCP at"),
        (["serve", "encyclopedia", "--mcp"], "searchgym serve encyclopedia serves searches"),
        (["serve", "SimpelQA-v0", "--mcp"], "Did you mean 'SimpleQA-v0'"),
        (["check", "FootQA-v0"], "an id that your module registers is written my_module:MyQA-v0"),
        (["check", "football/FootQA-v0"], "is written my_module:football/FootQA-v0"),
        (["check"], "name one environment or pass --all"),
        (["check", "SearchQA-v0", "--all"], "name one environment or pass --all"),
        (["train", "candidate", "-s", "worlds=[]"], "of at least one seed, [0, 1]; got []"),
        (["train", "candidate", "-s", "dev=1"], "dev is an id, a corpus, a table or a list"),
        (["train", "candidate", "-s", "env="], "env is an id, a corpus, a table or a list"),
        (["train", "candidate", "-s", "env=bytes.dat"], "bytes.dat, line 1: not UTF-8"),
        (["train", "candidate", "-s", "env=nowhere"], "nor is there a file or folder of that name"),
        (["train", "candidate", "-s", "env=docs"], "rules made 0 questions of docs: it has 1 pass"),
        (["train", "candidate", "-s", "env=docs/"], "searchgym tasks make docs/ --split train"),
        (["train", "./p.toml"], "cannot read p.toml"),
        (["check", "./docs"], "./docs holds no card.toml"),
        (["eval", "SearchQA-v0", "-a", "nope"], "; or 'untrained', 'majority' (the commonest"),
        (["eval", "SearchQA-v0", "-s", "corpus=docs"], "-s 'tasks={fact=100, bridge=50}'"),
        (["eval", "SearchQA-v0", "-s", "tasks={simple: 5}"], "is no table: write {name=5}, or"),
        (["search", "array.jsonl", "x"], "expected a JSON object, got 1 in a list"),
        (["search", "keys.jsonl", "x"], "no 'id'; it has 'foo'; a passage has id, title and text"),
        (
            ["tasks", "make", "docs", "--out", "o"],
            "no question can be made of docs: 1 passage read",
        ),
        (["tasks", "make", "lost.txt", "--out", "o"], "1 character that could not be read"),
        (["play", "--seed", "x"], "Invalid value for '--seed'"),
        (["warmstart", "--steps", "599"], "greater than or equal to 600"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    cli: Cli,
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "note.txt").write_text("one two three")
    (tmp_path / "bytes.dat").write_bytes(b"\xff\xfe\x80")
    (tmp_path / "array.jsonl").write_text("[1, 2]\n")
    (tmp_path / "keys.jsonl").write_text('{"foo": 1}\n')
    (tmp_path / "lost.txt").write_text("one \ufffd two")
    monkeypatch.chdir(tmp_path)
    done = cli(*arguments)
    assert done.code == 2
    assert said in done.err
    assert done.err.startswith("searchgym: ")
    assert len(done.err.strip().splitlines()) == 1
    assert done.out == ""


def test_a_traceback_is_shown_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCHGYM_TRACEBACK", "")
    with pytest.raises(CardError, match="Did you mean"):
        run(["--traceback", "show", "SimpelQA-v0"])


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m searchgym list --json | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_one_line_and_exit_code_130(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "searchgym", "play", "SimpleQA-v0", *SMALL],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A shell's background jobs, this test run perhaps among them, ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    deadline = time.monotonic() + 60
    while "Question 1" not in process.stdout.readline():
        assert time.monotonic() < deadline
    time.sleep(1)  # from the panel to the read, on a busy machine
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip() == "searchgym: interrupted"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interrupt_while_modules_are_imported_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from searchgym import __main__ as command

    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "searchgym.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "searchgym.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as stop:
            command.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stop.value.code == 130
    assert capsys.readouterr().err == "searchgym: interrupted\n"


def test_an_agent_in_a_file_of_this_folder_plays(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the installed command, whose own folder, not this one, is where Python looks first."""
    (tmp_path / "mine.py").write_text(
        "def agent(prompt):\n    return '<answer>' + prompt[:3] + '</answer>'\n"
        "def unclear(text):\n    return text\n",
        encoding="utf-8",
    )
    command = str(Path(sys.executable).with_name("searchgym"))
    asked = ["eval", "SearchQA-v0", "-n", "3", "--json", *SMALL, "-a"]
    done = subprocess.run(
        [command, *asked, "mine:agent"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert '"em"' in done.stdout
    monkeypatch.chdir(tmp_path)
    wrong = cli(*asked, "mine:unclear")
    assert (wrong.code, "whose one parameter is called" in wrong.err) == (2, True)
