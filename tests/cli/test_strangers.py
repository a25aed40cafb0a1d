"""Folders and files of strangers: what lies in the working directory, in a run's folder or in a
file of trajectories must not run code unless somebody says so."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from searchgym.cards import cards
from searchgym.envs import SearchEnv
from searchgym.rl import read
from searchgym.rl import recipe_files as files
from searchgym.utils import trust

from .conftest import SMALL, Cli
from .files import options

POPEN = 'use = "subprocess:Popen"\n'
QUICK = ["-n", "4", "--closed-book", "none", *SMALL]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of somebody else's."""
    folder = tmp_path / "downloaded"
    folder.mkdir()
    monkeypatch.chdir(folder)
    trust._NAMED.clear()  # as in a process of its own
    return folder


def touching(folder: Path) -> tuple[Path, str]:
    """A file that proves that a command ran, and the TOML options that would run it."""
    proof = folder / "PWNED"
    return proof, f"args = ['touch', '{proof}']\n"


def put(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "card.toml").write_text(text, encoding="utf-8")


# --- names ----------------------------------------------------------------------------------------
def test_a_folder_does_not_stand_in_for_an_agent(cli: Cli, here: Path) -> None:
    proof, args = touching(here)
    put(here / "random", f'id = "random"\nsummary = "s"\n{POPEN}[kwargs]\n{args}')
    done = cli("eval", "SearchQA-v0", "-a", "random", *QUICK, "--json")
    assert done.code == 0, done.err
    named = cli("eval", "SearchQA-v0", "-a", "./random", *QUICK)
    assert (named.code, "'subprocess:Popen' cannot be an agent" in named.err) == (2, True)
    assert not proof.exists()


def test_a_folder_does_not_stand_in_for_a_recipe(cli: Cli, here: Path) -> None:
    proof, args = touching(here)
    shipped = read("grpo")
    text = files.recipe_files()["grpo"].read_text(encoding="utf-8")
    (here / "grpo").write_text(f"{text}\n[schedule]\n{POPEN}{args}")
    (here / "grpo.toml").write_text(f"{text}\n[schedule]\n{POPEN}{args}")
    assert read("grpo") == shipped
    for recipe in ("grpo", "./grpo.toml"):
        done = cli("train", recipe, "--model", "./none", "--out", here / "out")
        assert done.code == 2
    assert "cannot be a schedule" in done.err
    assert not proof.exists()


def test_a_folder_does_not_stand_in_for_an_environment(cli: Cli, here: Path) -> None:
    proof, args = touching(here)
    put(here / "SimpleQA-v0", f'id = "x/SimpleQA-v0"\nsummary = "s"\n{POPEN}[kwargs]\n{args}')
    done = cli("eval", "SimpleQA-v0", "-a", "random", *QUICK, "--json")
    assert done.code == 0, done.err
    named = cli("eval", "./SimpleQA-v0", "-a", "random", *QUICK)
    assert (named.code, "cannot be an environment" in named.err) == (2, True)
    assert not proof.exists()


def test_a_changed_copy_with_a_shipped_id_is_not_taken_for_the_shipped_one(
    cli: Cli, here: Path
) -> None:
    shutil.copytree(cards("envs")["SimpleQA-v0"].folder, here / "SimpleQA-v0")
    with (here / "SimpleQA-v0" / "card.toml").open("a") as card:
        card.write("k = 1\n")
    done = cli("eval", "./SimpleQA-v0", "-a", "random", *QUICK)
    assert (done.code, "give this one another id" in done.err) == (2, True)


