"""Holes between what stays go back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from searchgym.utils.memory import _glibc, give_back

HOLES = """
from searchgym.utils.memory import give_back

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

blocks = [bytes([1]) * 65_536 for _ in range(6_000)]
full = resident()
kept = blocks[::10]
del blocks
before = resident()
assert not give_back(least=1 << 40)
assert give_back(least=1 << 20)
print(full - before, before - resident())
assert all(block == bytes([1]) * 65_536 for block in kept)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="only glibc gives back"
)
def test_holes_are_given_back() -> None:
    assert _glibc() is not None
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    freed, given = map(float, done.stdout.split())
    assert freed < 50, "of 375 MiB, most of them free: holes stay"
    assert given > 250


def test_nothing_happens_where_the_c_library_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        def __init__(self, name: None) -> None:
            raise TypeError("no library is called None")

    monkeypatch.setattr("ctypes.CDLL", Other)
    _glibc.cache_clear()
    try:
        assert not give_back(least=0)
    finally:
        _glibc.cache_clear()
