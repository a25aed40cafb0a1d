"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("hypothesis") is not None:  # peers' environments do without
    from hypothesis import settings

    settings.register_profile("suite", max_examples=40, deadline=None)
    settings.load_profile("suite")

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if BESIDE.is_dir():  # the environments of real sets look where SEARCHGYM_DATA says
    os.environ.setdefault("SEARCHGYM_DATA", str(BESIDE))
# A process that may not keep what it compiles compiles every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.pop("COLUMNS", None)  # pytest's workers set it; the output tested is that of a pipe

LONG = (
    # slow contracts
    "candidate/test_quickstart", "rl/test_learning", "test_notebooks", "site/test_site",
    "cli/test_disk_full", "test_solvable", "test_packaging", "rl/test_as_shipped",
    "reader/test_run", "language_model/test_run", "integrations/test_glue", "reports/test_page",
    "candidate/test_trainer", "rl/test_async_rollouts", "engines/test_dense_forged",
    "rl/test_processes", "rl/test_trainer_resume", "evaluation/test_resume", "serve/test_process",
    "serve/test_attacks", "cli/test_measure", "knower/test_command", "cli/test_model_agents",
    "engines/test_bm25_real",
    # the behaviour of everything
    "engines/test_contract", "engines/test_on_disk", "test_contract", "cli/test_train_lm",
    "rewards/test_every_reward", "worlds/test_paraphrases", "llms/test_transformers_generator",
    "cli/test_simulator", "test_readme", "test_cards", "test_import", "viewer/test_watch",
    "test_plugins", "cli/test_main",
)  # fmt: skip
"""Files that take longest. They begin first, so that no worker is left with one alone when
the others have nothing more to do."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the garbage collector what collection makes: modules and tests, which all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of long files first; the order within a file stays."""
    places = {f"tests/{name}.py": i for i, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONG)))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of real sets: ``SEARCHGYM_DATA``, else ``../shared/data``; skips without it."""
    folder = Path(os.environ.get("SEARCHGYM_DATA", BESIDE))
    if not (folder / "hotpotqa" / "corpus.jsonl.gz").is_file():
        pytest.skip(f"needs the real sets: none in {folder} (set SEARCHGYM_DATA)")
    return folder
