"""Programs of the page "Train with what you have" run as they stand there, with packages that the
tests install; those for other packages run in ``tests/peers``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from searchgym.site.contents import peers
from tests.integrations.glue import LINES, PAGE, PROGRAMS, run
from tests.integrations.scene import chat_tokenizer
from tests.integrations.test_trl import model

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


@pytest.mark.parametrize("name", HERE)
def test_a_program_runs(name: str, tmp_path: Path) -> None:
    assert run(name, tmp_path).strip()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in WITH_MODEL]
)
def test_a_program_trains(name: str, tmp_path: Path, folder: Path) -> None:
    # without bfloat16, which small processors emulate
    printed = run(name, tmp_path, MODEL=str(folder), ACCELERATE_MIXED_PRECISION="no")
    assert 0 <= float(json.loads(printed.splitlines()[-1])) <= 1
