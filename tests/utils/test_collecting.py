"""Python's garbage collector waits while a corpus is made, and comes back afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from searchgym.envs import sources
from searchgym.envs.options import Options
from searchgym.errors import CardError
from searchgym.utils import collecting_later


@pytest.fixture(autouse=True)
def frozen_again() -> Iterator[None]:
    """What these tests unfreeze: the tests are faster if the collector leaves it alone."""
    before = gc.get_freeze_count()
    yield
    if before:
        gc.freeze()


@pytest.fixture(params=[True, False])
def collecting(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the collector was on before."""
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was else gc.disable)()


def test_the_collector_is_as_it_was(collecting: bool) -> None:
    with collecting_later():
        assert not gc.isenabled()
        with collecting_later(many=False):
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == collecting


def test_what_was_frozen_stays_frozen(collecting: bool) -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collecting_later():
        kept = [[i] for i in range(100)]
    assert gc.get_freeze_count() >= frozen - len(kept)
    gc.unfreeze()


def test_many_objects_are_old_at_once() -> None:
    gc.unfreeze()
    gc.enable()
    with collecting_later():
        kept = [[i] for i in range(100_000)]
    young = sum(len(gc.get_objects(generation)) for generation in (0, 1))
    assert young < len(kept) / 10


def test_a_corpus_is_made_without_it(collecting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def made(*given: Any) -> Any:
        seen.append(gc.isenabled())
        raise CardError("not made")

    monkeypatch.setattr(sources, "_generated", made)
    with pytest.raises(CardError, match="not made"):
        sources.load_components(Options.of({}))
    assert seen == [False]
    assert gc.isenabled() == collecting
