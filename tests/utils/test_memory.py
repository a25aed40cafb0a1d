"""Holes between what stays go back to the system, and few kernels are kept."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from searchgym.utils.hardware import _glibc, give_back

pytestmark = pytest.mark.contract

HOLES = """
from searchgym.utils.hardware import give_back

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


GLIBC = pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="only glibc tells"
)


@GLIBC
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


KERNELS = """
import torch
from searchgym.utils.hardware import _glibc, keep_few_kernels

keep_few_kernels(8)
weight = torch.ones(1536, 576, dtype=torch.bfloat16)

def grown(lengths):
    before = _glibc().mallinfo2().uordblks
    for length in lengths:
        torch.nn.functional.linear(torch.ones(length, 576, dtype=torch.bfloat16), weight)
    return (_glibc().mallinfo2().uordblks - before) / 2**20

grown(range(1_000, 1_010))
print(grown(range(1_010, 1_040)))
"""


LIMITS = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")


def grown(**limits: str) -> float:
    """MiB that are still in use after products of 30 lengths, each asked for once."""
    environment = {name: value for name, value in os.environ.items() if name not in LIMITS}
    environment |= limits  # and not those that a model loaded in this process has set
    done = subprocess.run(
        [sys.executable, "-c", KERNELS], capture_output=True, text=True, check=True, env=environment
    )
    return float(done.stdout)


@GLIBC
def test_few_kernels_are_kept() -> None:
    kept = grown(**dict.fromkeys(LIMITS, "1024"))  # a user's own limits stay
    if kept < 1:
        pytest.skip("PyTorch does not multiply with oneDNN on this processor")
    assert kept > 8
    assert grown() < 1
