"""Parts of a world: entity types, relations between them, attributes, and their wording.

A schema is data: ``schema.toml`` in a corpus card's folder, so users define their own world without
writing Python. ``load_schema`` validates it and names the line of thought to fix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Cardinality = Literal["1-1", "n-1", "1-n", "n-n"]
ValueKind = Literal["date", "year", "count", "category"]


@dataclass(frozen=True, slots=True)
class Phrases:
    """Ways of saying one thing. ``train`` and ``heldout`` are disjoint; ``heldout`` is used only
    by worlds that ask for it, so that unseen wording can be measured."""

    train: tuple[str, ...]
    heldout: tuple[str, ...]


Prose = tuple[tuple[str, Phrases], ...]
"""A grammar of details that nobody asks about: symbols and their alternatives, which hold other
symbols, numbers (``{3..40}``) and years in braces; see ``corpora.prose``."""


@dataclass(frozen=True, slots=True)
class EntityType:
    """A kind of thing. Wording: ``noun`` fills "Which {noun} …"."""

    name: str
    noun: str
    plural: str
    share: float
    """Fraction of the world's entities."""
    names: str
    """Name grammar, see ``worlds.names``."""
    lead: Phrases
    """First sentences of a page; ``{s}`` and attribute or relation names are filled in."""
    hub: bool = False
    """Hub types (countries, …) may appear on both sides of a train/test split."""
    facets: tuple[str, ...] = ()
    """Kinds within the type that relations may ask for ("male", "female"); equally likely."""
    pronouns: tuple[str, ...] = ("it/its",)
    """Subject and possessive pronoun, one per facet (or one for all)."""
    reference: str = ""
    """Name by which later sentences may call the entity ("the film"); "" uses the last word of its
    name."""
    alias: str = ""
    """Form in which a page states the other name that its grammar gives: "full" (the page begins
    with it) or a parenthesis such as "also known as {a}"."""


@dataclass(frozen=True, slots=True)
class Property:
    """Property that a fact states of its subject: a relation to an entity, or an attribute with a
    value.

    Wording uses ``{s}`` for the subject and ``{o}`` for the object or formatted value.
    """

    name: str
    source: str
    """Entity type of the subject."""
    target: str | None
    """Entity type of the object; ``None`` for attributes."""
    cardinality: Cardinality
    document: Phrases
    """Sentences of the subject's page that state the fact. At least 6 in all."""
    question: Phrases
    """Whole questions asking for the object given ``{s}``. At least 6 in all."""
    noun: Phrases
    """Noun phrases for the object given ``{s}``: "the founder of {s}"."""
    inverse: Phrases = Phrases((), ())
    """Noun phrases for the subject given ``{o}``: "the company founded by {o}" (relations, and
    attributes where it reads well)."""
    aside: Phrases = Phrases((), ())
    """Modifiers of the subject that state the fact: "born in {o}" (worlds with prose)."""
    tail: Phrases = Phrases((), ())
    """Ends of a sentence that state it: "with {o} in the leading role" (worlds with prose)."""
    acyclic: bool = False
    symmetric: bool = False
    presence: float = 1.0
    """Probability that an entity of the source type has this property at all."""
    value: ValueKind | None = None
    """Kind of an attribute's values."""
    low: int = 0
    high: int = 0
    """Range of an attribute's values: years for dates and years, numbers for counts."""
    unit: str = ""
    categories: tuple[str, ...] = ()
    more: str = ""
    """Comparative and superlative wording for attributes, e.g. "older|oldest"; "" if none."""
    less: str = ""
    target_facet: str = ""
    """Relations: the object must be of this facet of its type ("male" for fathers)."""
    gap: float = 0.0
    """Acyclic relations: least distance in the type's order between subject and object, as a
    fraction of the type's size (a parent is a generation older, not a day)."""
    ordered: bool = False
    """Attributes: values grow along the order that acyclic relations follow, so that a father is
    older than the child and a film later than what it is the sequel to."""
    after: str = ""
    """Dates and years: the value is that of this attribute plus ``low`` to ``high`` years."""
    latest: int = 0
    """Latest year, with ``after``: entities whose value would lie past it do not have the
    attribute."""
    within: str = ""
    """Relations: the object must have this relation to the subject (a capital lies in its
    country)."""
    of: str = ""
    """With ``within``: to this relation's object of the subject instead (a city's river flows
    through the country that the city is in)."""
    fits: tuple[str, ...] = ()
    """Relations: how far the object's attribute may lie after the subject's, or after the year
    ``now`` (years; numbers for counts): ``"birth_date: company_founded -75..-20"``. What either
    does not have it satisfies. Objects are looked up by the attribute that comes first."""
    follows: str = ""
    """Relations: a path that leads to the object, where it leads anywhere (``birthplace/
    located_in``); ``stray`` is the share of subjects that have another object."""
    stray: float = 0.0
    lacks: str = ""
    """Relations: the object must not have this relation to anything, where it does not follow."""
    apart: str = ""
    """Relations: two subjects so related do not share an object (spouses no parent)."""
    across: bool = False
    """Symmetric relations: between the two facets of the type."""
    near: int = 0
    """Symmetric relations: entities get places on a map and touch this many neighbours."""
    along: str = ""
    """Relations: the objects lie one beside the other by this relation; their number is one and one
    more for each so many of an attribute (``per = "river_length 250"``)."""
    per: str = ""
    elder: int = 0
    """With ``after``: entities whose first value lies this many years before now have the
    attribute in any case (nobody lives to 150)."""

    @property
    def is_relation(self) -> bool:
        return self.target is not None

    @property
    def functional(self) -> bool:
        """True if a subject has at most one object, so that "the X of S" is unique."""
        return not self.is_relation or self.cardinality in ("1-1", "n-1")


@dataclass(frozen=True, slots=True)
class Rule:
    """A relation that follows from stated ones and that no page states; see ``worlds.rules``."""

    name: str
    path: str
    """Steps, as a SPARQL property path without brackets: "father/^father|mother/^mother"."""
    question: Phrases
    noun: Phrases
    inverse: Phrases = Phrases((), ())
    least: str = ""
    """Attribute whose smallest value chooses among at least two ends; "" if none."""
    most: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    name: str
    types: tuple[EntityType, ...]
    properties: tuple[Property, ...]
    distractors: Phrases = Phrases((), ())
    """Sentences about ``{s}`` (and another entity ``{x}``) that state none of the properties."""
    rules: tuple[Rule, ...] = ()
    now: int = 0
    """Year in which the pages are written; 0 where nothing refers to it."""
    prose: Prose = ()
    """Grammar that connected pages are written with; without it a page is a sentence a property."""
    _types: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    _properties: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._types.update({t.name: i for i, t in enumerate(self.types)})
        self._properties.update({p.name: i for i, p in enumerate(self.properties)})

    def type_index(self, name: str) -> int:
        return self._types[name]

    def property_index(self, name: str) -> int:
        return self._properties[name]
