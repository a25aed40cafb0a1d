"""Progress without a terminal: a line now and then on standard error, none of short work."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console
from rich.progress import TextColumn

from searchgym.cli import progress, working
from searchgym.utils import progress as module
from searchgym.utils.progress import LineProgress


def test_long_work_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    with LineProgress(TextColumn("-"), console=Console(file=io.StringIO())) as bar:
        steps = bar.add_task("training", total=2_000, unit="steps")
        share = bar.add_task("seed 0", total=1.0)
        for _ in range(200):
            now[0] += 1
            bar.advance(steps, 10)
        now[0] += 60
        bar.update(share, completed=0.25)
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert lines[0] == "training: 100 of 2,000 steps, 0:10"
    assert lines[1] == "training: 250 of 2,000 steps, 0:25"
    assert lines[-1] == "seed 0: 25 %, 4:20"
    assert len(lines) == 7, "less and less often, once a minute at the least"


def test_many_short_stages_are_told_by_one_clock(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    with progress("indexing") as bar:
        for number in range(10):
            now[0] += 6
            bar.stage(f"rung {number}: rules", 20, "questions")
            bar(20)
    assert capsys.readouterr().err.splitlines() == [
        "rung 1: rules: 0 of 20 questions, 0:12",
        "rung 4: rules: 0 of 20 questions, 0:30",
        "rung 8: rules: 0 of 20 questions, 0:54",
    ]


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("training", 3, "steps") as bar, working("drawing …"):
        bar(3)
    assert capsys.readouterr() == ("", "")


def test_work_of_unknown_length_says_its_label(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "FIRST", 0.01)
    with working("drawing …"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "drawing …\n"
