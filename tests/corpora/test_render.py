from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchgym.corpora.corpus import GeneratedCorpus
from searchgym.corpora.render import PageRenderer, page_url, render
from searchgym.errors import WorldError
from searchgym.worlds import (
    STYLES,
    World,
    format_value,
    generate,
    load_schema,
    shipped_worlds,
    world_digest,
)

DEFAULT = load_schema("encyclopedia")


def check_corpus(world: World, corpus: GeneratedCorpus) -> None:
    assert len(corpus) == world.n_entities
    assert len({p.title for p in corpus}) == len(corpus)
    assert len({p.url for p in corpus}) == len(corpus)
    assert [p.title for p in corpus] == list(world.titles)
    for index in range(world.n_facts):
        fact = world.fact(index)
        (statement,) = corpus.statements(index)
        assert statement.passage == corpus.page_of[fact.subject] == fact.subject
        passage = corpus[statement.passage]
        said = passage.text[statement.start : statement.end]
        p = world.prop(fact)
        if p.is_relation:
            assert said == world.names[fact.object]
        else:
            assert said in {format_value(p, fact.object, k) for k in range(STYLES)}
    for e in range(world.n_entities):
        text = corpus[e].text
        for alias in world.aliases(e):
            assert alias in text
        assert world.names[e] in text or any(a in text for a in world.aliases(e))
        assert text.endswith(".")
        assert not re.search(r"[{}\0\1]|  ", text), text
        assert not re.search(r"\b[Aa] [aeioAEIO]\w", text), text


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 10**9), st.integers(0, 10**9), st.sampled_from(["train", "heldout", "all"]),
    st.integers(0, 4), st.sampled_from(shipped_worlds()),
)  # fmt: skip
def test_every_fact_is_stated_where_the_span_says(
    seed: int, wording: int, phrasing: str, distractors: int, name: str
) -> None:
    world = generate(load_schema(name), entities=250, seed=seed, homonyms=0.1, lookalikes=0.1)
    corpus = render(
        world, wording_seed=wording, phrasing=phrasing, distractors=distractors  # type: ignore[arg-type]
    )  # fmt: skip
    check_corpus(world, corpus)


@pytest.fixture(scope="module")
def world() -> World:
    return generate(DEFAULT, entities=900, seed=1)


def test_wording_seed_changes_texts_only(world: World) -> None:
    before = world_digest(world)
    one, two = render(world), render(world, wording_seed=1)
    assert world_digest(world) == before
    assert [p.id for p in one] == [p.id for p in two]
    assert sum(a.text == b.text for a, b in zip(one, two, strict=True)) < 90
    assert one.digest == render(world).digest != two.digest


def test_ids_follow_the_entities(world: World) -> None:
    corpus = render(world, name="mine")
    assert corpus.name == "mine"
    assert corpus[123].id == "w1-000123"
    assert [p.id for p in corpus] == sorted(p.id for p in corpus)
    assert render(generate(DEFAULT, entities=16, seed=1 << 60))[3].id.endswith("-000003")


def test_heldout_wording_shares_no_sentence_frame_with_train(world: World) -> None:
    """Sentences with their objects cut out differ between the two sides."""

    def frames(corpus: GeneratedCorpus) -> set[str]:
        found = set()
        for e in range(0, len(corpus), 3):
            text = corpus[e].text
            for s in reversed(corpus.stated_in(e)):
                text = text[: s.start] + "*" + text[s.end :]
            text = text.replace(world.names[e], "@").replace(world.names[e].split()[-1], "@")
            found |= {s for s in text.split(". ") if "*" in s}
        return found

    train, heldout = frames(render(world)), frames(render(world, phrasing="heldout"))
    assert len(train) > 300
    assert not train & heldout


def test_subjects_are_named_in_several_ways(world: World) -> None:
    corpus = render(world)
    films = world.entities_of(DEFAULT.type_index("film")).tolist()
    texts = " ".join(corpus[e].text for e in films)
    assert texts.count(" It ") > 20
    assert texts.count("The film ") > 20
    people = world.entities_of(DEFAULT.type_index("person")).tolist()
    for e in people:
        words = set(re.findall(r"\b(?:he|his|she|her)\b", corpus[e].text.lower()))
        assert words <= ({"he", "his"} if world.facet_of[e] == 0 else {"she", "her"})


def test_distractors_add_sentences_and_state_nothing(world: World) -> None:
    plain, noisy = render(world), render(world, distractors=2)

    def sentences(corpus: GeneratedCorpus) -> int:
        return sum(p.text.count(". ") + 1 for p in corpus)

    assert sentences(noisy) == sentences(plain) + 2 * len(plain)
    for e in range(0, len(noisy), 11):
        assert f"confused with {world.names[e]}." not in noisy[e].text
        assert f"compared {world.names[e]} with {world.names[e]}." not in noisy[e].text
    for count in (-1, "x", True, 2.0, 101, 10**7):
        with pytest.raises(WorldError, match=f"page from 0 to 100, got {count!r}$"):
            render(world, distractors=count)  # type: ignore[arg-type]
    with pytest.raises(WorldError, match="unknown phrasing 'training'"):
        render(world, phrasing="training")  # type: ignore[arg-type]


def test_chunks_do_not_matter(world: World) -> None:
    renderer = PageRenderer(world, distractors=1)
    whole = renderer.chunk(0, 900)
    parts = [renderer.chunk(lo, min(900, lo + 37)) for lo in range(0, 900, 37)]
    assert [t for c in parts for t in c.texts] == whole.texts
    assert np.concatenate([c.start for c in parts]).tolist() == whole.start.tolist()


def test_urls_are_safe() -> None:
    assert page_url("Oldeth Marn") == "https://world.example/wiki/Oldeth_Marn"
    assert page_url("A & B's (film)") == "https://world.example/wiki/A_%26_B%27s_(film)"
    assert page_url("Zoë") == "https://world.example/wiki/Zo%C3%AB"
