"""Pages of text: the type of each, and the facts that its sentences state."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...text import bare_title, normalise_answer
from ...types import Passage
from .language import Language, Relation

OF_ANOTHER = re.compile(
    r"\b(?:of|to|for|from|on(?= [a-z\"]))\b(?:(?!,| and ).)*$"
    r"|\b(?:of|for|by|with|on) [^,]{1,60}, (?:an?|the) [^,]{1,60}$"
)
"""Before a statement that is made of something else: "the soundtrack of a film directed by …"."""
PERSONS, PLACE = frozenset({"person"}), frozenset({"place"})
LONGEST = 400
"""Characters of the longest sentence that is read: what a pattern costs stays bounded."""


@dataclass
class TextFact:
    """A value that a sentence states of the page's subject."""

    relation: str
    value: str
    sentence: int
    others: tuple[str, ...] = ()
    """Further values of a list."""
    wider: tuple[str, ...] = ()
    """Coarser places that the sentence names beside a place: right, too."""

    @property
    def values(self) -> tuple[str, ...]:
        return (self.value, *self.others)


@dataclass
class TextPage:
    """A passage, taken apart."""

    id: str
    title: str
    sentences: list[str]
    group: str = ""
    """person, work, place, org, other, or "" if unknown."""
    kind: str = ""
    noun: str = ""
    """Noun of its type: "novelist", "film"."""
    nation: str = ""
    predicate: str = ""
    about: int = -1
    ends: list[int] = field(default_factory=list)
    """Length of each sentence's subject if that is the page's own, else -1."""
    """Sentence that says what the page is about."""
    facts: dict[str, TextFact] = field(default_factory=dict)
    words: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return bare_title(self.title)

    @property
    def text(self) -> str:
        return " ".join(self.sentences)


def split_sentences(text: str, rules: Language) -> list[str]:
    """Sentences of a text; an abbreviation or an open parenthesis does not end one."""
    found: list[str] = []
    start, seen, depth = 0, 0, 0  # depth: parentheses that are open since the sentence began
    for end in re.finditer(r"[.!?][\"”]?\s+(?=[\"“(]?[A-Z0-9À-Þ])", text):
        depth += text.count("(", seen, end.end()) - text.count(")", seen, end.end())
        seen = end.end()
        short = rules.abbreviation.search(text[max(start, seen - 16) : seen].strip())
        if depth > 0 or (short and not text.startswith(rules.sentence, seen)):
            continue
        found.append(text[start:seen].strip())
        start, depth = seen, 0
    return [*found, last] if (last := text[start:].strip()) else found


def tidy(text: str) -> str:
    """A text without blanks before punctuation, as tokenised sets have them."""
    text = " ".join(text.split()).replace("( ", "(").replace('""', '"')
    return re.sub(r" ([,.;)])", r"\1", re.sub(r"(\w)\(", r"\1 (", text))


def subject_end(page: TextPage, place: int, rules: Language) -> int:
    """Length of a sentence's subject if it is the page's own, else -1."""
    sentence, name = page.sentences[place], page.name
    if sentence.startswith(rules.indefinite) and not name.startswith(rules.indefinite):
        return -1  # a kind of thing, of which no place or date can be asked
    for form in (name, *(f"{article} {name}" for article in rules.articles), f'"{name}"'):
        if sentence.startswith(form) and not sentence[len(form) : len(form) + 1].isalnum():
            owner = sentence[len(form) :].startswith(("'s", "’s"))
            return -1 if owner else len(form)
    if place == 0:
        found = rules.opening.match(sentence)
        common = {word for word in name.split() if word[0].islower() and len(word) > 3}
        words = set(_words(found[0])) if found else set()
        own = _words(name.split(",")[0])
        if len(own) > 2 and own[-1] not in words:
            return -1  # "Sinn Féin Front Bench": the sentence is about Sinn Féin
        return found.end() if found and set(_words(name)) & words and common <= words else -1
    pronouns = [p for p in rules.pronouns if (p in rules.persons) == (page.group == "person")]
    for opening in (*pronouns, *(f"{the}{page.noun}" for the in rules.definite if page.noun)):
        if opening and sentence.startswith(opening) and _ends_word(sentence, len(opening)):
            return -1 if rules.expletive.match(sentence) else len(opening)
    last = name.split()[-1]
    if page.group == "person" and sentence.startswith(last) and _ends_word(sentence, len(last)):
        return -1 if sentence[len(last) + 1 : len(last) + 2].isupper() else len(last)
    return -1


