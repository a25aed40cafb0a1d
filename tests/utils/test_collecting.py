"""Python's garbage collector waits while a corpus is made, and comes back afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from searchgym import utils
from searchgym.utils import collecting_later


@pytest.fixture(autouse=True)
def frozen_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What these tests unfreeze: the tests are faster if the collector leaves it alone."""
    monkeypatch.setattr(utils, "_others_freeze", False)
    before = gc.get_freeze_count()
    yield
    if before:
        gc.freeze()


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_it_was_and_what_was_frozen_stays(on: bool) -> None:
    was = gc.isenabled()
    (gc.enable if on else gc.disable)()
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collecting_later():
        assert not gc.isenabled()
        with collecting_later(many=False):
            kept = [[i] for i in range(100)]
        assert not gc.isenabled()
    assert gc.isenabled() == on
    assert gc.get_freeze_count() >= frozen - len(kept)
    assert utils._others_freeze == on  # it need not be counted again
    gc.unfreeze()
    (gc.enable if was else gc.disable)()


def test_many_objects_are_old_at_once() -> None:
    gc.unfreeze()
    gc.enable()
    with collecting_later():
        kept = [[i] for i in range(100_000)]
    young = sum(len(gc.get_objects(generation)) for generation in (0, 1))
    assert young < len(kept) / 10