def test_passages_do_not_stand_in_for_a_corpus(cli: Cli, here: Path) -> None:
    (here / "encyclopedia").mkdir()
    (here / "encyclopedia" / "note.md").write_text("# Note\n\nNothing.\n")
    (here / "notes").mkdir()
    (here / "notes" / "note.md").write_text("# Note\n\nNothing.\n")
    (here / "carded").mkdir()
    (here / "carded" / "card.toml").write_text('id = "carded"\nkind = "world"\nsummary = "s"\n')
    shipped = cli("corpus", "inspect", "encyclopedia", "--json")
    assert shipped.code == 0, shipped.err
    assert shipped.json["passages"] > 100
    for name in ("./encyclopedia", "notes"):
        done = cli("corpus", "inspect", name, "--json")
        assert done.code == 0, done.err
        assert done.json["passages"] == 1
    assert "./carded" in cli("corpus", "inspect", "carded").err


def test_an_unknown_bare_name_says_how_the_folder_here_is_written(cli: Cli, here: Path) -> None:
    (here / "mine").mkdir()
    for arguments in (
        ("eval", "SearchQA-v0", "-a", "mine"),
        ("eval", "mine", "-a", "random"),
        ("train", "mine", "--model", "x"),
    ):
        done = cli(*arguments)
        assert (done.code, "./mine" in done.err) == (2, True), done.err
    done = cli("train", "grpo", "--model", "mine")  # of models, a folder here is meant
    assert (done.code, "mine holds no model" in done.err) == (2, True), done.err


def test_a_module_here_does_not_stand_in_for_a_package_that_is_not_installed(
    cli: Cli, here: Path
) -> None:
    (here / "wandb.py").write_text("open('PWNED', 'w')\n")
    done = cli("train", "grpo", "--model", "./none", "--log", "wandb", "--out", here / "o")
    assert done.code == 2
    assert not (here / "PWNED").exists()


def test_no_name_on_the_command_line_ends_the_process(cli: Cli, here: Path) -> None:
    done = cli("eval", "SearchQA-v0", "-a", "random", *QUICK, "-s", "dialect=os:abort")
    assert (done.code, "'os:abort' is a function" in done.err) == (2, True)


# --- a run's folder -------------------------------------------------------------------------------
SCHEDULE = """
open({ran!r}, "a").write("x")
from searchgym.rl.schedules import Constant
class Mine(Constant):
    note = "as it was"
"""


@pytest.fixture
def run(cli: Cli, world: Path, here: Path) -> Path:
    """One step of a small model."""
    out = here / "run"
    done = cli("train", "grpo", *options(world, "--out", out, "--steps", 1, "-s", "rollout.size=2"))
    assert done.code == 0, done.err
    return out


def plan(folder: Path, **changes: Any) -> None:
    """Change ``run.json`` as a stranger would."""
    file = folder / "run.json"
    values = json.loads(file.read_text())
    values["table"] |= changes.pop("table", {})
    file.write_text(json.dumps(values | changes))


def test_a_runs_folder_runs_no_command(cli: Cli, run: Path, here: Path) -> None:
    proof, _ = touching(here)
    command = {"use": "subprocess:Popen", "args": ["touch", str(proof)]}
    own = here / "evil_module.py"
    own.write_text(f"open({str(proof)!r}, 'w')\n")
    whole = json.loads((run / "run.json").read_text())
    for changes in (
        {"table": {"schedule": command}},
        {"table": {"rollout": {"use": "demonstrations", "expert": "evil_module:x"}}},
        {"env_options": {"engine": {"name": "evil_module:x"}}},
        {"env_options": {"dialect": "evil_module:x"}},
        {"env": "evil_module:X-v0"},
    ):
        (run / "run.json").write_text(json.dumps(whole))
        plan(run, **changes)
        done = cli("train", "--resume", "--out", run, "--steps", 2)
        assert done.code == 2, changes
        assert "run.json names code" in done.err, done.err
        assert "--trust" in done.err
        assert not proof.exists(), changes
    (run / "run.json").write_text(json.dumps(whole))
    plan(run, table={"schedule": command})
    done = cli("train", "--resume", "--out", run, "--steps", 2, "--trust")
    assert (done.code, "cannot be a schedule" in done.err) == (2, True)
    assert not proof.exists()


