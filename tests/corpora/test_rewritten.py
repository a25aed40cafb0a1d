"""Pages that a writer words anew: kept where each fact is found again and nothing is added."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from searchgym.corpora import render
from searchgym.corpora.rewritten import rewritten
from searchgym.engines import build_engine
from searchgym.errors import WorldError
from searchgym.llms import Completion, GenRequest
from searchgym.tasks import build_tasks, verify
from searchgym.types import Failure
from searchgym.worlds import generate, load_schema

from .scripted import Scripted, turned

SCHEMA = load_schema("encyclopedia-v1")
WORLD = generate(SCHEMA, entities=400, seed=0)
PAGES = render(WORLD)


def test_facts_of_a_rewritten_page_stand_where_it_says() -> None:
    told = rewritten(PAGES, WORLD, Scripted())
    assert told.kept + told.refused.total() == len(PAGES)
    assert told.kept > 0.95 * len(PAGES)
    moved = 0
    for fact in range(WORLD.n_facts):
        (old,), (new,) = PAGES.statements(fact), told.corpus.statements(fact)
        before = PAGES[old.passage].text[old.start : old.end]
        assert told.corpus[new.passage].text[new.start : new.end] == before
        moved += old.start != new.start
    assert moved > WORLD.n_facts // 2
    counts = {"simple": 30, "chain-2": 30}
    tasks = build_tasks(WORLD, told.corpus, counts=counts, seed=0)
    proved = verify(tasks, WORLD, told.corpus, build_engine("bm25", told.corpus))
    assert len(proved.kept) > 30


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (lambda text: "", "says nothing else"),
        (lambda text: text, "says nothing else"),
        (lambda text: f"{text} {'And so on. ' * 1000}", "is far longer"),
        (lambda text: f"<search> {text} </search>", "has signs that are no prose"),
        (lambda text: text.replace(".", ".\n# More", 1), "has signs that are no prose"),
        (lambda text: "It is a place.", "lacks the page's name"),
        (lambda text: text.rsplit(" ", len(text.split()) // 2)[0] + ".", "lacks a fact"),
        (lambda text: f"{text} It closed in 1803.", "names what the page does not"),
        (lambda text: f"{text} It belongs to Xanthippe.", "names what the page does not"),
    ],
)
def test_a_page_that_says_less_or_more_is_refused(rule: Callable[[str], str], reason: str) -> None:
    told = rewritten(PAGES, WORLD, Scripted(rule))
    assert told.refused.most_common(1)[0][0] == reason
    assert told.refused[reason] > 0.6 * len(PAGES)
    assert [told.corpus[e].text == PAGES[e].text for e in range(400)].count(False) == told.kept


def test_nothing_but_facts_stands_in_a_new_sentence_with_a_fact() -> None:
    """The year of a detail is no year of the album's, though the page has both."""

    def moved(text: str) -> str:
        first, _, rest = text.partition(". ")
        years = re.findall(r"\b(?:1[89]|20)\d\d\b", rest)
        return f"{first}, not in {years[-1]}. {rest}" if years else text

    told = rewritten(PAGES, WORLD, Scripted(moved))
    assert told.refused["puts another name or number beside a fact"] > 30
    for fact in range(WORLD.n_facts):
        (new,) = told.corpus.statements(fact)
        text = told.corpus[new.passage].text
        if year := re.search(r", not in (\d+)\.", text):  # a fact's own
            facts = told.corpus.stated_in(new.passage)
            assert any(year[1] in text[s.start : s.end] for s in facts)


def test_two_facts_of_one_name_need_two_mentions() -> None:
    doubles: dict[str, str] = {}
    for page in PAGES:
        said = [page.text[s.start : s.end] for s in PAGES.stated_in(PAGES.position(page.id))]
        doubles.update((page.text, name) for name in said if said.count(name) > 1)
    assert doubles  # a director who plays in the film

    def once(text: str) -> str:
        name = doubles.get(text, "?")
        first, mention, rest = text.partition(name)
        return turned(first + mention + rest.replace(name, "the same one"))

    told = rewritten(PAGES, WORLD, Scripted(once))
    assert all(told.corpus[PAGES.position(p.id)] == p for p in PAGES if p.text in doubles)
    assert told.kept > 0.9 * (len(PAGES) - len(doubles))


def test_a_writer_that_fails_is_an_error() -> None:
    class Broken(Scripted):
        def run(self, batch: Sequence[GenRequest], /) -> list[Completion | Failure]:
            return [Failure("rejected", "no such model", retryable=False) for _ in batch]

    with pytest.raises(WorldError, match="no such model"):
        rewritten(PAGES, WORLD, Broken())
