"""A knowledge graph of the facts that a text states: entities, relations, and where each stands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ...errors import TaskError
from ...kgs.build import Entity, from_triples
from ...kgs.graph import KnowledgeGraph
from ...storage.files import write_whole
from ...text import bare_title
from ...types import Passage
from .language import language
from .pages import Pages, TextFact, TextPage

ALIAS = "other_name"
"""Relation whose values are names of the page itself."""


class StatedFact(NamedTuple):
    """A fact, and the sentence that states it."""

    head: str
    relation: str
    tail: str
    literal: bool
    """True if the tail is a value (a date, a number), no entity."""
    passage: str
    sentence: str


class TextFacts(NamedTuple):
    """Facts of a text. Entities are its articles by their titles, and what they name."""

    name: str
    entities: Mapping[str, Entity]
    statements: tuple[StatedFact, ...]

    def graph(self) -> KnowledgeGraph:
        """The graph, to be given as ``corpus=``."""
        literals = {s.relation for s in self.statements if s.literal}
        triples = ((s.head, s.relation, s.tail) for s in self.statements)
        return from_triples(triples, name=self.name, entities=self.entities, literals=literals)

    def save(self, folder: str | Path) -> None:
        """Write ``triples.jsonl`` and ``entities.jsonl``, which ``corpus="kg:FOLDER"`` reads."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        entities = ({"id": key, **e._asdict()} for key, e in self.entities.items())
        for name, records in (
            ("triples", (statement._asdict() for statement in self.statements)),
            ("entities", ({k: v for k, v in e.items() if v} for e in entities)),
        ):
            lines = (json.dumps(record, ensure_ascii=False) for record in records)
            write_whole(Path(folder) / f"{name}.jsonl", "".join(f"{line}\n" for line in lines))


def read_facts(
    passages: Iterable[Passage],
    *,
    name: str = "text",
    descriptions: Mapping[str, str] | None = None,
    rules: str = "english",
) -> TextFacts:
    """Read the facts that sentences state of their page's subject.

    A value that names another page is that entity, if the page's type fits the relation and the two
    pages share a rare word; one that names a page which does not fit is left out. An entity's
    description is its article's text.

    Raises:
        TaskError: no sentence states a fact.
    """
    pages = Pages(passages, language(rules), descriptions)
    texts: dict[str, list[str]] = {}
    for page in pages.all:
        texts.setdefault(page.title, []).append(page.text)
    aliases = {title: [bare_title(title)] if bare_title(title) != title else [] for title in texts}
    statements: dict[tuple[str, str, str], StatedFact] = {}
    for page in pages.all:
        for fact in page.facts.values():
            if fact.relation == ALIAS:
                aliases[page.title] += fact.values
                continue
            literal = _is_literal(fact, pages)
            for value in fact.values:
                tail = value if literal else _entity(page, value, pages)
                if tail and tail != page.title:
                    key = page.title, pages.rules.relations[fact.relation].label, tail
                    sentence = page.sentences[fact.sentence]
                    statements.setdefault(key, StatedFact(*key, literal, page.id, sentence))
    if not statements:
        raise TaskError(f"{name}: no sentence of its pages states a fact that the rules know")
    entities = {
        title: Entity(title, " ".join(parts), tuple(dict.fromkeys(aliases[title])))
        for title, parts in texts.items()
    }
    return TextFacts(name, entities, tuple(statements.values()))


def _is_literal(fact: TextFact, pages: Pages) -> bool:
    relation = pages.rules.relations[fact.relation]
    named = relation.value or pages.rules.name.fullmatch(fact.value)
    return relation.time or relation.pattern is None or not named


def _entity(page: TextPage, value: str, pages: Pages) -> str:
    """Id of the entity that a value names: a page's title, or the value; "" if it names a page that
    may be another's namesake."""
    names = dict.fromkeys((value, value.removeprefix("the "), value.split(",")[0]))
    for name in names:
        if named := pages.by_name.get(name.lower()):
            fits = len(named) == 1 and named[0].name == named[0].title
            return named[0].title if fits and pages.related(page, named[0]) else ""
    return value.removeprefix("the ")
