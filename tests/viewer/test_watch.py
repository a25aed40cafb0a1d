"""The live page of a training: while it goes on, when it has ended, of both kinds."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from searchgym.core import to_line
from searchgym.errors import DataError
from searchgym.rl import Log
from searchgym.storage import FolderLock, locked
from searchgym.viewer.app import watch_app
from searchgym.viewer.training import (
    FINISHED,
    RUNNING,
    STOPPED,
    WAITING,
    LogTail,
    TrainingRun,
    smoothed,
)
from searchgym.web import serving
from searchgym_agents.candidate.training import CandidateRecipe, SeedTrainer

from ..browser import accessible, browser, page, served, wait_until
from .runs import trained

__all__ = ["browser", "page"]  # fixtures
TINY = CandidateRecipe(
    env={"corpus": "encyclopedia", "world": {"entities": 200}, "tasks": {"simple": 12}},
    worlds=(0,), dev={"seed": 1, "tasks": {"simple": 10}}, encoder={"none": True},
    config={"episodes": 24, "questions": 6, "evaluate_every": 2, "width": 16},
)  # fmt: skip


def step(log: Log, number: int, **more: float) -> None:
    measured = {"reward": 0.1 * number, "em": 0.05 * number, "rollout_s": 3.0, "update_s": 1.0}
    log.write({"step": number, "episodes": 64.0, "infra_errors": 0.0, **measured, **more})


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[Path, Log]]:
    """A run of ten steps whose trainer holds the folder's lock and has done two."""
    folder = tmp_path / "grpo"
    with FolderLock(folder):
        plan = {"recipe": "grpo", "model": "m", "env": "SearchQA-v0", "train": {"steps": 10}}
        (folder / "run.json").write_text(json.dumps(plan))
        log = Log(folder / "rl.jsonl")
        step(log, 0)
        step(log, 1)
        yield folder, log


def test_without_episodes_the_root_leads_to_the_training(run: tuple[Path, Log]) -> None:
    folder, log = run
    with served(watch_app(folder)) as address:
        with urllib.request.urlopen(address) as answer:
            assert answer.url == f"{address}/live"
            text = answer.read().decode()
        assert ">Training</a>" in text
        assert ">Episodes</a>" not in text, "it would lead nowhere"
        for number in range(2, 5):
            step(log, number, invalid=1.0, grad_norm=0.0)
        with urllib.request.urlopen(f"{address}/live") as answer:
            text = answer.read().decode()
        assert "No warnings" not in text
        assert "all_invalid" in text
        assert "no_signal" in text


def test_a_running_training_is_followed(page: Any, run: tuple[Path, Log]) -> None:
    folder, log = run
    with served(watch_app(folder)) as address:
        page.goto(f"{address}/live")
        assert page.locator("#state").inner_text() == "running"
        told = page.locator("#told").inner_text()
        assert "step 2 of 10" in told
        assert "about 32 s" in told, "eight steps of four seconds"
        assert page.locator("progress").evaluate("p => p.value") == pytest.approx(0.2)
        assert page.locator(".curve", has_text="reward").locator("strong").inner_text() == "0.1"
        assert "None are kept" in page.locator("main").inner_text()
        accessible(page)
        log.write({"step": 2, "reward": 0.7, "em": 0.5}, ["no_signal"])
        (folder / "rollouts.jsonl").write_text(to_line(trained()))
        page.locator("#told", has_text="step 3 of 10").wait_for(timeout=5000)
        assert "no_signal (first at step 2)" in page.locator(".warned").inner_text()
        assert page.locator(".curve", has_text="reward").locator("strong").inner_text() == "0.7"
        page.locator(".rollouts li").wait_for(timeout=10_000)
        assert page.locator(".rollouts li").count() == 1
        accessible(page)
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/episode/**")
        page.get_by_role("link", name="Training").click()
        page.wait_for_url("**/live")


def test_a_phone_follows_too(browser: Any, run: tuple[Path, Log]) -> None:
    folder, _ = run
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True)
    phone = context.new_page()
    with served(watch_app(folder)) as address:
        phone.goto(f"{address}/live")
        assert phone.evaluate("document.documentElement.scrollWidth") == 390
        accessible(phone)
    context.close()


