"""``searchgym serve`` and what it refuses before it serves."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from searchgym.cli import run
from searchgym.engines import DiskBM25Engine, build
from searchgym.serve import Settings, bind

from ..small import CORPUS
from .conftest import Start

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["{file}", "--engine", "bm52"], "unknown engine 'bm52'"),
        (["{file}", "-s", "k1=2"], "engine.k1=1.2"),
        (["{file}", "-s", "engine.k9=2"], "k9"),
        (["{file}", "--dialect", "gem2"], "unknown server dialect"),
        (["{file}", "--engine", "tests.serve.engines:NeedyEngine"], "task"),
        (["{file}", "--engine", "graph"], "world"),
        (["{file}", "--engine", "graph", "--index", "x"], "--index is for bm25"),
        (["{file}", "--port", "70000"], "65535"),
        (["{file}", "--k", "50", "--max-k", "20"], "above the limit max_k 20"),
        (["{file}", "--host", "192.0.2.7", "--token", "t"], "choose another --host"),
    ],
)
def test_what_cannot_be_served_is_one_clear_line(
    passage_file: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run(["serve", *(a.format(file=passage_file) for a in arguments), *_free_port(arguments)])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.count("\n") == 1
    assert error.startswith("searchgym: ")
    assert said in error


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of bm25_disk, which holds its passages."""
    folder = tmp_path_factory.mktemp("stored") / "index"
    build(folder, iter(CORPUS))
    return folder


def test_an_index_that_holds_its_passages_is_served(stored: Path, start: Start) -> None:
    server = start(stored)
    assert f"serving {stored} with bm25_disk" in server.line
    (wanted,) = DiskBM25Engine(stored).search([CORPUS[1].text], 2)
    found = server.post("/retrieve", {"queries": [CORPUS[1].text], "topk": 2})
    assert [hit["id"] for hit in found["result"][0]] == [hit.passage.id for hit in wanted]
    page = server.post("/access", {"urls": [CORPUS[1].url]})
    assert CORPUS[1].text in str(page)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "dense"], "leave --engine dense out"),
        (["--index", "x"], "leave --index out"),
        (["--watch"], "--watch is for a folder of documents"),
        (["--split", "test"], "--split is for generated worlds and real sets"),
        (["-s", "engine.links=2"], "links"),
    ],
)
def test_an_index_is_served_as_it_is(
    stored: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run(["serve", str(stored), *arguments, "--port", "0"])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("theirs", ["one process", "starting", "sharing"])
def test_a_port_in_use_is_named(
    passage_file: Path, workers: str, theirs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by servers of our own: one that still builds its index, workers that share a port."""
    made = socket.socket() if theirs == "one process" else None
    if made is not None:
        made.bind(("127.0.0.1", 0))
        made.listen()
    else:
        made = bind(Settings(port=0), shared=theirs == "sharing")
        if theirs == "sharing":
            made.listen()
    arguments = ["--port", str(made.getsockname()[1]), "--workers", workers]
    with contextlib.closing(made), pytest.raises(SystemExit) as stop:
        run(["serve", str(passage_file), *arguments])
    assert stop.value.code == 2
    assert "choose another --port" in capsys.readouterr().err


def test_an_open_address_without_a_token_is_warned_of(
    passage_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(["serve", str(passage_file), "--host", "0.0.0.0", "--engine", "bm52", "--port", "0"])
    assert "no --token" in capsys.readouterr().err


def _free_port(arguments: list[str]) -> list[str]:
    return [] if "--port" in arguments else ["--port", "0"]
