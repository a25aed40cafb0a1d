"""``searchgym doctor``: what it prints, and its exit code."""

from __future__ import annotations

from pathlib import Path

from searchgym.rl import Log

from .conftest import Cli


def test_the_command_says_so_by_its_exit_code(cli: Cli, tmp_path: Path) -> None:
    log = Log(tmp_path / "rl.jsonl")
    for step in range(24):
        entropy = 1.0 if step < 6 else 0.001
        log.write({"step": float(step), "reward": 0.3, "em": 0.3, "entropy": entropy})
    done = cli("doctor", tmp_path)
    assert done.code == 1
    assert "entropy_collapse (update " in done.out
    assert all(word in done.out for word in ("evidence", "remedy", "collapse.md#entropy_collapse"))
    assert max(map(len, done.out.splitlines())) <= 160
    told = cli("doctor", tmp_path, "--json")
    assert told.code == 1
    assert [f["cause"] for f in told.json["findings"]] == ["entropy_collapse"]
    sound = tmp_path / "sound.log"
    sound.write_text("".join(f"step:{s} - critic/score/mean:0.{s}\n" for s in range(9)))
    done = cli("doctor", sound)
    assert (done.code, done.out) == (0, "")
    assert "nothing was found in 9 updates" in done.err
    assert cli("doctor", tmp_path / "nowhere").code == 2