def test_states_of_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    progress = TrainingRun(folder)
    assert progress.progress().state == WAITING
    with FolderLock(folder):
        assert progress.progress().state == RUNNING
        step(Log(folder / "rl.jsonl"), 0)
        assert progress.progress().state == RUNNING
    assert not locked(folder / ".lock")
    assert progress.progress().state == STOPPED
    (folder / "model").mkdir()
    assert progress.progress().state == FINISHED
    with pytest.raises(DataError, match="is no folder"):
        watch_app(tmp_path / "nowhere")


def test_a_log_is_read_on_from_where_it_was_left(tmp_path: Path) -> None:
    path = tmp_path / "rl.jsonl"
    tail = LogTail(path)
    assert tail.read() == []
    path.write_text('{"step": 0}\nnonsense\n{"step": 1}\n{"st')
    assert [row["step"] for row in tail.read()] == [0, 1]
    with path.open("a") as file:
        file.write('ep": 2}\n')
    assert [row["step"] for row in tail.read()] == [0, 1, 2]
    path.write_text('{"step": 0}\n')  # resumed from a checkpoint
    assert [row["step"] for row in tail.read()] == [0]


def test_candidate_training_is_followed(tmp_path: Path) -> None:
    """A real one: its page while it goes on, and after."""
    client = TestClient(watch_app(tmp_path), base_url="http://127.0.0.1")
    seen = []

    def report(what: str, fraction: float, point: Any) -> None:
        if point is not None:
            text = client.get("/live").text
            seen.append((re.findall(r'id="state">(\w+)<', text), text.count('class="curve"')))

    learned = SeedTrainer(TINY, tmp_path).train(0, report=report)
    assert seen
    assert set(map(str, seen)) == {"(['running'], 4)"}
    text = client.get("/live").text
    assert 'id="state">finished<' in text
    assert f"{learned.episodes:,} episodes at the last evaluation" in text
    assert "keeps no single episodes" in text
    assert not list((tmp_path / "agents").glob("*.live.json*"))


def test_dead_runs_are_red_and_several_runs_share_a_picture(
    page: Any, run: tuple[Path, Log], tmp_path: Path
) -> None:
    folder, _ = run
    dead = tmp_path / "dead"
    dead.mkdir()
    log = Log(dead / "rl.jsonl")
    for number in range(12):
        step(log, number, reward=0.0, invalid=1.0, grad_norm=0.0)
    with served(watch_app(dead, folder)) as address:
        page.goto(f"{address}/live?smooth=0.6")
        warned = page.locator(".warned.dead .bad").all_inner_texts()
        assert [text.split()[0] for text in warned] == ["no_reward", "all_invalid", "no_signal"]
        reward = page.locator(".curve", has_text="reward")
        assert reward.locator("[data-points]").count() == 2
        assert reward.locator(".raw-trace").count() == 2
        reward.locator("svg").hover(position={"x": 240, "y": 40})
        assert re.match(r"at \d+: dead 0, grpo 0\.1", reward.locator("strong").inner_text())
        assert page.locator(".key .part").all_inner_texts() == ["dead", "grpo"]
        accessible(page)


@pytest.mark.parametrize("weight", [0.0, 0.6, 0.9])
def test_smoothing_stays_within_the_values_and_keeps_a_constant(weight: float) -> None:
    line = [(float(x), float(x * 7 % 5)) for x in range(30)]
    found = [y for _, y in smoothed(line, weight)]
    assert found[0] == 0.0
    assert max(found) <= 4.0
    assert (found == [y for _, y in line]) == (weight == 0.0)
    assert [y for _, y in smoothed([(0.0, 3.0), (1.0, 3.0)], weight)] == pytest.approx([3.0, 3.0])


def test_the_command_and_its_guard(run: tuple[Path, Log]) -> None:
    folder, _ = run
    with subprocess.Popen(
        [sys.executable, "-m", "searchgym", "watch", str(folder), "--no-browser"],
        stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        address = server.stdout.readline().split(" on ")[1].split()[0]
        try:
            assert address.endswith("/live")
            with urllib.request.urlopen(address) as answer:
                assert b"step 2 of 10" in answer.read()
            strange = urllib.request.Request(address, headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError, match="421"):
                urllib.request.urlopen(strange)
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0
        finally:
            server.kill()


def test_a_page_beside_a_training_ends_with_it(run: tuple[Path, Log]) -> None:
    folder, _ = run
    told: list[str] = []
    opened = serving(watch_app(folder), browser=False, announce=told.append, path="live")
    with opened:
        wait_until(lambda: bool(told))
        with urllib.request.urlopen(told[0]) as answer:
            assert answer.status == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(told[0])
