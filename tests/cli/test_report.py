"""``searchgym report`` through the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, Cli


def test_an_evaluation_says_how_to_look_at_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "an eval"
    done = cli("eval", "SimpleQA-v0", "-a", "rules", "-a", "oracle", *SMALL, "--out", out)
    assert done.code == 0, done.err
    assert done.err.splitlines()[-1] == f"look at it: searchgym report '{out}' --open"
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    done = cli("report", out, "--open", "--figures", tmp_path / "figures", "--json")
    assert done.code == 0, done.err
    assert done.json["report.html"] == str(out / "report.html")
    assert opened == [(out / "report.html").resolve().as_uri()]
    for path in done.json.values():
        assert Path(path).stat().st_size > 50
    assert {"scores.png", "scores.svg", "scores.csv", "scores.json"} <= set(done.json)
    page = (out / "report.html").read_text(encoding="utf-8")
    led_to = set(re.findall(r'href="report\.episodes\.html#(e-[0-9a-f]+)"', page))
    episodes = (out / "report.episodes.html").read_text(encoding="utf-8")
    assert led_to
    assert led_to <= set(re.findall(r'id="(e-[0-9a-f]+)"', episodes))
    rows = set(re.findall(r'href="#(episodes-[^"]+)"', page))
    assert "episodes-rules-all" in rows
    assert rows <= set(re.findall(r'<tr id="([^"]+)"', page)), "every number leads to a row"
    assert f"searchgym view &#39;{out}&#39; --where agent=rules" in page


def test_without_trajectories_it_says_that_nothing_is_linked(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "eval"
    assert cli("eval", "SimpleQA-v0", "-a", "rules", *SMALL, "--out", out).code == 0
    for path in out.glob("*.jsonl"):
        path.unlink()
    assert cli("report", out).code == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "no episodes are linked: " in page
    assert 'href="#episodes-' not in page


def test_errors_are_one_line(cli: Cli, tmp_path: Path) -> None:
    done = cli("report", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "holds no run that can be reported" in done.err
    assert done.err.count("\n") == 1
    (tmp_path / "rl.jsonl").write_text("{\n{\n")
    done = cli("report", tmp_path)
    assert done.code == 2
    assert f"{tmp_path / 'rl.jsonl'}, line 1" in done.err
    assert "does not exist" in cli("report", tmp_path / "none").err
