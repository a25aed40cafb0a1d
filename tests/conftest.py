"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if BESIDE.is_dir():  # the environments of real sets look where SEARCHGYM_DATA says
    os.environ.setdefault("SEARCHGYM_DATA", str(BESIDE))
os.environ.pop("COLUMNS", None)  # pytest's workers set it; the output tested is that of a pipe


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of real sets: ``SEARCHGYM_DATA``, else ``../shared/data``; skips without it."""
    folder = Path(os.environ.get("SEARCHGYM_DATA", BESIDE))
    if not (folder / "hotpotqa" / "corpus.jsonl.gz").is_file():
        pytest.skip(f"needs the real sets: none in {folder} (set SEARCHGYM_DATA)")
    return folder