def test_a_run_with_parts_of_ones_own_is_resumed_by_trust_and_the_same_code(
    cli: Cli, world: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    ran = here / "ran"
    (here / "own_schedule.py").write_text(SCHEDULE.format(ran=str(ran)))
    out = here / "run"
    same = options(world, "--out", out, "-s", "rollout.size=2", "-s",
                   "schedule=own_schedule:Mine")  # fmt: skip
    done = cli("train", "grpo", *same, "--steps", 1)
    assert done.code == 0, done.err
    assert list(json.loads((out / "run.json").read_text())["sources"]) == ["own_schedule:Mine"]
    assert cli("train", "grpo", *same, "--steps", 2).code == 0, "the same command goes on"

    def forgotten() -> None:  # as another process would be
        trust._NAMED.clear()
        sys.modules.pop("own_schedule", None)
        ran.unlink(missing_ok=True)

    forgotten()
    refused = cli("train", "--resume", "--out", out, "--steps", 3)
    assert (refused.code, "names code, 'own_schedule:Mine'" in refused.err) == (2, True)
    assert not ran.exists()
    trusted = cli("train", "--resume", "--out", out, "--steps", 3, "--trust")
    assert trusted.code == 0, trusted.err

    forgotten()
    text = SCHEDULE.format(ran=str(ran)).replace("as it was", "otherwise")
    (here / "own_schedule.py").write_text(text)
    for command in (
        ("train", "--resume", "--out", out, "--steps", 4, "--trust"),
        ("train", "grpo", *same, "--steps", 4),
    ):
        changed = cli(*command)
        assert (changed.code, "not what it was when" in changed.err) == (2, True), changed.err


# --- trajectories and results ---------------------------------------------------------------------
DIALECT = """
open({ran!r}, "a").write("x")
from searchgym.dialects.search_r1 import SearchR1
class Own(SearchR1):
    pass
"""


def test_trajectories_run_no_code(cli: Cli, here: Path) -> None:
    ran = here / "ran"
    (here / "own_words.py").write_text(DIALECT.format(ran=str(ran)))
    arguments = ("eval", "SearchQA-v0", "-a", "random", *QUICK, "--out", here / "played")
    assert cli(*arguments).code == 0
    file = here / "played" / "random.trajectories.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line["snapshot"]["config"]["rules"]["dialect"] = "own_words:Own"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))
    result = here / "played" / "random.json"
    values = json.loads(result.read_text())
    result.write_text(json.dumps(values | {"complete": False, "rows": []}))
    commands = [
        ("export", file, "--to", "trec", "--out", here / "run.trec"),
        ("export", file, "--to", "qrels", "--out", here / "qrels"),
        ("export", file, "--to", "browsecomp-plus", "--out", here / "folder"),
        arguments,
    ]
    for command in commands:
        done = cli(*command)
        assert done.code == 2, command
        assert "trajectories.jsonl names code, 'own_words:Own'" in done.err, done.err
        assert not ran.exists()
    trusted = cli(*commands[0], "--trust")
    assert (trusted.code, ran.exists()) == (0, True), trusted.err


def test_a_snapshot_names_registered_items_or_what_is_known_here(here: Path) -> None:
    import gymnasium as gym

    from searchgym.core import Episode
    from searchgym.errors import DialectError

    (here / "never_named.py").write_text("open('PWNED', 'w')\n")
    env: Any = gym.make("SearchQA-v0", **_small()).unwrapped
    env.reset(seed=0)
    snapshot = env.snapshot()
    env.restore(snapshot)
    snapshot["config"]["rules"]["dialect"] = "never_named:Own"
    for restore in (env.restore, Episode.restore):
        with pytest.raises(DialectError, match="names code"):
            restore(snapshot)
    assert not (here / "PWNED").exists()
    assert SearchEnv(**_small()).tasks


def _small() -> dict[str, Any]:
    return {"world": {"entities": 400}, "tasks": {"simple": 12}}
