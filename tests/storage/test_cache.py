"""The user's cache: where it is, what it may hold, and how it is trimmed and cleared."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from searchgym.errors import DataError
from searchgym.storage import cache
from searchgym.storage.cache import KINDS, cache_folder, cache_root, clear, sizes, trim, used


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEARCHGYM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entry(folder: Path, name: str, size: int, age_s: float) -> Path:
    """A file of the cache that was last used ``age_s`` seconds ago."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_the_folder_is_the_variable_else_the_systems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    assert cache_root() == root
    monkeypatch.delenv("SEARCHGYM_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "searchgym"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path.home() / ".cache" / "searchgym"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_root().parts[-3:] == ("Library", "Caches", "searchgym")


def test_a_folder_is_made_for_the_user_alone(root: Path) -> None:
    folder = cache_folder("view")
    assert folder == root / "view"
    assert folder.stat().st_mode & 0o077 == 0
    with pytest.raises(DataError, match=r"unknown kind of cache 'viev'. Did you mean 'view'"):
        cache_folder("viev")


def test_what_was_used_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setitem(KINDS, "view", KINDS["view"]._replace(limit=250))
    folder = root / "view"
    oldest, middle = entry(folder, "a", 100, 9000), entry(folder, "b", 100, 8000)
    newest, fresh = entry(folder, "c", 100, 7000), entry(folder, "d", 100, 5)
    used(oldest)  # makes it the freshest
    os.utime(oldest, (time.time() - 1000,) * 2)
    assert trim("view") == 200
    assert [p.exists() for p in (oldest, middle, newest, fresh)] == [True, False, False, True]
    fresh.write_bytes(b"x" * 1000)
    cache_folder("view")  # trims by itself; what is in use stays, however large
    assert [p.exists() for p in (oldest, fresh)] == [False, True]


def test_an_entry_is_deleted_as_a_whole(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setitem(KINDS, "folders", KINDS["folders"]._replace(limit=150))
    monkeypatch.setitem(KINDS, "vectors", KINDS["vectors"]._replace(limit=150))
    for name in ("one/index", "one/data", "two/index", "two/data"):
        entry(root / "folders", name, 50, 9000 if "one" in name else 8000)
        entry(root / "vectors", name, 50, 9000 if name == "two/data" else 8000)
    for place in ("folders/one", "folders/two"):
        os.utime(root / place, (time.time() - 8500,) * 2)
    assert (trim("folders"), trim("vectors")) == (100, 50)
    assert sorted(p.name for p in (root / "folders").iterdir()) == ["two"]
    assert not (root / "vectors/two/data").exists()
    assert len(list((root / "vectors").glob("*/*"))) == 3


def test_downloads_are_never_trimmed_but_can_be_cleared(root: Path) -> None:
    for kind in KINDS:
        entry(root / kind, "x/y", 10, 9000)
    assert trim("data") == 0
    found = {row.kind: row for row in sizes()}
    assert set(found) == set(KINDS)
    assert {row.bytes for row in found.values()} == {10}
    assert {row.entries for row in found.values()} == {1}
    assert clear("data") == 10
    assert [row.kind for row in sizes() if not row.bytes] == ["data"]
    assert clear("data") == 0


def test_links_are_removed_and_not_followed(root: Path, tmp_path: Path) -> None:
    own = entry(tmp_path / "own", "letters", 10, 9000)
    cache_folder("view")
    (root / "view" / "link").symlink_to(own.parent)
    clear("view")
    assert own.exists()
    assert not (root / "view" / "link").is_symlink()


def test_a_cache_that_cannot_be_written_is_replaced_for_the_process(tmp_path: Path) -> None:
    """A file stands where the folder should be: refused for the superuser, too."""
    (tmp_path / "file").write_text("")
    code = (
        "from searchgym.storage.cache import cache_folder as f\n"
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    a, b = f('view'), f('view')\n"
        "(a / 'x').write_text('kept for this process')\n"
        "print(len(said), a == b, a.is_dir(), a)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, "SEARCHGYM_CACHE": str(tmp_path / "file" / "cache")},
    )  # fmt: skip
    count, same, was_there, folder = done.stdout.split()
    assert (count, same, was_there) == ("1", "True", "True")
    assert not Path(folder).exists()


def test_every_kind_says_what_it_is() -> None:
    for kind, row in KINDS.items():
        assert row.about, kind
        assert row.limit is None or row.limit >= 1 << 20
    assert cache.FRESH_S > 0
