"""Words for pages and facts in questions: what a page is called, and how its facts tell it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...text import normalise_answer
from .language import Language
from .pages import Pages, TextFact, TextPage

PLACES = frozenset({"birth_place", "death_place", "located", "place", "headquarters"})
"""Relations whose value may be "town, region, country": the town alone is right, too."""
WHERE = ("located", "place", "part_of")
"""Relations that tell where something lies, at any size."""
WIDE = frozenset(
    {"label", "network", "publisher", "located", "place", "part_of", "producer", "owner", "founded"}
)
"""Relations that do not tell what a page is: many others have the same value."""


class Descriptions:
    """Descriptions of the pages of a corpus.

    Args:
        pages: The corpus.
        rng: Draws forms and facts.
    """

    def __init__(self, pages: Pages, rng: np.random.Generator) -> None:
        self.pages, self.rng = pages, rng
        self.rules: Language = pages.rules

    def form(self, forms: Sequence[str], **values: str) -> str:
        """A form of a question with its blanks filled."""
        text = forms[int(self.rng.integers(len(forms)))].format(**values)
        text = re.sub(r"\bthe (\w+) (?=the |this )", "", text)
        return re.sub(r"\b(\w+) that is the \1\b", r"\1", text)

    def noun(self, page: TextPage) -> str:
        """Type of a page in one word: "film", "novelist", "person"."""
        if page.group == "person":
            told = page.noun in self.rules.groups and page.noun not in self.rules.roles
            return page.noun if told else "person"
        return page.noun or page.kind or "one"

    def subject(self, page: TextPage) -> str | None:
        """The page's name, told apart where several pages share it."""
        label = re.search(r"\(([^()]*)\)$", page.title)
        if label and (words := label[1].split()):  # somewhere there is another of that name
            group, kind = self.rules.groups.get(words[-1].lower(), ("", ""))
            known = group == (page.group or group) != "" and (group != "work" or kind == page.kind)
            told = self.rules.phrases["labelled"]
            return told.format(label=label[1], name=page.name) if known else None
        return self.name(page) if len(self.pages.by_name[page.name.lower()]) == 1 else None

    def name(self, page: TextPage) -> str:
        """The page's name as its first sentence has it: "the yak" for "Yak"."""
        article, first = self.rules.phrases.get("article", ""), "".join(page.sentences[:1])
        told = first[len(article) : len(article) + len(page.name)]
        begins = article and first.lower().startswith(article + page.name.lower())
        return article + told if begins else page.name

    def asking(self, fact: TextFact, page: TextPage, subject: str) -> str:
        """A question for a fact; one that ends in the subject where that is a clause, no
        possessive of a phrase, no day where a year is known and no year where a month is."""
        rules, forms = self.rules, self.rules.relations[fact.relation].ask
        other = rules.care["dated" if rules.year.fullmatch(fact.value) else "yearly"]
        forms = tuple(f for f in forms if not other.search(f)) or forms
        if subject != self.subject(page) and " " in subject:
            plain = tuple(f for f in forms if "{S}'s" not in f or subject.count(" ") == 1) or forms
            last = tuple(f for f in plain if f.endswith("{S}?"))
            forms = last if last and rules.care["clause"].search(subject) else plain
        question = self.form(forms, S=subject, k=self.noun(page))
        printed = rules.phrases.get("printed", {"kinds": ()})
        if page.kind in printed["kinds"]:
            question = question.replace(*printed["date"]).replace(*printed["verb"])
        return question

    def sentence(self, question: str) -> str:
        """A question as it is asked; of those that begin with a question word, one in eight as
        people type it."""
        question = re.sub(
            rf"\bon (?={self.rules.year.pattern}\b)", "in ", " ".join(question.split())
        )
        question = (question[0].upper() + question[1:]).replace(" ,", ",")
        typed = self.rng.random() < 0.12
        if typed and re.match(self.rules.phrases.get("asks", "(?!)"), question):
            return question.lower().strip("?. ")
        return question

    def answers(self, page: TextPage, fact: TextFact) -> tuple[str, ...]:
        """Accepted forms: the value, its town, the other members of a list, each of a page's
        names."""
        town = [fact.value.split(",")[0]] if fact.relation in PLACES and "," in fact.value else []
        own = [page.name] if fact.relation == "other_name" else []
        if fact.relation in WHERE:
            care = self.rules.care
            for at in sorted({max(page.about, 0), fact.sentence}):
                told = care["part"].split(page.sentences[at], maxsplit=1)[0]
                town += care["where"].findall(told)
            beside = [f for f in page.facts.values() if f.relation in (*WHERE, "capital_of")]
            town += [v for f in beside if f is not fact for v in (f.value, *f.wider)]
        if fact.relation == "nationality":
            own = [n for n, of in self.rules.parts.items() if of == fact.value and n in page.text]
            own += [self.rules.parts[n] for n in fact.values if n in self.rules.parts]
        told = dict.fromkeys((fact.value, *town, *fact.wider, *fact.others, *own))
        return tuple(dict.fromkeys((*told, *(self.short(value) for value in told))))

    def short(self, name: str) -> str:
        """A name without its rank, an award's without its field."""
        return self.rules.care["spare"].sub("", name)

    def same_nation(self, one: str, other: str) -> bool | None:
        """Return whether two nationalities are one; None where one may be part of the other."""
        akin = other in self.rules.akin("nations", one) or set(one.split()) & set(other.split())
        return True if one == other else None if akin else False

    def may_be(self, noun: str, page: TextPage) -> bool:
        """Return whether a page's text speaks of a trade or of one that is akin to it."""
        stems = {name[:5] for name in self.rules.akin("trades", noun)}
        told = f"{page.text} {page.noun}".lower()
        return bool(re.search(rf"\b(?:{'|'.join(sorted(stems))})", told))

    def article(self, phrase: str) -> str:
        vowel = re.match(r"[ai]|e(?!u)|o(?!ne\b)|u(?!ni[^nm]|s[ae])|hono|hour", phrase.lower())
        return ("an " if vowel else "a ") + phrase

    def fact(self, page: TextPage, told: bool = False) -> TextFact | None:
        """One of a page's facts; what every person has is drawn less often. Of who is ``told``
        by another page ("the director of …") neither occupation nor another name is asked."""
        facts = [
            fact
            for fact in page.facts.values()
            if not (told and fact.relation in ("occupation", "other_name"))
            and (fact.relation != "nationality" or page.group == "person")
        ]
        if not facts:
            return None
        drawn = facts[int(self.rng.integers(len(facts)))]
        if drawn.relation in ("nationality", "occupation") and self.rng.random() < 0.5:
            return facts[int(self.rng.integers(len(facts)))]
        return drawn

    def described(self, page: TextPage, without: TextFact | None = None, most: int = 2) -> str:
        """A page told by its type, year and one or two facts; "" if they do not single it out."""
        noun, year = self.noun(page), self._year(page)
        if noun in self.rules.vague or (page.group == "work" and not year):
            return ""
        if page.group == "person" and not page.nation:
            return ""
        facts = [f for f in page.facts.values() if self.rules.relations[f.relation].clause]
        facts = [f for f in facts if f is not without and f.relation not in ("year", "release")]
        chosen = [facts[i] for i in self.rng.permutation(len(facts))[:most]]
        if all(fact.relation in WIDE for fact in chosen):
            return ""
        values = {normalise_answer(fact.value) for fact in chosen}
        starts = {self.rules.relations[fact.relation].clause[0].split()[0] for fact in chosen}
        if len(starts) < len(chosen):
            return ""  # "founded by … and founded in …"
        if len(values) < len(chosen) or not any(self._stated_once(page, f) for f in chosen):
            return ""
        nation = f"{page.nation} " if page.nation else ""
        clauses = self._clauses(page, chosen)
        return f"{year}{nation}{noun} {clauses}" if clauses else ""

    def _year(self, page: TextPage) -> str:
        """The year of a work, "" if it is not stated."""
        fact = page.facts.get("year") or page.facts.get("release")
        year = year_of(fact, self.rules) if fact else None
        return f"{year} " if year else ""

    def _clauses(self, page: TextPage, facts: Sequence[TextFact]) -> str:
        """Clauses about one thing, all with a pronoun or all without; "" if there are no such."""
        forms = [self.rules.relations[fact.relation].clause for fact in facts]
        full = re.compile(self.rules.phrases["relative"]).match
        kinds = [{bool(full(form)) for form in each} for each in forms]
        shared = set.intersection(*kinds) if kinds else set()
        if shared:
            kind = max(shared) if self.rng.random() < 0.5 else min(shared)
            forms = [tuple(f for f in each if bool(full(f)) == kind) for each in forms]
        elif len(facts) > 1:
            return ""  # "founded in 1907 and that is the capital of …"
        told = [
            self.form(f, V=self._value(page, fact)) for f, fact in zip(forms, facts, strict=True)
        ]
        return " and ".join(told)

    def _value(self, page: TextPage, fact: TextFact) -> str:
        """A fact's value with the article that its sentence gives it."""
        the = self.rules.phrases.get("article", "")
        told = the and f" {the}{fact.value}" in page.sentences[fact.sentence]
        return f"{the}{fact.value}" if told else fact.value

    def _stated_once(self, page: TextPage, fact: TextFact) -> bool:
        return len(self.pages.stating(page, fact)) == 1


def year_of(fact: TextFact, rules: Language) -> int | None:
    """The last year that a fact's value names."""
    years = rules.year.findall(fact.value)
    return int(years[-1]) if years else None


def size_of(fact: TextFact, rules: Language) -> int | None:
    """A fact's year or number, for comparison."""
    if rules.relations[fact.relation].time:
        return year_of(fact, rules)
    digits = re.sub(r"\D", "", fact.value)
    return int(digits) * (10**6 if "million" in fact.value else 1) if digits else None
