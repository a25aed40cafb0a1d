"""Weights lie in memory on their way, if there is room."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from searchgym.errors import EngineError
from searchgym.llms import vllm_generator
from searchgym.llms.vllm_generator import place_for, size_of


def free(monkeypatch: pytest.MonkeyPatch, room: Mapping[str, int]) -> None:
    """Folders, by how they begin, have so many bytes left."""

    def usage(folder: str | Path) -> SimpleNamespace:
        return SimpleNamespace(free=next(n for f, n in room.items() if str(folder).startswith(f)))

    monkeypatch.setattr(shutil, "disk_usage", usage)


def test_a_place_with_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.mkdir()
    other.mkdir()
    monkeypatch.setattr(vllm_generator, "SHARED", str(shared))
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    free(monkeypatch, {str(shared): 100, str(other): 2**30})
    assert place_for(100) == str(shared)
    assert place_for(101) == str(other), "as in a container, whose /dev/shm is small"
    full = r"needs 2\.00 GiB: .*/shared has 0\.00 GiB free, .*/other has 1\.00"
    with pytest.raises(EngineError, match=full):
        place_for(2**31)
    shared.rmdir()
    assert place_for(1) == str(other), "not all systems have one"


def test_sizes() -> None:
    half = torch.zeros(3, dtype=torch.bfloat16)
    assert size_of({"a": torch.zeros(2, 5), "b": half}) == 46
