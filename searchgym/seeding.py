"""Keyed random streams, independent of the order of their use.

One integer names a world, a task set or an episode. Everything random derives from it through
*named* streams (TextWorld's per-stage seeds) or *keys* hashed from a path of names and numbers, so
that results do not depend on batching, process or ``PYTHONHASHSEED``. No global generator is used.
"""

from __future__ import annotations

import hashlib

import numpy as np

Part = int | str


def derive(seed: int, *path: Part) -> int:
    """A 63-bit integer fixed by ``seed`` and the path, e.g. ``derive(7, "wording", "questions")``.

    Numbers and strings are told apart (``1`` and ``"1"`` give different keys).
    """
    h = hashlib.blake2b(digest_size=8)
    h.update(repr((int(seed), *path)).encode())
    return int.from_bytes(h.digest(), "little") >> 1


def stream(seed: int, *path: Part) -> np.random.Generator:
    """An independent NumPy generator for one named purpose."""
    return np.random.Generator(np.random.PCG64(derive(seed, *path)))


def unit(key: int) -> float:
    """A number in [0, 1) from a key: one uniform draw without a generator."""
    return (key & ((1 << 53) - 1)) / float(1 << 53)
