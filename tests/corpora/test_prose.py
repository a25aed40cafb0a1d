"""Worlds in connected prose: names that no entity has, the same page in every chunk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from searchgym.corpora import render
from searchgym.corpora.prose import ProseRenderer
from searchgym.corpora.render_forms import Phrasing
from searchgym.errors import WorldError
from searchgym.worlds import generate, load_schema
from tests.worlds.shipped import world_from_card


@pytest.mark.parametrize("name", ["encyclopedia-v1", "research-v1"])
def test_details_name_nothing_of_the_world(name: str) -> None:
    world = world_from_card(name, entities=900, seed=1)
    known = {w for n in (*world.names, *world.alias_of) for w in re.findall(r"\w+", n)}
    pools = ProseRenderer(world)._names
    for slot in ("family", "place", "word", "given"):
        assert len(pools[slot]) > 500
        assert not known & set(pools[slot])


@pytest.mark.parametrize("name", ["encyclopedia-v1", "research-v1"])
def test_a_page_is_the_same_in_every_chunk(name: str) -> None:
    world = world_from_card(name, entities=300, seed=1)
    renderer = ProseRenderer(world, wording_seed=5, phrasing="heldout")
    assert renderer.chunk(10, 12).texts == renderer.chunk(0, 40).texts[10:12]


def test_a_grammar_that_cannot_end_or_misses_a_symbol_is_told(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text('extends = "research"\n', encoding="utf-8")
    (tmp_path / "prose.toml").write_text(
        '[prose]\nlab = ["{dale}"]\nlab_heldout = ["{x}"]\nx = ["{lab}"]\nx_heldout = ["b"]\n',
        encoding="utf-8",
    )
    with pytest.raises(WorldError, match=r"unknown symbol 'dale'.*never end: lab, x"):
        load_schema(tmp_path)


@pytest.mark.parametrize(
    ("inner", "told"),
    [
        (lambda n: f"{{z{n}}} and {{z{n}}}" if n < 30 else "word", "more than 5,000 characters"),
        (lambda n: f"{{z{n}}}" if n < 200 else "word", "more than 50 symbols in each other"),
        (lambda n: "{0.." + "9" * 5000 + "}", "unknown symbol '0..999"),
        (lambda n: "{9..1}", "the first number of {9..1} is the larger one"),
    ],
)
def test_a_grammar_of_any_author_writes_pages_of_a_size(
    tmp_path: Path, inner: Callable[[int], str], told: str
) -> None:
    prose = {}
    for n in range(200):
        prose |= {f"z{n}": [f"a{n} {inner(n + 1)}"], f"z{n}_heldout": [f"b{n} {inner(n + 1)}"]}
    (tmp_path / "schema.toml").write_text('extends = "research"\n', encoding="utf-8")
    lines = "\n".join(f"{name} = {json.dumps(texts)}" for name, texts in prose.items())
    (tmp_path / "prose.toml").write_text(f"[prose]\n{lines}\n", encoding="utf-8")
    with pytest.raises(WorldError) as caught:
        load_schema(tmp_path)
    assert told in str(caught.value)


def test_a_side_speaks_in_words_of_its_own() -> None:
    world = generate(load_schema("encyclopedia-v1"), entities=600, seed=0)
    train, heldout = (
        {re.sub(r"\W+", " ", s) for p in render(world, phrasing=side) for s in p.text.split(". ")}
        for side in ("train", "heldout")
    )
    assert len(train & heldout) < 0.02 * len(train)


@pytest.mark.parametrize("name", ["encyclopedia-v1", "research-v1"])
@pytest.mark.parametrize("side", ["train", "heldout"])
def test_pages_agree_in_number_and_article(name: str, side: Phrasing) -> None:
    world = generate(load_schema(name), entities=1500, seed=0)
    text = " ".join(page.text for page in render(world, phrasing=side))
    flaws = r"\b[Tt]hey was\b|\band and\b|\b[Aa]n [bcdfgjklmnpqrstvwz]|\b[Aa] [aeio]|buried soon"
    flaws += r"|\)'s\b|\b(?:He|She|It|They), wh|teenth month"
    assert not re.findall(flaws, text)
    spans = re.findall(r"\b(?:from|between) (\d{4}) (?:until|and) (\d{4})\b", text)
    assert all(1800 < int(a) < int(b) < 2026 for a, b in spans)


@pytest.mark.parametrize("name", ["encyclopedia-v1", "research-v1"])
def test_several_objects_take_no_verb_of_one(name: str) -> None:
    for p in load_schema(name).properties:
        if p.is_relation and p.cardinality.endswith("n"):
            said = (*p.document.train, *p.document.heldout)
            assert not [s for s in said if re.match(r"\{o\} \w+s ", s)], p.name
