"""Worlds of version 0 are, byte for byte, what they were when version 1 came."""

from __future__ import annotations

import hashlib

import pytest

from searchgym.corpora import render
from searchgym.worlds.export import world_digest

from .shipped import world_from_card

V0 = {
    ("encyclopedia", 0): ("0b0cc3afff2c1a20", "10222e085bc9ac94"),
    ("encyclopedia", 7): ("736a21678bdd9a41", "d59c50e8198db80c"),
    ("research", 0): ("48d7e76fa500724a", "c6cd387560994c2d"),
    ("research", 7): ("50a832be1de2c7a1", "d093b971dae2cd4d"),
}


@pytest.mark.parametrize(("name", "seed"), V0)
def test_worlds_and_pages_of_version_0_stay(name: str, seed: int) -> None:
    world = world_from_card(name, entities=1200, seed=seed)
    pages = hashlib.sha256()
    for phrasing in ("train", "heldout"):
        for passage in render(world, phrasing=phrasing):
            pages.update(f"{passage.title}\n{passage.text}\n".encode())
    assert (world_digest(world), pages.hexdigest()[:16]) == V0[name, seed]
