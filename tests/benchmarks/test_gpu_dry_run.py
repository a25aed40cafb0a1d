"""``make gpu`` at a small size on the CPU: all parts, with their figures."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.gpu import __main__ as command
from tests.benchmarks.gpu import learning, peak, tables, wheels, world
from tests.benchmarks.gpu.models import flops, random_model
from tests.benchmarks.gpu.setting import attempted, failures, reasons

pytestmark = pytest.mark.contract

CPU = ["--dry-run", "--device", "cpu", "--minutes", "2", "--learning-minutes", "1"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("gpu") / "deep" / "gpu.json"
    assert command.main([*CPU, "--out", str(out)]) == 0
    report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return report


def test_every_part_is_there(found: dict[str, Any]) -> None:
    assert list(found["parts"]) == list(command.SHARES)
    assert failures(found["parts"]) == []
    assert found["seconds"] > 0
    machine = found["parts"]["machine"]
    assert machine["matmul_tflops"] > 0
    assert machine["copy_gb_s"] > 0


def test_rollouts(found: dict[str, Any]) -> None:
    rollouts = found["parts"]["rollouts"]
    for count in (4, 8):
        for way in ("lock step", "flat, ours", "generate"):
            measured = rollouts["tiny"][f"{way} x {count}"]
            assert measured["tokens_per_s"] > 0
            assert measured["written"] == count * rollouts["turns"] * rollouts["turn_tokens"]


def test_updates(found: dict[str, Any]) -> None:
    for kind in ("sft", "grpo"):
        variants = found["parts"]["updates"]["tiny"][kind]
        for name, measured in variants.items():
            if "flash" in name or "compiled" in name:  # for GPUs
                assert "skipped" in measured
                continue
            assert measured["tokens_per_s"] > 0
            assert measured["share_of_matmul"] > 0
            assert measured["tokens_per_s"] == max(p["tokens_per_s"] for p in measured["passes"])


def test_hand_over_and_vectors(found: dict[str, Any]) -> None:
    parts = found["parts"]
    assert all(s > 0 for s in parts["handover"]["tiny"]["seconds"].values())
    assert parts["vectors"]["torch, exact"]["queries_per_s"] > 0
    if find_spec("faiss") is None:
        assert "skipped" in parts["vectors"]["faiss"]
    else:
        assert parts["vectors"]["faiss, CPU, exact"]["queries_per_s"] > 0
    if find_spec("vllm") is None:
        assert parts["vllm"]["skipped"] == "vllm is not installed"


def test_learning(found: dict[str, Any]) -> None:
    learnt = found["parts"]["learning"]
    assert learnt["model"] == "random weights of tiny"
    assert learnt["because"] == "a dry run"
    assert [entry["step"] for entry in learnt["curve"]] == [1, 2]
    for entry in learnt["curve"]:
        assert {"reward", "em", "searches"} <= set(entry)
        assert min(entry["rollout_s"], entry["update_s"], entry["written"]) > 0


def test_what_is_not_measured_says_why(found: dict[str, Any]) -> None:
    """On this machine: kernels for GPUs, and what is not installed."""
    told = dict(reasons(found["parts"]))
    if find_spec("vllm") is None:
        assert told["vllm"] == "vllm is not installed"
    faiss = "vectors: faiss" if find_spec("faiss") is None else "vectors: faiss, GPU"
    assert "faiss" in told[faiss]
    assert all(told.values())


def test_learning_has_time_of_its_own(tmp_path: Path) -> None:
    """As much as was asked for, whatever the other parts left."""
    seen: list[float] = []

    def part(setting: Any) -> Any:
        seen.append(setting.left)
        return {"curve": []}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "part", part)
        more = ["--only", "learning", "--learning-minutes", "9", "--out", str(tmp_path / "g.json")]
        assert command.main([*CPU, *more]) == 0
    assert 500 < seen[0] <= 540


def test_a_list_of_wheels_is_one_that_pip_takes(tmp_path: Path) -> None:
    """Of wheels in a folder, without a network: what is listed can be downloaded by its hashes."""
    import subprocess
    import sys
    import zipfile

    shelf, out = tmp_path / "shelf", tmp_path / "list.txt"
    shelf.mkdir()
    for name, needs in (("aa", "Requires-Dist: bb\n"), ("bb", "")):
        with zipfile.ZipFile(shelf / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            info = f"{name}-1.0.dist-info"
            about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
            wheel.writestr(f"{info}/METADATA", about)
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")
    alone = ["--pip=--no-index", f"--pip=--find-links={shelf}"]
    assert wheels.main(["aa", *alone, "--out", str(out)]) == 0
    assert [line.split(" --hash=sha256:")[0] for line in out.read_text().splitlines()] == [
        "aa==1.0", "bb==1.0",
    ]  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes",
         "--no-index", f"--find-links={shelf}", "-r", out, "-d", tmp_path / "got"], check=True,
    )  # fmt: skip
    assert len(list((tmp_path / "got").iterdir())) == 2
    assert wheels.main(["absent", *alone, "--out", str(out)]) == 1


def test_tables_fit(found: dict[str, Any]) -> None:
    for name, report in found["parts"].items():
        assert max(map(len, "\n".join(tables.lines(name, report)).splitlines())) <= 80


def test_a_failure_is_a_part_of_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(setting: Any) -> Any:
        raise ZeroDivisionError("nothing to divide by")

    monkeypatch.setattr(learning, "part", broken)
    out = tmp_path / "gpu.json"
    assert command.main([*CPU, "--only", "machine,learning", "--out", str(out)]) == 1
    parts = json.loads(out.read_text(encoding="utf-8"))["parts"]
    assert parts["machine"]["matmul_tflops"] > 0
    assert parts["learning"]["error"] == "ZeroDivisionError: nothing to divide by"
    assert "broken" in "".join(parts["learning"]["traceback"])


def test_a_model_that_was_asked_for_is_not_replaced(tmp_path: Path) -> None:
    setting = command.arguments([*CPU, "--model", str(tmp_path / "none")])
    assert setting.model != learning.DEFAULT
    report = attempted(lambda: command.run(
        command.arguments([*CPU, "--model", str(tmp_path / "none"), "--only", "learning",
                           "--out", str(tmp_path / "gpu.json")]), 0.0))  # fmt: skip
    assert "EngineError" in report["parts"]["learning"]["error"]


@pytest.mark.parametrize(
    "wrong",
    [["--only", "rollout"], ["--sizes", "7b"], ["--minutes", "0"], ["--learning-minutes", "-1"]],
)
def test_wrong_options(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.arguments(wrong)
    assert "rollouts" in capsys.readouterr().err or wrong[0] != "--only"


def test_promised_rates() -> None:
    assert peak.promised("NVIDIA H100 80GB HBM3") == 989
    assert peak.promised("NVIDIA H100 PCIe") == 756
    assert peak.promised("NVIDIA L40S") == 362
    assert peak.promised("Some accelerator") is None


def test_operations_of_a_pass() -> None:
    """By hand: per layer of tiny, q 64·64 + 64 and k, v 2 · (64·32 + 32), o 64·64, three of 64·128,
    two norms of 64; and the last norm."""
    import torch

    model = random_model("tiny", torch.device("cpu"), torch.float32)
    layers = 2 * (2 * 64 * 64 + 64 + 2 * (64 * 32 + 32) + 3 * 64 * 128 + 2 * 64) + 64
    expected = 6 * layers * 30 + 6 * 2048 * 64 * 7 + 6 * 2 * 64 * (10**2 + 20**2)
    assert flops(model, [10, 20], 7) == expected


def test_the_environment_is_the_cards_with_more_hops() -> None:
    assert world.card()["recipe"] == "grpo"
    rules = world.env(True).rules
    assert rules.snippet_chars == world.card()["set"]["env"]["snippet_chars"]
    assert rules.max_turns == world.CHAINS["max_turns"]
