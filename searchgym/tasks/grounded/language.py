"""Rules of a language for questions made from text, read from a table such as ``english.toml``."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import TaskError, unknown


class Relation(NamedTuple):
    """A relation that sentences state of their subject, and how it is asked."""

    name: str
    of: frozenset[str]
    """Groups or kinds of pages that have it (person, work, film, place, …); empty: all."""
    value: frozenset[str]
    """Groups of pages that its value may name; empty: all."""
    several: bool
    """True if a sentence may list several values."""
    time: bool
    unless: re.Pattern[str] | None
    """Expression of pages that state it of several or of something else."""
    pattern: re.Pattern[str] | None
    """Expression after the subject, its first group the value; None: read off the page's type."""
    ask: tuple[str, ...]
    noun: tuple[str, ...]
    clause: tuple[str, ...]
    label: str
    """Its name in a knowledge graph."""


class Language:
    """A language's words, spans, relations and forms of questions.

    Args:
        table: The parsed table; see ``english.toml``.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        spans = table["spans"]
        self.families: tuple[str, ...] = tuple(table.get("families", ()))
        """Families of questions that the table has forms for; empty: all."""
        month, year = spans["months"], f"(?:{spans['year']})"
        day, of = r"\d{1,2}", spans.get("date_of", "")
        word = f"(?:{spans['initial']})"
        name = rf"(?:{word}(?: (?:(?:{spans['joins']}) )?{word})*(?:,? (?:Jr|Sr)\.)?)"
        nation = "(?:" + "|".join(sorted(spans["nations"], key=len, reverse=True)) + ")"
        parts = {
            "name": name,
            "place": rf"(?:(?:the )?{name}(?:, {name}){{0,2}})",
            "year": year,
            "word": spans["word"],
            "month": f"(?:{month})",
            "nation": rf"(?:{nation}(?:[ -]{nation})?\b(?!{spans.get('no_nation', '(?!)')}))",
            "date": (
                rf"(?:{day} {of}(?:{month}),? {of}\d{{4}}|(?:{month}) {day},? \d{{4}}"
                rf"|(?:{month}) {of}\d{{4}})"
            ),
        }
        self._parts = parts
        self.name, self.date, self.year, self.nation, self.month = (
            self.expression(f"<{part}>") for part in ("name", "date", "year", "nation", "month")
        )
        self.number = re.compile(r"\d[\d,]*\d(?: million)?")
        self.vague = frozenset(spans["vague"])
        self.roles = frozenset(spans.get("roles", ()))
        self.openers = frozenset(spans["openers"])
        self.sentence = tuple(f"{word} " for word in (*spans["articles"], *spans["pronouns"]))
        self.articles, self.pronouns = tuple(spans["articles"]), tuple(spans["pronouns"])
        self.persons = frozenset(spans["persons"])
        self.abbreviation = re.compile(rf"(?:\b[A-Z]|\b(?:{spans['abbreviations']}))\.$")
        self.phrases: Mapping[str, Any] = table["phrases"]
        verb = self.phrases["is"]
        self.predicate = re.compile(
            rf"(?<= )(?:{verb}) (?:{self.phrases['determiner']})(?P<predicate>[^.;]+)"
        )
        self.is_verb = re.compile(rf",? (?:{verb}) ")
        self.opening = re.compile(rf"\"?[^.,;]{{0,70}}?\"?(?=[ ,]*\(|,? (?:{verb}) )")
        self.indefinite, self.definite = tuple(spans["indefinite"]), tuple(spans["definite"])
        self.conjunction: str = spans["conjunction"]
        self.noun_first: bool = spans.get("noun_first", False)
        self.own = re.compile(self.phrases["own"])
        self.ends = re.compile(rf" (?:{self.phrases['ends']})\b|,|;|\(|$")
        self.subordinate = re.compile(rf"\b(?:{self.phrases['subordinate']})\b")
        self.cut = re.compile(rf" (?!(?:{self.phrases['follow']}|{self.phrases['ends']})\b)[a-z]")
        self.joined = re.compile(spans["joined"])
        self.expletive = re.compile(self.phrases["expletive"])
        self.lifetime = self.expression(rf"\([^()]*?(?:{self.phrases['lifetime']})")
        never = re.compile("(?!)")
        self.care = defaultdict(
            lambda: never, {k: self.expression(v) for k, v in table.get("care", {}).items()}
        )
        """Lists of what is refused or also right, by name; see ``[care]``. Without one, nothing."""
        alike = table.get("alike", {})
        self.parts: Mapping[str, str] = alike.get("parts", {})
        """Nationality → the one that it is a part of."""
        self.kin = {
            kind: [frozenset(each.split()) for each in alike.get(kind, ())]
            for kind in ("nations", "trades")
        }
        """Sets of nationalities and of trades of which one does not rule out another."""
        self.comparisons: Mapping[str, Mapping[str, list[str]]] = table["comparisons"]
        self.groups = {
            noun: (group, kind if group in ("work", "person") else noun)
            for group, kinds in table["nouns"].items()
            for kind, nouns in kinds.items()
            for noun in nouns
        }
        """Noun of a type → its group and kind."""
        self.relations = {
            name: Relation(
                name,
                frozenset(body.get("of", ())),
                frozenset(body.get("value", ())),
                body.get("several", False),
                body.get("time", False),
                self.expression(body["unless"]) if "unless" in body else None,
                self.expression(body["pattern"]) if "pattern" in body else None,
                tuple(body.get("ask", ())),
                tuple(body.get("noun", ())),
                tuple(body.get("clause", ())),
                body.get("label", name.replace("_", " ")),
            )
            for name, body in table["relations"].items()
        }

    def expression(self, pattern: str) -> re.Pattern[str]:
        """A pattern in which ``<name>``, ``<date>``, … stand for the language's own."""
        return re.compile(re.sub(r"<(\w+)>", lambda m: self._parts[m[1]], pattern))

    def akin(self, kind: str, name: str) -> frozenset[str]:
        """A nationality or a trade and those that it does not rule out."""
        return frozenset({name}).union(*(each for each in self.kin[kind] if name in each))

    def group(self, phrase: str) -> tuple[str, str, str]:
        """Group, kind and last noun of a noun phrase: ``("work", "film", "comedy")``; the first two
        are empty for a noun of no group."""
        if self.noun_first:
            noun = phrase.split()[0].lower() if phrase else ""
            return (*self.groups.get(noun, ("", "")), noun)
        last = phrase.split()[-1].lower() if phrase else ""
        if self.groups.get(last, ("",))[0] == "person":  # "film and television director"
            return "person", "person", last
        words = re.findall(r"[\w-]+", phrase.split(" and ")[0])
        if not words:
            return "", "", ""
        noun = words[-1].lower()
        for form in (" ".join(words[-2:]).lower(), noun, noun.removesuffix("s")):
            if form in self.groups:
                return (*self.groups[form], form if " " in form else noun)
        if len(words) > 1 and self.groups.get(words[-2].lower(), ("",))[0] == "person":
            return "person", "person", noun  # "director general", "film maker and writer"
        return "", "", noun

    def noun_phrase(self, predicate: str) -> str:
        """The start of a predicate up to its first preposition, clause or comma."""
        found = self.ends.search(" " + predicate, 1)
        return (" " + predicate)[: found.start() if found else None].strip()


@cache
def language(name: str = "english") -> Language:
    """The rules of a language; ``TaskError`` if there are none."""
    folder = Path(__file__).parent
    known = sorted(path.stem for path in folder.glob("*.toml"))
    if name not in known:
        raise TaskError(unknown("language of questions from text", name, known))
    return Language(tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8")))


def plural(noun: str) -> str:
    """The plural of an English noun by its ending."""
    if noun.endswith("man"):
        return noun[:-3] + "men"
    if noun.endswith("s"):
        return noun + "es" if noun.endswith("ss") else noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("ch", "sh", "x")) else "s")
