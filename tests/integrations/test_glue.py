"""Programs of the page "Train with what you have" run as they stand there, with packages that the
tests install; those for other packages run in ``tests/peers``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from docsite.contents import peers
from tests.integrations.glue import LINES, PAGE, PROGRAMS, run_here
from tests.integrations.scene import chat_tokenizer
from tests.integrations.trl_runs import model

pytestmark = pytest.mark.contract

HERE = ["any_loop.py", "langchain_retriever.py", "pyterrier_transformer.py", "mcp_episode.py"]
ELSEWHERE = {
    "verl_files.py", "searchgym.toml", "openenv_client.py", "skyrl_env.py", "rllib_ppo.py",
    "searchgym_task.py", "llama_index_retriever.py",
}  # fmt: skip
WITH_MODEL = ["trl_tools.py", "trl_rollout.py", "sb3_ppo.py"]
SLOW = {"trl_rollout.py"}
"""Programs that do what ``test_trl`` does as well."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model with a chat template that knows tools."""
    made = tmp_path_factory.mktemp("model")
    words = chat_tokenizer()
    words.save_pretrained(made)
    model(words).save_pretrained(made)
    return made


def test_every_program_is_short_and_run_somewhere() -> None:
    assert set(PROGRAMS) == {*HERE, *ELSEWHERE, *WITH_MODEL}
    for program in PROGRAMS.values():
        assert len([line for line in program.splitlines() if line.strip()]) <= LINES


def test_every_framework_of_the_table_has_its_section() -> None:
    seen = peers()
    assert seen
    for name, row in seen.items():
        assert f"{{ #{name} }}" in PAGE
        assert row["versions"]


@pytest.fixture
def printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """``printed("any_loop.py")``: what a program prints that runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPS", "2")

    def run(name: str) -> str:
        run_here(name, tmp_path)
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", HERE)
def test_a_program_runs(name: str, printed: Callable[[str], str]) -> None:
    assert printed(name).strip()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in WITH_MODEL]
)
def test_a_program_trains(
    name: str, folder: Path, printed: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL", str(folder))
    # without bfloat16, which small processors emulate
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert 0 <= float(json.loads(printed(name).splitlines()[-1])) <= 1
