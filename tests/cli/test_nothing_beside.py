"""No command writes beside what it reads: data, notes, questions, weights and runs stay as they
are, and what is kept lies in the user's cache."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from searchgym.storage import KINDS
from searchgym_agents.candidate import command
from searchgym_agents.candidate.agent import CandidateAgent
from searchgym_agents.candidate.features import FeatureBuilder

from .conftest import SMALL, Cli
from .files import options as trained

pytestmark = pytest.mark.timeout(240)

State = dict[str, tuple[int, int]]


def state(folder: Path) -> State:
    """Every file and folder below, with size and time of the last change."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        told = path.lstat()
        found[str(path.relative_to(folder))] = (told.st_size, told.st_mtime_ns)
    return found


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a user has: a data folder, notes, passages, questions, weights; all read-only."""
    folder = tmp_path_factory.mktemp("given")
    notes = folder / "notes"
    (notes / "below").mkdir(parents=True)
    (notes / "boats.md").write_text("# Boats\n\nOldeth Marn built the first boat in Zurich.\n")
    (notes / "below" / "cars.txt").write_text("Cars are red.")
    (folder / "data").mkdir()
    (folder / "data" / "hotpotqa").mkdir()
    question = {"id": "q1", "question": "Who built the first boat?", "answers": ["Oldeth Marn"]}
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n")
    passage = {"id": "p1", "title": "Boats", "text": "Oldeth Marn built it.", "url": "u/1"}
    (folder / "passages.jsonl").write_text(json.dumps(passage) + "\n")
    (folder / "graph.tsv").write_text("Oldeth\tbuilt\tBoat\nBoat\tlies in\tZurich\n")
    CandidateAgent.untrained(FeatureBuilder()).save(folder / "weights.safetensors")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture
def home(tmp_path: Path, given: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home, and the data folder as SEARCHGYM_DATA."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CACHE_HOME", "SEARCHGYM_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEARCHGYM_DATA", str(given / "data"))
    for kept in (command.saved_agent, command._encoder):
        kept.cache_clear()
    return home


QUICK = ["-n", 2, "--closed-book", "none"]


def test_reading_commands_write_nothing_beside(
    cli: Cli, given: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, out = tmp_path / "here", tmp_path / "out"
    here.mkdir()
    monkeypatch.chdir(here)
    notes, run = str(given / "notes") + "/", out / "run"
    own = ["-s", f"corpus={notes}", "-s", f"tasks={given / 'questions.jsonl'}"]
    before = state(given)

    def run_of(agent: object, *more: object) -> list[object]:
        return ["eval", "SearchQA-v0", "-a", agent, *QUICK, *more]

    steps: list[tuple[list[object], set[int]]] = [
        (["list"], {0}),
        (["show", "SearchQA-v0"], {0}),
        (["data"], {0}),
        (["cache"], {0}),
        (run_of("rules", *own), {0}),
        (run_of("untrained", *SMALL), {0}),
        (run_of(given / "weights.safetensors", *SMALL), {0}),
        (run_of("rules", *SMALL, "--out", run), {0}),
        (["eval", "HotpotQA-v0", "-a", "rules", *QUICK], {2}),  # it is not there
        (["compare", run / "rules.json", run / "rules.json"], {0, 2}),
        (["export", run / "rules.trajectories.jsonl", "--to", "trec", "--out", out / "x.run"], {0}),
        (["report", run, "--out", out / "report"], {0}),
        (["audit", given / "questions.jsonl", "--corpus", notes], {0}),
        (["corpus", "inspect", notes], {0}),
        (["corpus", "index", notes, "--out", out / "index"], {0}),
        (["corpus", "inspect", given / "passages.jsonl"], {0}),
        (["world", "inspect", f"kg:{given / 'graph.tsv'}", "-e", "Boat"], {0}),
        (["world", "inspect", "encyclopedia", "--split", "dev"], {0, 2}),
        (["check", "SearchQA-v0"], {0, 1}),
    ]
    for arguments, codes in steps:
        made = state(out) if out.exists() else {}
        done = cli(*arguments)
        assert done.code in codes, (arguments, done.err)
        assert state(given) == before, arguments
        assert not list(here.iterdir()), arguments
        if "--out" not in arguments:
            assert (state(out) if out.exists() else {}) == made, arguments
    kept = home / ".cache" / "searchgym"
    assert {path.name for path in kept.iterdir()} <= set(KINDS) if kept.exists() else True
    assert not (given.parent / "vectors").exists()


def test_training_writes_into_its_own_folder_only(
    cli: Cli,
    world: Path,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    before = state(world)
    done = cli("train", "grpo", *trained(world, "--steps", 1, "--out", tmp_path / "run"))
    assert done.code == 0, done.err
    assert state(world) == before
    assert not list(here.iterdir())


def test_serving_notes_writes_nothing(given: Path, home: Path, tmp_path: Path) -> None:
    from tests.serve.conftest import ServerProcess

    before = state(given)
    server = ServerProcess([str(given / "notes") + "/", "--port", 0], tmp_path)
    try:
        assert server.post("/retrieve", {"query": "boat"})["result"]
    finally:
        server.end()
    assert state(given) == before
    assert os.environ["HOME"] == str(home)
