"""``searchgym view`` as a person types it."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from searchgym.cli import run as command

from .runs import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"), 6)


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        command(["view", *map(str, arguments)])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1, "one line"
    return told


def test_wrong_inputs(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "neither a file nor a folder" in fails(capsys, tmp_path / "nowhere")
    assert "holds no trajectories" in fails(capsys, tmp_path)
    assert "'outcme'. Did you mean 'outcome'" in fails(capsys, run, "--where", "outcme=right")
    assert "no such value" in fails(capsys, run, "--where", "outcome=great")
    assert "takes NAME=VALUE" in fails(capsys, run, "--where", "outcome")


def test_export(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.html"
    with pytest.raises(SystemExit) as ended:
        command(["view", str(run), "--export", str(file), "--where", "agent=oracle", "--most", "4"])
    assert ended.value.code == 0
    assert "4 of 6 episodes" in capsys.readouterr().out
    assert file.read_text().count("<article") == 4
    assert "fits the filter" in fails(capsys, run, "--export", file, "--where", "agent=nobody")


def test_serving(run: Path) -> None:
    code = "from searchgym.cli.main import run; run()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "view", str(run), "--no-browser"],
        stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        told = server.stdout.readline()
        address = told.split(" on ")[1].split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as answer:
            assert b"12</strong> episodes" in answer.read()
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