def _ends_word(sentence: str, end: int) -> bool:
    following = sentence[end : end + 1]
    return not following.isalnum() and following not in ("'", "’")


def _words(text: str) -> list[str]:
    return normalise_answer(text).split()


class Pages:
    """The pages of a corpus, by title and by the values of their facts.

    Args:
        passages: What is read. Passages of equal title are parts of one article.
        rules: The language's.
        descriptions: Passage id → what its page is about in a few words, where that is known.
    """

    def __init__(
        self,
        passages: Iterable[Passage],
        rules: Language,
        descriptions: Mapping[str, str] | None = None,
    ) -> None:
        self.rules, self.all = rules, []
        articles: dict[str, list[TextPage]] = defaultdict(list)
        for passage in passages:
            text = tidy(passage.text.removeprefix(passage.title + "\n"))
            page = TextPage(passage.id, passage.title, split_sentences(text, rules))
            self._classify(page, (descriptions or {}).get(passage.id, ""))
            self.all.append(page)
            articles[page.title].append(page)
        for parts in articles.values():
            self._share_type(parts)
            for page in parts:
                self._extract(page)
        self.by_name: dict[str, list[TextPage]] = defaultdict(list)
        for parts in articles.values():  # the part with most facts stands for an article
            best = max(parts, key=lambda page: (len(page.facts), page.about >= 0))
            self.by_name[best.name.lower()].append(best)
        for name, _, region in (page.title.partition(", ") for page in self.all):
            if region and (found := self.by_name.get(name.lower())):  # "Punjab, Pakistan"
                found += self.by_name[f"{name}, {region}".lower()]
        self._check_capitals()
        for page in self.all:
            page.facts = {name: f for name, f in page.facts.items() if self._fits(f)}
        self._stating: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for page in self.all:
            for fact in page.facts.values():
                for value in fact.values:
                    key = fact.relation, normalise_answer(value), page.noun
                    self._stating[key].add(page.title)
        self.usual = Counter(word for page in self.all for word in page.words)

    def only(self, name: str) -> TextPage | None:
        """The page of a name that no other page has."""
        found = self.by_name.get(name.lower(), ())
        return found[0] if len(found) == 1 else None

    def stating(self, page: TextPage, fact: TextFact) -> set[str]:
        """Titles of the pages of a page's type that state a fact's value."""
        return self._stating[fact.relation, normalise_answer(fact.value), page.noun]

    def _fits(self, fact: TextFact) -> bool:
        """Check that a value which is a page is of a group that the relation may name."""
        groups = self.rules.relations[fact.relation].value
        page = self.only(fact.value)
        return not groups or page is None or not page.group or page.group in groups

    def related(self, one: TextPage, other: TextPage) -> bool:
        """Check that two pages share a rare word beside the second's own name: a namesake of what
        the first page means seldom does."""
        shared = one.words & other.words - set(_words(other.name))
        return any(self.usual[word] <= max(6, len(self.all) // 50) for word in shared)

    # -- reading ---------------------------------------------------------------------------------
    def _classify(self, page: TextPage, description: str) -> None:
        rules = self.rules
        if rules.care["topics"].match(page.title):
            return
        page.words = frozenset(w for w in _words(page.text) if len(w) > 3)
        for place, sentence in enumerate(page.sentences):
            end = subject_end(page, place, rules)
            if end < 0 or len(sentence) > LONGEST or (place and page.name not in sentence[:end]):
                continue
            flat = re.sub(r"\([^()]*\)", "", sentence)
            found = rules.predicate.search(flat)
            if found and found.start() < len(page.name) + (12 if place else 90):
                page.about, page.predicate = place, found["predicate"].strip()
                self._type(page, rules.noun_phrase(page.predicate))
                break
        if not page.group and description:
            self._type(page, rules.noun_phrase(description))
        if page.sentences and page.group in ("", "person"):
            first = page.sentences[max(page.about, 0)][:160]
            if rules.lifetime.search(first) and subject_end(page, max(page.about, 0), rules) >= 0:
                page.group = page.kind = "person"

    def _type(self, page: TextPage, phrase: str) -> None:
        nation = self.rules.nation.match(re.sub(r"^\d{4} |^[\w ]+-born,? ", "", phrase))
        several = self.rules.care["two_nations"].search(phrase)  # "Roman–Jewish"
        page.nation = page.nation or (nation[0] if nation and not several else "")
        page.group, page.kind, page.noun = self.rules.group(phrase)

    @staticmethod
    def _share_type(parts: list[TextPage]) -> None:
        known = next((page for page in parts if page.about >= 0 and page.group), None)
        for page in parts if known else ():
            page.kind, page.group, page.noun = known.kind, known.group, known.noun  # type: ignore[union-attr]

    def _check_capitals(self) -> None:
        """A capital of what is no country among the pages is a city like others."""
        told = self.rules.phrases.get("capital")
        pattern = self.rules.expression(told["pattern"]) if told else None
        for page in self.all:
            if told and pattern and page.noun == told["noun"]:
                found = pattern.match(page.predicate)
                country = self.only(found[1]) if found else None
                if country is None or country.noun not in told["of"]:
                    page.noun = page.kind = told["else"]

    def _extract(self, page: TextPage) -> None:
        page.ends = [
            subject_end(page, place, self.rules) if len(sentence) <= LONGEST else -1
            for place, sentence in enumerate(page.sentences)
        ]
        for place, sentence in enumerate(page.sentences):  # "It" is what was spoken of before
            if place and page.group != "person" and sentence.startswith(self.rules.pronouns):
                page.ends[place] = page.ends[place] if page.ends[place - 1] >= 0 else -1
        for place, sentence in enumerate(page.sentences):
            if page.ends[place] < 0:
                continue
            rest = sentence[page.ends[place] :]
            for relation in self.rules.relations.values():
                if relation.pattern is None or relation.name in page.facts:
                    continue
                if not relation.of or {page.group, page.kind} & relation.of:
                    self._match(page, relation, place, rest)
        if page.about >= 0 and page.nation and "nationality" in self.rules.relations:
            if page.group in self.rules.relations["nationality"].of:
                nation = self.rules.nation
                named = nation.findall(self.rules.noun_phrase(page.predicate))
                others = tuple(name for name in dict.fromkeys(named) if name != page.nation)
                page.facts["nationality"] = TextFact("nationality", page.nation, page.about, others)
            self._occupation(page)

    def _occupation(self, page: TextPage) -> None:
        """Trades of a person, in the words of its page: the first is the value."""
        if page.group != "person":
            return
        rules, named = self.rules, list[str]()
        told = rules.nation.sub("", page.predicate, count=1).strip()
        for part in re.split(r",? and |, ", told):
            phrase = rules.noun_phrase(part)
            bare = rules.care["trade"].sub("", phrase + " ").strip()
            bare = re.sub(r"^(?:[A-Z]\w+ )+", "", bare)  # "Catholic priest"
            if named and rules.care["adjective"].search(bare):
                continue
            known = rules.group(bare)[0] == "person" and not (named and bare in rules.roles)
            other = named and bare not in rules.vague and not rules.ends.match(f" {part}")
            other = other and not rules.care["no_trade"].search(bare)
            if not bare.islower() or len(bare.split()) > 3 or not (known or other):
                break
            last = bare.split()[-1]
            named += [bare, last] if known and last in rules.groups else [bare]
            if phrase != part.strip():
                break  # the list has ended
        if named:
            others = tuple(dict.fromkeys(named[1:]))
            page.facts["occupation"] = TextFact("occupation", named[0], page.about, others)

    def _match(self, page: TextPage, relation: Relation, place: int, rest: str) -> None:
        rules = self.rules
        assert relation.pattern is not None
        found = relation.pattern.search(rest)
        if found is None or (relation.unless and relation.unless.search(page.text)):
            return
        group = next(i for i in range(1, relation.pattern.groups + 1) if found[i])
        value = found[group].strip(" ,")
        after = re.sub(r"^ ?\([^()]*\)", "", rest[found.end(group) :])
        if rest[: found.start()].endswith("-"):  # "co-written"
            return
        if not relation.time and (rules.date.search(value) or rules.month.search(value)):
            return  # "Prophet until his death in November 1836"
        if relation.name == "other_name" and re.match(r"[^.]{0,80}\b(?:or|later|simply)\b", after):
            return  # one of several
        where = relation.value == PLACE and relation.name != "capital_of"
        if where and ", " in page.name and "place" in relation.of:
            return  # "Casey County, Kentucky" tells it
        if relation.value == PLACE and not self._lies(page, value, rest[: found.start()]):
            return
        early = relation.name in ("birth_date", "death_date")  # within the first parenthesis
        if not early and rules.subordinate.search(rest[: found.start()]):
            return
        if relation.name == "place" and rules.care["clause"].search(found[0]):
            return
        if not early and OF_ANOTHER.search(re.sub(r"\([^()]*\)", "", rest[: found.start()])):
            return
        if relation.name == "birth_date" and found.start() > 80 and "born" not in found[0]:
            return
        alone = relation.time or where or relation.name == "other_name"
        if not (alone or not rules.care["fellow"].match(after)) or not self._whole(
            page, value, after
        ):
            return
        name = rules.name.pattern
        listed = re.match(rf'(?:,?(?:{rules.conjunction}|,)? "?{name}"?)*', after)
        others = tuple(rules.name.findall(listed[0])) if listed and relation.several else ()
        if relation.several and after.startswith(" as "):  # "stars A as B and C as D"
            others += tuple(re.findall(rf"(?:,| and) ({name}) as ", after[:LONGEST]))
        if relation.name == "other_name":
            said = rules.name.findall(rules.care["alias_end"].split(after, maxsplit=1)[0])
            told = rules.care["aliases"].finditer(page.sentences[place])
            said += [found[1] or found[2] for found in told]
            others = tuple(other for other in dict.fromkeys(said) if other != value)
        if relation.value == PERSONS:
            if " " not in value or rules.group(value)[0] == "place":
                return  # a first name: "Michael and Peter Spierig"; "formed by Fifth Avenue"
            value = re.sub(r"^(\S+ \S.*?) of .*", r"\1", value)
        more = rf",?(?:{rules.conjunction})? {name}|(?:{rules.conjunction}) {rules.own.pattern}"
        if not (relation.several or relation.time) and re.match(more, after):
            return  # one of several
        wider = self._wider(value, after) if where else ()
        if where and (beside := re.match(rf" \(({name}(?:, {name})*)\)", rest[found.end(group) :])):
            wider += tuple(beside[1].split(", "))
        if not (relation.several or relation.time or where):  # what other sentences state is right
            read = " ".join(s for s in page.sentences if len(s) <= LONGEST)
            stated = {next(filter(None, m.groups())) for m in relation.pattern.finditer(read)}
            others = tuple(
                v for v in sorted(stated) if not (v in value or value in v or rules.month.match(v))
            )
        page.facts[relation.name] = TextFact(relation.name, value, place, others, wider)

    def _lies(self, page: TextPage, value: str, before: str) -> bool:
        """Check that a place is where the page's subject is, not a part of it."""
        rules, care = self.rules, self.rules.care
        water = care["waters"].search(value) and not care["in_water"].fullmatch(page.noun)
        unplaced = care["compass"].fullmatch(value) or care["unplaced"].fullmatch(page.noun)
        return not (water or unplaced or care["part"].search(before) or rules.joined.search(value))

    def _wider(self, value: str, after: str) -> tuple[str, ...]:
        """Coarser places beside a place: "Tanzania" for "Arusha, Tanzania"."""
        care = self.rules.care
        phrase = care["wider_end"].split(after, maxsplit=1)[0]
        inner = care["inner"].findall(value)  # "the North Island of New Zealand"
        named = [*value.split(", ")[1:], *inner, *care["wider"].findall(phrase)]
        plain = [care["compass"].sub("", name) for name in (value, *named)]
        plain += [care["compass"].sub("", name) for name in plain]  # "Mainland Southeast Asia"
        return tuple(n for n in dict.fromkeys((*named, *plain)) if n and n != value)

    def _whole(self, page: TextPage, value: str, after: str) -> bool:
        """Check that a value is a name of its own and does not go on after where it was cut."""
        rules, own, bare = self.rules, normalise_answer(page.name), normalise_answer(value)
        joined = re.match(r"['’–-]\w|\"?['’]s\b| ?& ?[A-Z]|/\w| \d|: [A-Z]", after)
        goes_on = joined or (not value[-1].isdigit() and rules.cut.match(after))
        opener = value.split()[0] in rules.openers
        origin = rules.nation.match(value)  # "British-based DJ"
        based = origin and value[origin.end() :].startswith("-")
        known = rules.nation.fullmatch(value) or rules.month.fullmatch(value) or based
        return not (
            goes_on or opener or known or bare in own or own in bare or len(bare) < 3
            or len(value.split()) > 9 or value.count('"') % 2
        )  # fmt: skip
