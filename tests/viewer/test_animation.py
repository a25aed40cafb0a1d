"""An episode as an animated SVG: whole, inert, still for who prefers that."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from docsite.animation import animated
from searchgym.errors import DataError
from searchgym.viewer.formats.searchgym import read
from searchgym.viewer.record import Record

from ..browser import browser, page
from .runs import branched, hostile

__all__ = ["browser", "page"]  # fixtures


def test_turns_come_one_after_the_other(page: Any, tmp_path: Path) -> None:
    record = read(branched()[0].to_json())
    (tmp_path / "e.svg").write_text(animated(record), encoding="utf-8")

    def seen() -> list[bool]:
        return page.evaluate(
            "[...document.querySelectorAll('.turn')].map(t => getComputedStyle(t).opacity > 0.99)"
        )

    def at(seconds: float) -> None:
        page.evaluate(
            "s => document.getAnimations().forEach(a => { a.pause(); a.currentTime = s * 1000 })",
            seconds,
        )

    page.goto((tmp_path / "e.svg").as_uri())
    found = []
    for moment in (0.0, 3.2, 5.4, 7.6):
        at(moment)
        found.append(seen())
    assert found == [[True] * 3, [True, False, False], [True, True, False], [True] * 3]
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate("document.getAnimations().length") == 0
    assert seen() == [True] * 3
    for number, turn in enumerate(record.turns):  # nothing leaves the picture
        box = page.locator(f".t{number}").bounding_box()
        assert box["x"] >= 0, turn
        assert box["x"] + box["width"] <= 860


def test_hostile_text_is_text() -> None:
    for made in branched():
        tree = ElementTree.fromstring(animated(read(hostile(made))))
        tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert tags <= {"svg", "title", "desc", "style", "rect", "text", "tspan", "g", "path"}
        names = {name for element in tree.iter() for name in element.attrib}
        assert not {name for name in names if name.startswith("on") or "href" in name}


def test_nothing_to_animate() -> None:
    with pytest.raises(DataError, match="no turn was played"):
        animated(Record("e", "Who?"))
