"""Forms of questions about pages: facts, gaps, bridges, chains, comparisons, intersections.

Each function returns a :class:`Item`, or None where the page gives no such question. What it
promises is checked in :mod:`searchgym.tasks.grounded.build`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...text import normalise_answer
from .descriptions import PLACES, WHERE, WIDE, Descriptions, size_of, year_of
from .language import plural
from .pages import TextFact, TextPage

LISTED = re.compile(r",(?: and| or)?(?: the)? [A-Z]")
"""After a name that is one of a list, in which nothing is asked for."""

GOES_ON = re.compile(
    r"['’]| [dl]['’][A-Z]|\. ?\d|\.\.| \d| [A-Z&]|, [A-Z]\w+[,–—]| (?:and|or) [A-Z\d]"
)
"""After a name that is a part of a longer one or of a list."""


class Item(NamedTuple):
    """A question that is not checked yet."""

    question: str
    answers: tuple[str, ...]
    pages: tuple[TextPage, ...]
    """Gold pages in the order in which they are needed."""
    rule: str
    asked: str = ""
    """Relation of the last page that is asked for, if it is one."""


class Hop(NamedTuple):
    """A fact of one page whose value is another page."""

    page: TextPage
    fact: TextFact
    to: TextPage


class Mention(NamedTuple):
    """The name of another page within a sentence about a page."""

    page: TextPage
    sentence: int
    to: TextPage
    start: int
    end: int


class Questions(Descriptions):
    """Questions about the pages of a corpus, asked in the words of :class:`Descriptions`."""

    # -- one page --------------------------------------------------------------------------------
    def of_fact(self, page: TextPage) -> Item | None:
        """Ask for a fact of a page, or for the page by its facts."""
        subject, fact = self.subject(page), self.fact(page)
        if not subject or fact is None:
            return None
        relation = self.rules.relations[fact.relation]
        if relation.clause and page.noun and self.rng.random() < 0.25:
            told = self.described(page)
            question = self.form(self.rules.phrases["title"], d=told)
            return Item(self.sentence(question), (page.name,), (page,), "title") if told else None
        question = self.asking(fact, page, subject)
        dated = relation.time and "year_of" in self.rules.phrases
        if dated and self.rules.date.search(fact.value) and self.rng.random() < 0.3:
            for opening in self.rules.phrases["when"]:
                if question.startswith(opening):
                    question = self.rules.phrases["year_of"] + question.removeprefix(opening)
                    year = str(year_of(fact, self.rules))
                    return Item(self.sentence(question), (year,), (page,), "year", fact.relation)
        answers = self.answers(page, fact)
        return Item(self.sentence(question), answers, (page,), "fact", fact.relation)

    def gap(self, page: TextPage) -> Item | None:
        """Ask for a name, date or number that a sentence about the page states."""
        subject = self.subject(page)
        for place in self.rng.permutation(len(page.sentences)) if subject else ():
            sentence = page.sentences[place]
            end = page.ends[place]
            if end < 0 or not 40 < len(sentence) < 260:
                continue
            body = re.sub(r" ?\([^()]*\)", "", sentence[end:])
            spans = self.spans(body, page)
            if not spans or self.rules.own.search(body[:25]):
                continue
            start, stop = spans[int(self.rng.integers(len(spans)))]
            own = self.name(page) if place == page.about else str(subject)  # it tells the type
            first = page.sentences[0].lower().startswith(self.name(page).lower())
            if page.group in ("", "other") and not first:
                continue  # "Adder" for "the species": a name or a noun?
            return self._gap(page, own, body, start, stop)
        return None

    def spans(self, body: str, page: TextPage) -> list[tuple[int, int]]:
        """Start and end of the names, dates and numbers of a sentence that can be asked for."""
        rules, own = self.rules, normalise_answer(page.name)
        kinds = "|".join(e.pattern for e in (rules.date, rules.year, rules.number, rules.name))
        quoted = [m.span() for m in re.finditer(r'"[^"]*"', body)]
        found = []
        for span in re.finditer(rf"(?<=[ \"(])(?:{kinds})(?=[ ,.;\")])", body):
            text, bare = span[0], normalise_answer(span[0])
            if text.split()[0] in rules.openers or bare in own or own in bare:
                continue
            if len(body[: span.start()].split()) < 2:
                continue  # the rest of the subject's name, "Frankfurt am Main"
            quoted_whole = body[span.start() - 1] == '"'
            if rules.joined.search(text) and not quoted_whole:
                continue
            if any(e.fullmatch(text) for e in (rules.nation, rules.month, rules.care["compass"])):
                continue
            if GOES_ON.match(body, span.end()):
                continue
            last = body[: span.start()].split()[-1]
            if rules.nation.match(text) or last in ("and", "or") or rules.month.fullmatch(last):
                continue
            dated = bare[:1].isdigit() and " " in text
            if not dated and rules.cut.match(body, span.end()):
                continue  # "the medieval Balkan states"
            part = re.split(r"[-'’]", last)[-1]  # "post-World ____", "the dell’Accademia ____"
            if last in ("a", "an") or (part[:1].isupper() and last[-1].isalnum()):
                continue  # "an ____ and statesman"; "Florida A&M ____"
            counted = last.isdigit() and not rules.year.fullmatch(last)  # "the Vale 12 ____"
            if text[0].isalpha() and (counted or re.fullmatch(r'"[A-Z].*"', last)):
                continue
            if rules.abbreviation.fullmatch(f"{text}."):
                continue
            if rules.care["most"].search(body[: span.start()]):
                continue  # "the largest city in ____"
            if re.match(r"[A-Z]+-[a-z]", text) or (
                " of " in text and re.search(r"\bin (?:the )?$", body[: span.start()])
            ):
                continue  # "WTA-ranking"; "the valley of East Africa": in East Africa, too
            if any(
                a < span.end() and span.start() < b and (a + 1, b - 1) != span.span()
                for a, b in quoted
            ):
                continue  # a part of a title
            found.append(span.span())
        return found

    def _gap(self, page: TextPage, subject: str, body: str, start: int, stop: int) -> Item | None:
        phrases, rules = self.rules.phrases, self.rules
        text, before, after = body[start:stop], body[:start], body[stop:].rstrip(" .")
        after = after.split(";")[0]
        if len(after) > 110 and (comma := re.compile(r",(?!\d)").search(after, 40)):
            after = after[: comma.start()]
        if len(text) < 2 or ";" in before or page.name in before + after:
            return None  # "Émile", taken apart; half a sentence; "better known as" the same
        blank = phrases["blank"]
        named = self.pages.only(text)
        if rules.date.fullmatch(text):
            asked = blank["date"] if re.search(r"\d .*\d", text) else ""
        elif rules.year.fullmatch(text):
            asked = blank["year"]
        elif rules.number.fullmatch(text):
            asked = "" if re.search(r"\b(?:from|to|in|until|since) $", before) else blank["number"]
        elif re.search(r"(?:\d|\bone|\btwo|\bthree|\bfour|\bfive|\bsix) $", before):
            asked = ""
        elif named and named.group:
            noun, bare = self.noun(named), re.sub(r"\b[Tt]he $", "", before)
            near = any(word.startswith(noun[:6]) for word in before.split()[-4:])  # "directed by"
            fits = re.search(phrases["before_page"], bare) and not near
            fits = fits and (" " in text or self.pages.related(page, named))
            fits = fits and (named.group != "work" or before.endswith('"'))  # an album of a band
            asked = blank["page"].format(k=noun) if fits else ""
        else:
            told = " " in text and rules.group(text)[0] in ("", "person")  # not "by Hebei Province"
            asked = blank["person"] if told and re.search(phrases["before_person"], before) else ""
        before = re.sub(rf"\b(?:{'|'.join(rules.definite)})$", "", before, flags=re.I)
        if not after and re.fullmatch(rf" ?(?:{phrases['is']})(?: an?)? ", before):
            return None  # "Navajo are an …"
        if not before.startswith((" ", ",")):
            before = " " + before
        care = ("compass", "landform", "prefixed", "formal")
        short = [rules.care[each].sub("", text) for each in care]
        short += [re.sub(r"^(\S+ \S.*?) of .*", r"\1", text)] if asked == blank["person"] else []
        initials = re.findall(rf"{re.escape(text)} \(([A-Z]{{2,6}})\)", page.text)
        answers = (text, *initials, *filter(None, short), self.short(text))  # "Ancient Greek"
        answers = tuple(dict.fromkeys(answers))
        on = rules.care["on"].fullmatch(asked) and before.endswith(" in ")
        clause = rules.care["clause_on"].search(f"{before}{phrases['gap']}{after}")
        if asked and not (on or clause or LISTED.match(after)) and self.rng.random() < 0.75:
            question = self.sentence(f"{subject}{before}{asked}{after}?")
            return Item(question, answers, (page,), "asked")
        if (before + after).count('"') % 2:
            return None
        cloze = phrases["missing"].format(text=f"{subject}{before}{phrases['gap']}{after}")
        return Item(self.sentence(cloze), answers, (page,), "missing")

    # -- several pages ---------------------------------------------------------------------------
    def links(self) -> list[Hop]:
        """All facts whose value is another page that fits the relation."""
        found = []
        for page in self.pages.all:
            for fact in page.facts.values():
                relation = self.rules.relations[fact.relation]
                if fact.others or (fact.wider and fact.relation in WHERE):
                    continue  # "the writer" of several, "the place" of any size
                for value in (fact.value,) if relation.noun else ():
                    names = [value, value.split(",")[0]] if fact.relation in PLACES else [value]
                    to = next(filter(None, map(self.pages.only, names)), None)
                    if to is None or to is page or not to.facts or to.name != to.title:
                        continue  # a title with a label has a namesake
                    if relation.value and to.group not in relation.value:
                        continue
                    if self.pages.related(page, to):
                        found.append(Hop(page, fact, to))
        return found

    def mentions(self) -> list[Mention]:
        """All names of other pages, of two words or more, within sentences about a page."""
        found = []
        for page in self.pages.all:
            for place, sentence in enumerate(page.sentences):
                end = page.ends[place]
                if end < 0 or len(sentence) > 260 or re.search(r"[.?!] [a-z]", sentence):
                    continue
                for name in self.rules.name.finditer(sentence, end):
                    to = self.pages.only(name[0]) if " " in name[0] else None
                    if not to or to is page or to.name != to.title or not (to.facts and to.group):
                        continue
                    if to.group == "work" and sentence[name.start() - 1] != '"':
                        continue  # "Buffalo Soldiers" may be soldiers
                    named = normalise_answer(to.name) in normalise_answer(page.name)
                    if not named and self.pages.related(page, to):
                        found.append(Mention(page, place, to, name.start(), name.end()))
        return found

    def _through(self, link: Hop, subject: str | None) -> str:
        """The linked page as the first one has it: "the director of Heat"."""
        forms, kind = self.rules.relations[link.fact.relation].noun, self.noun(link.to)
        if any(f" {kind} " in form for form in forms):  # "the director who directed"
            forms = tuple(form for form in forms if "{k}" not in form)
        if subject and link.page.group == "work" and self.rng.random() < 0.4:
            noun = self.noun(link.page)
            subject = subject if noun in subject else f"the {noun} {subject}"
        return self.form(forms, S=subject, k=kind) if subject and forms else ""

    def bridge(self, link: Hop) -> Item | None:
        """Ask for a fact of a page that is told by its relation to another."""
        through = self._through(link, self.subject(link.page))
        fact = self.fact(link.to, told=True)
        if not through or fact is None:
            return None
        question = self.asking(fact, link.to, through)
        return Item(
            self.sentence(question),
            self.answers(link.to, fact),
            (link.page, link.to),
            "relation",
            fact.relation,
        )

    def chain(self, link: Hop, after: Hop) -> Item | None:
        """Ask for a fact of the third page along two links."""
        fact = self.fact(after.to, told=True)
        through = self._through(link, self.subject(link.page))
        if not through or fact is None or after.to is link.page:
            return None
        if not (through := self._through(after, through)):
            return None
        question = self.asking(fact, after.to, through)
        pages = (link.page, link.to, after.to)
        return Item(
            self.sentence(question), self.answers(after.to, fact), pages, "chain", fact.relation
        )

    def bridge_from_text(self, mention: Mention, after: Hop | None = None) -> Item | None:
        """Repeat a sentence without a name in it, and ask for a fact of the page of that name, or
        of the page that follows it."""
        last = after.to if after else mention.to
        subject, fact = self.subject(mention.page), self.fact(last, told=True)
        if subject and mention.sentence == mention.page.about:  # it tells the type
            subject = self.name(mention.page)
        clause = self._without_name(mention, subject) if subject else ""
        if not clause or fact is None or last is mention.page:
            return None
        noun = self.noun(mention.to)
        told = f"this {noun}"
        if after and not (told := self._through(after, told)):
            return None
        ask = self.asking(fact, last, told)
        question = self.sentence(f"{clause}. {ask[0].upper()}{ask[1:]}")
        pages = (mention.page, mention.to, *((last,) if after else ()))
        rule = "chain" if after else "sentence"
        return Item(question, self.answers(last, fact), pages, rule, fact.relation)

    def _without_name(self, mention: Mention, subject: str) -> str:
        """A sentence about the page with "a singer" for the name; "" if that reads badly."""
        sentence, noun = mention.page.sentences[mention.sentence], self.noun(mention.to)
        end = mention.page.ends[mention.sentence]
        before = re.sub(r" ?\([^()]*\)", "", sentence[end : mention.start])
        before = re.sub(r"\b(?:the|an?) ?$", "", before)
        after = re.sub(r" ?\([^()]*\)", "", sentence[mention.end :]).rstrip(" .")
        if before.endswith('"') and after.startswith('"'):
            before, after = before[:-1], after[1:]
        if len(after) > 70 and (comma := re.compile(r",(?!\d)").search(after, 15, 80)):
            after = after[: comma.start()]
        if not re.search(self.rules.phrases["before_page"], before):
            return ""
        if before.rstrip().endswith((",", ", and")) or re.match(
            r",? (?:and|or|the) |, [A-Z]", after
        ):
            return ""  # one of a list reads as an apposition
        if len(before) + len(after) > 200 or re.match(r"['’\"–-]| [A-Z&]|, [A-Z]\w+,", after):
            return ""
        if (before + after).count('"') % 2 or self.rules.cut.match(after):
            return ""  # cut within a title; "the James Franco project"
        if self.rules.care["attaches"].match(after) or self.rules.care["fellows"].search(before):
            return ""  # "an actor about paramedics"; "kings Joe Frazier and an activist"
        if any(word.startswith(noun[:4]) for word in before.lower().split()[-3:]):
            return ""  # "directed by a director"
        clause = subject + (before if before.startswith((" ", ",")) else f" {before}").rstrip()
        return f"{clause} {self.article(noun)}{after}"

    def bridge_to_name(self, link: Hop) -> Item | None:
        """Ask for a page's name, told by its relation to another and by a fact of its own, or for
        the first page's, told by what the other is."""
        relation = self.rules.relations[link.fact.relation]
        if self.rng.random() < 0.5:
            through, told = (
                self._through(link, self.subject(link.page)),
                self.described(link.to, most=1),
            )
            if (
                not through
                or not told
                or normalise_answer(link.page.name) in normalise_answer(told)
            ):
                return None
            forms = self.rules.phrases["told"]
            a = self.article(told).split()[0]
            question = self.form(forms, np=through, d=told, a=a)
            return Item(self.sentence(question), (link.to.name,), (link.page, link.to), "name")
        told = self.described(link.to, most=1 + int(self.rng.random() < 0.4))
        if not told or not relation.clause or not self._stated_once(link.page, link.fact):
            return None
        clause = self.form(relation.clause, V=self.article(told))
        noun, year = self.noun(link.page), self._year(link.page)
        if noun in self.rules.vague or (link.page.group == "work" and not year):
            return None
        if link.fact.relation == "performer":
            return None  # one of many songs of a year
        told = (
            f"{year}{link.page.nation} {noun} {clause}"
            if link.page.nation
            else f"{year}{noun} {clause}"
        )
        question = self.form(self.rules.phrases["linked"], d=told)
        return Item(self.sentence(question), (link.page.name,), (link.to, link.page), "described")

    def intersection(self, page: TextPage) -> Item | None:
        """Ask for a page by two facts that only together single it out."""
        facts = [
            fact
            for fact in page.facts.values()
            if self.rules.relations[fact.relation].clause
            and not self.rules.relations[fact.relation].time
            and fact.relation not in WIDE
            and not self._stated_once(page, fact)
        ]
        told = self._year(page) if page.group == "work" else f"{page.nation} ".lstrip()
        if len(facts) < 2 or not told or self.noun(page) in self.rules.vague:
            return None
        one, two = (facts[i] for i in self.rng.permutation(len(facts))[:2])
        if normalise_answer(one.value) == normalise_answer(two.value):
            return None
        if self.pages.stating(page, one) & self.pages.stating(page, two) != {page.title}:
            return None
        if not (both := self._clauses(page, (one, two))):
            return None
        question = self.form(self.rules.phrases["both"], k=told + self.noun(page), both=both)
        return Item(self.sentence(question), (page.name,), (page,), "intersection")

    # -- comparisons -----------------------------------------------------------------------------
    def comparison(self, relation: str, one: TextPage, other: TextPage) -> Item | None:
        """Ask which of two pages is first, later, smaller or larger."""
        a, b = self.subject(one), self.subject(other)
        sizes = [size_of(page.facts[relation], self.rules) for page in (one, other)]
        if not a or not b or None in sizes or sizes[0] == sizes[1]:
            return None
        first = self.rng.random() < 0.6
        forms = self.rules.comparisons[relation]["first" if first else "later"]
        noun = self.noun(one) if self.noun(one) == self.noun(other) else one.kind
        question = self.form(forms, A=a, B=b, k=noun)
        won = one if (sizes[0] < sizes[1]) == first else other  # type: ignore[operator]
        asked = a if won is one else b
        return Item(
            self.sentence(question), tuple(dict.fromkeys((won.name, asked))), (one, other), relation
        )

    def bridge_comparison(self, one: Hop, other: Hop) -> Item | None:
        """Ask which of two works has the older or younger maker, or whether both are of one
        nationality."""
        a, b = self.subject(one.page), self.subject(other.page)
        apart = one.page is not other.page and one.to is not other.to
        if not a or not b or not apart:
            return None
        pages, nations = (one.page, other.page, one.to, other.to), (one.to.nation, other.to.nation)
        if all(nations) and self.rng.random() < 0.5:
            if (same := self.same_nation(*nations)) is None:
                return None
            forms = self.rules.phrases["makers_nation"]
            question = self.form(forms, A=a, B=b, r=one.fact.relation, rs=plural(one.fact.relation))
            answer = self.rules.phrases["yes" if same else "no"]
            return Item(self.sentence(question), (answer,), pages, "same")
        dates = [link.to.facts.get("birth_date") for link in (one, other)]
        years = [year_of(date, self.rules) if date else None for date in dates]
        if None in years or years[0] == years[1]:
            return None
        first = self.rng.random() < 0.6
        forms = self.rules.phrases["maker_first" if first else "maker_later"]
        noun = self.noun(one.page) if self.noun(one.page) == self.noun(other.page) else "work"
        question = self.form(forms, A=a, B=b, k=noun, r=one.fact.relation)
        won = one.page if (years[0] < years[1]) == first else other.page  # type: ignore[operator]
        return Item(self.sentence(question), (won.name,), pages, "maker")

    def yes_no(self, one: TextPage, other: TextPage) -> Item | None:
        """Ask whether two pages share their nationality or their type."""
        a, b, phrases = self.subject(one), self.subject(other), self.rules.phrases
        if not a or not b:
            return None
        several = any(
            p.facts["nationality"].others for p in (one, other) if "nationality" in p.facts
        )
        national = one.nation and other.nation and not several and one.group in ("person", "work")
        if national and one.kind == other.kind and self.rng.random() < 0.6:
            if (same := self.same_nation(one.nation, other.nation)) is None:
                return None
            forms = phrases["both_nation" if self.rng.random() < 0.4 else "same_nation"]
            rule, question = "same", self.form(forms, A=a, B=b, v=one.nation)
        elif {
            one.noun,
            other.noun,
        } <= self.rules.groups.keys() - self.rules.vague - self.rules.roles:
            if any(one.noun in named.lower().split() for named in (a, b)):
                return None
            same = one.noun == other.noun
            alike = one.group == other.group != "person"  # a city may be a municipality, too
            if min(one.about, other.about) < 0 or (
                not same and (alike or self.may_be(one.noun, other))
            ):
                return None
            rule, question = "kind", self.form(phrases["both_kind"], A=a, B=b, ks=plural(one.noun))
        else:
            return None
        return Item(
            self.sentence(question), (phrases["yes" if same else "no"],), (one, other), rule
        )
