"""Tasks from any corpus: questions that rules make of its pages, each checked against the text.

A question is kept if its answer stands on its last page and not in the question, if a search finds
its first page and each further page by its name, if no single search finds both pages of a bridge,
and if no other passage among the first fifty states another value of what is asked.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, permutations
from typing import NamedTuple

from ...errors import TaskError, unknown
from ...seeding import derive, stream, unit
from ...text import normalise_answer
from ...types import ABSTAIN, Passage, Ranking, Split, Task
from .descriptions import WHERE
from .language import language
from .pages import Pages, TextPage
from .questions import Hop, Item, Mention, Questions
from .writer import Writer

FAMILIES = (
    "chain", "bridge_comparison", "intersection", "bridge", "comparison", "yes_no", "fact", "gap",
    "unanswerable",
)  # fmt: skip
"""Families in the order in which they are made: pages that few questions fit serve those first."""
SHARES: Mapping[str, float] = {"train": 0.7, "dev": 0.1, "test": 0.2}
"""Shares of pages in each split; a task's pages are all of its own split."""
FIRST, LOOKED_AT = 3, 50
"""Hits in which a gold page is found, and hits in which no rival may state another answer."""
MAKERS = frozenset({"director", "author", "writer", "performer", "composer", "founder"})

Search = Callable[[Sequence[str], int], Sequence[Ranking]]
"""Queries and a number of hits → their rankings."""


class GroundedTasks(NamedTuple):
    """Tasks made from a corpus, and what became of the others."""

    tasks: tuple[Task, ...]
    withheld: frozenset[str]
    """Passages that the unanswerable questions lack: they must be searched without them."""
    refused: Mapping[str, int]
    """Reason → number of drafts that were refused for it."""
    made: Mapping[str, int]
    """Family → number of tasks."""


def ground(
    passages: Iterable[Passage],
    counts: Mapping[str, int],
    search: Search,
    *,
    name: str = "text",
    seed: int = 0,
    split: Split = "train",
    at_most: bool = False,
    descriptions: Mapping[str, str] | None = None,
    per_page: int = 2,
    rules: str = "english",
    writer: Writer | None = None,
) -> GroundedTasks:
    """Make checked questions from passages.

    Args:
        passages: Any text; passages of equal title are parts of one article.
        counts: Family (:data:`FAMILIES`) → number of tasks.
        search: Finds passages, as ``engine.search`` does.
        name: Start of the tasks' ids.
        seed: Equal seeds give equal tasks. Which pages a split has depends on their titles alone.
        split: Pages that are asked about: those of "train", "dev" or "test".
        at_most: Take fewer tasks where there are not so many, instead of an error.
        descriptions: Passage id → what its page is about in a few words, where that is known.
        per_page: Most tasks that end on one page.
        rules: A language's: english, spanish or french.
        writer: Words the questions; those that fail the same checks or its round trip are left
            out.

    Raises:
        TaskError: an unknown family, a number that is not positive, or too few tasks.
    """
    spoken = language(rules)
    known = spoken.families or FAMILIES
    for family, number in counts.items():
        if family not in known:
            what = f"family of questions from text in {rules}"
            raise TaskError(unknown(what, str(family), known))
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not 0 <= number <= sys.maxsize
        ):
            raise TaskError(f"{family}: expected a number of tasks, got {number!r:.80}")
    if split not in SHARES:
        raise TaskError(unknown("split", split, SHARES))
    if not any(counts.values()):
        return GroundedTasks((), frozenset(), {}, {})
    pages = Pages(passages, spoken, descriptions)
    builder = _Builder(pages, search, split, seed, per_page, writer)
    kept: list[tuple[str, Item, tuple[str, ...]]] = []
    # Pages that are withheld serve no other question: those that need them are made last.
    for family in sorted(counts, key=FAMILIES.index):
        found = list(islice(builder.checked(family, counts[family]), counts[family]))
        if len(found) < counts[family] and not at_most:
            raise TaskError(
                f"{name}: {counts[family]} {family} questions were asked for and {len(found)} can "
                f"be made of its {split} pages ({builder.reasons()}); ask for fewer, or give "
                "at_most: true"
            )
        kept += [(family, *each) for each in found]
    order = stream(seed, "grounded", split, "order").permutation(len(kept))
    tasks = [
        _task(f"{name}-{split}-{number}", split, *kept[int(place)])
        for number, place in enumerate(order)
    ]
    withheld = frozenset(
        page.id
        for family, draft, _ in kept
        if family == "unanswerable"
        for page in pages.all
        if page.title == draft.pages[0].title
    )
    made = Counter(family for family, _, _ in kept)
    return GroundedTasks(tuple(tasks), withheld, dict(builder.refused), dict(made))


def split_of(title: str) -> str:
    """The split whose tasks may ask of pages of a title."""
    drawn, end = unit(derive(0, "split of a page", title)), 0.0
    for split, share in SHARES.items():
        end += share
        if drawn < end:
            return split
    return "test"


def _task(key: str, split: Split, family: str, draft: Item, queries: tuple[str, ...]) -> Task:
    meta = {"rule": draft.rule, "titles": [page.title for page in draft.pages]}
    if draft.asked:
        meta["relation"] = draft.asked
    if family == "unanswerable":
        meta["withheld_answers"] = list(draft.answers)
        return Task(
            key, draft.question, (ABSTAIN,), family=family, split=split, should_abstain=True,
            meta=meta,
        )  # fmt: skip
    hops = 2 if family == "bridge_comparison" else len(draft.pages)
    return Task(
        key, draft.question, draft.answers, tuple(page.id for page in draft.pages), queries,
        family, hops, split, meta=meta,
    )  # fmt: skip


def findable(tasks: Sequence[Task], search: Search) -> list[bool]:
    """For each task whether an engine, too, finds each page by its query, and a bridge's last page
    not by the question alone."""
    asked = [(task, q) for task in tasks for q in (task.question, *task.queries)]
    rankings = iter(search([q for _, q in asked], FIRST) if asked else ())
    found = []
    for task in tasks:
        alone, *each = (
            {h.passage.id for h in next(rankings)} for _ in range(1 + len(task.queries))
        )
        all_found = all(page in ids for page, ids in zip(task.evidence, each, strict=True))
        at_once = task.family in ("bridge", "chain") and task.evidence[-1] in alone
        found.append(all_found and not at_once)
    return found


NEEDED = (
    "Rules make questions of pages that say in whole sentences what their title is, with names, "
    "dates and places; titles divide the pages among splits, so a few dozen are needed"
)
"""Sentence on what a text must be."""


def told(refused: Mapping[str, int], most: int | None = None) -> str:
    """Say why drafts were left out, the commonest reason first."""
    counts = Counter(refused).most_common(most)
    return "; ".join(f"{n:,} times {reason}" for reason, n in counts) or "no page to ask about"


class _Builder:
    """Drafts of each family, and the checks that they pass."""

    BATCH = 128
    IDLE = 20
    """Batches without a task after which a family is exhausted."""

    def __init__(
        self, pages: Pages, search: Search, split: str, seed: int, per_page: int,
        writer: Writer | None = None,
    ) -> None:  # fmt: skip
        self.writer = writer
        self.pages, self.search, self.split, self.per_page = pages, search, split, per_page
        self.seed = seed
        self.rng = stream(seed, "grounded", split)
        self.questions = Questions(pages, self.rng)
        self.refused: Counter[str] = Counter()
        self.asked: set[str] = set()
        self.used: Counter[str] = Counter()
        self.gold: set[str] = set()
        """Titles of pages that a task needs."""
        self.by_id = {page.id: page for page in pages.all}
        self._links: list[Hop] | None = None

    def reasons(self) -> str:
        """The commonest reasons for which drafts were refused."""
        return told(self.refused, 3)

    # -- drafts ----------------------------------------------------------------------------------
    def own(self, page: TextPage) -> bool:
        """Check that a page is of the split."""
        return split_of(page.title) == self.split

    def links(self) -> list[Hop]:
        if self._links is None:
            found = self.questions.links()
            self._links = [link for link in found if self.own(link.page) and self.own(link.to)]
        return self._links

    def mentions(self) -> list[Mention]:
        return [m for m in self.questions.mentions() if self.own(m.page) and self.own(m.to)]

    def drafts(self, family: str) -> Iterator[Item | None]:
        """Drafts of a family without end; None where a place gives none. Nothing if there is no
        place at all."""
        ask = self.questions
        own = [page for page in self.pages.all if page.group and self.own(page)]
        stating = [page for page in own if page.facts]
        if family in ("fact", "unanswerable"):
            facts = self._each(stating, ask.of_fact)
            if family == "unanswerable":  # a description may fit a page that is not understood
                facts = (draft for draft in facts if draft is None or draft.rule != "title")
            yield from facts
        elif family == "gap":
            yield from self._each(own, ask.gap)
        elif family == "intersection":
            yield from self._each(
                [page for page in stating if len(page.facts) > 1], ask.intersection
            )
        elif family == "bridge":
            yield from _in_turn(
                self._each(self.links(), ask.bridge),
                self._each(self.mentions(), ask.bridge_from_text),
                self._each(self.links(), ask.bridge_to_name),
            )
        elif family == "chain":
            after: dict[str, list[Hop]] = defaultdict(list)
            for link in self.links():
                after[link.page.id].append(link)
            pairs = [(one, two) for one in self.links() for two in after[one.to.id]]
            told = [(one, two) for one in self.mentions() for two in after[one.to.id]]
            yield from _in_turn(
                self._each(pairs, lambda pair: ask.chain(*pair)),
                self._each(told, lambda pair: ask.bridge_from_text(*pair)),
            )
        elif family == "bridge_comparison":
            made = [
                link for link in self.links()
                if link.fact.relation in MAKERS and link.page.group == "work"
                and ("birth_date" in link.to.facts or link.to.nation)
            ]  # fmt: skip
            kinds = (
                lambda link: link.fact.relation,
                lambda link: link.fact.relation + link.to.nation,
            )
            yield from _in_turn(*(self._pairs(made, k, ask.bridge_comparison) for k in kinds))
        elif family == "comparison":
            yield from _in_turn(
                *(
                    self._pairs(
                        [page for page in stating if relation in page.facts],
                        lambda page: page.kind,
                        partial(ask.comparison, relation),
                    )
                    for relation in ask.rules.comparisons
                )
            )
        else:
            own = [page for page in own if page.group != "other"]
            alike = self._pairs(
                own, lambda page: f"{page.group} {page.nation or page.noun}", ask.yes_no
            )
            yield from _in_turn(self._pairs(own, lambda page: page.group, ask.yes_no), alike)

    def _each(self, places: Sequence, make: Callable) -> Iterator[Item | None]:
        while places:
            for place in self.rng.permutation(len(places)):
                yield make(places[place])

    def _pairs(self, places: Sequence, kind: Callable, make: Callable) -> Iterator[Item | None]:
        """Drafts about two places of one kind."""
        alike: dict[str, list] = defaultdict(list)
        for place in places:
            alike[kind(place)].append(place)
        places = [place for place in places if len(alike[kind(place)]) > 1]
        while places:
            for one in self.rng.permutation(len(places)):
                others = alike[kind(places[one])]
                other = others[int(self.rng.integers(len(others)))]
                yield make(places[one], other) if other is not places[one] else None

    # -- checks ----------------------------------------------------------------------------------
    def checked(self, family: str, wanted: int) -> Iterator[tuple[Item, tuple[str, ...]]]:
        """Drafts that pass, each with its gold queries."""
        tried, idle, kept = self.drafts(family), 0, 0
        phrases, said = self.questions.rules.phrases, Counter[tuple[str, str]]()
        other = dict(permutations([phrases.get("yes", ""), phrases.get("no", "")]))
        size = self.BATCH if self.writer is None else 16  # a writer's time is dear
        while wanted > kept and idle < self.IDLE and (batch := list(islice(tried, size))):
            before = len(self.asked)
            for draft, queries in self._checked(batch, family):
                bare = normalise_answer(draft.question)
                last = draft.pages[-1].title
                titles = sorted({page.title for page in draft.pages})
                same = " ".join((family, *titles, normalise_answer(draft.answers[0])))
                if same in self.asked:  # in other words
                    continue
                free = family != "unanswerable" or last not in self.gold
                answer = draft.answers[0]
                if said[draft.rule, answer] > said[draft.rule, other.get(answer, answer)]:
                    self.refused["the other answer's turn"] += 1  # as often "yes" as "no"
                    continue
                if free and bare not in self.asked and self.used[last] < self._most(family):
                    self.asked |= {bare, same}
                    self.used[last] += self.per_page if family == "unanswerable" else 1
                    self.gold |= {page.title for page in draft.pages}
                    said[draft.rule, answer] += 1
                    kept += 1
                    yield draft, queries
            idle = 0 if len(self.asked) > before else idle + 1

    def _checked(
        self, batch: Sequence[Item | None], family: str
    ) -> Iterator[tuple[Item, tuple[str, ...]]]:
        drafts = self._faultless(batch, family)
        if self.writer is None:
            yield from self._found(drafts, family)
            return
        drafts = self._faultless(self.writer.worded(drafts), family)
        found = list(self._found(drafts, family))
        sound = self.writer.sound([draft for draft, _ in found], self.refused)
        yield from (each for each, right in zip(found, sound, strict=True) if right)

    def _faultless(self, drafts: Sequence[Item | None], family: str) -> list[Item]:
        kept = []
        for draft in drafts:
            fault = (
                "no sentence of the page gives such a question"
                if draft is None
                else self._fault(draft, family)
            )
            if fault:
                self.refused[fault] += 1
            elif draft is not None:
                kept.append(draft)
        return kept

    def _most(self, family: str) -> int:
        return 1 if family == "unanswerable" else self.per_page

    def _fault(self, draft: Item, family: str) -> str:
        """Name the fault of a draft by its texts alone; "" if there is none."""
        question, answers = normalise_answer(draft.question), draft.answers
        bare = [normalise_answer(answer) for answer in answers]
        compared = family in ("comparison", "bridge_comparison", "yes_no")
        pages = draft.pages
        if not all(bare) or not question or question in self.asked:
            return "no answer, or asked before"
        if len(draft.question) > 320 or self.used[pages[-1].title] >= self._most(family):
            return "too long, or the page has enough questions"
        if len({page.title for page in pages}) < len(pages):
            return "twice the same page"
        if re.search(r"\b(\w+) \1\b", question):
            return "a word stands twice"
        if compared:
            return ""
        if any(f" {answer} " in f" {question} " for answer in bare):
            return "the answer is in the question"
        said = _stems(draft.question)
        told = any(len(w) > 3 and f" {w}" in f" {question}" for w in bare[0].split())
        told = told or (family == "gap" and bool(_stems(answers[0]) & said))
        if told and (answers[0].islower() or family == "gap"):
            return "a word of the answer is in the question"
        if bare[0] not in normalise_answer(f"{pages[-1].title} {pages[-1].text}"):
            return "the answer is not on the page"
        if len(pages) > 1:
            if f" {normalise_answer(pages[-1].name)} " in f" {question} ":
                return "the last page is named"
            if any((_stems(p.name) - _stems(f"{p.noun} {p.kind}")) & said for p in pages[1:]):
                return "a page is told by a word of its name"
            early = any(bare[0] in normalise_answer(page.text) for page in pages[:-1])
            if early and draft.rule not in ("name", "described"):
                return "the answer is on the first page, too"
        return ""

    def _found(self, drafts: Sequence[Item], family: str) -> Iterator[tuple[Item, tuple[str, ...]]]:
        names = [
            name
            for draft in drafts
            for page in draft.pages
            for name in (page.name, f"{page.name} {self.questions.noun(page)}")
        ]
        by_name = (
            (name, {hit.passage.id for hit in ranking})
            for name, ranking in zip(names, self.search(names, FIRST) if names else (), strict=True)
        )
        rankings = self.search([d.question for d in drafts], LOOKED_AT) if drafts else ()
        for draft, ranking in zip(drafts, rankings, strict=True):
            asked, shown = [], set[str]()  # shown: by a search for the first page's name
            for page in draft.pages:
                found = [next(by_name), next(by_name)]
                asked.append(next((name for name, ids in found if page.id in ids), ""))
                if page is draft.pages[0]:
                    shown = next((ids for name, ids in found if name == asked[0]), shown)
            first = {hit.passage.id for hit in ranking[:FIRST]}
            begins, ends = draft.pages[0].id in first, draft.pages[-1].id in first
            ends = ends or draft.pages[-1].id in shown
            asks_for_name = draft.rule in ("title", "described", "intersection")
            if not begins and (asks_for_name or family == "gap" or not asked[0]):
                self.refused["the first page is not found"] += 1
            elif not all(asked[1:]):
                self.refused["a page is not found by its name"] += 1
            elif family in ("bridge", "chain") and ends:
                self.refused["one search finds all"] += 1
            elif self._rival(draft, ranking, family == "unanswerable"):
                self.refused["another passage states an answer"] += 1
            else:
                yield draft, (draft.question if begins else asked[0], *asked[1:])

    def _rival(self, draft: Item, ranking: Ranking, any_value: bool) -> bool:
        """Check whether another passage states another value of the asked relation of the subject;
        with ``any_value``, whether one names the subject and the answer."""
        relation = self.pages.rules.relations.get(draft.asked)
        subject, own = draft.pages[-1].name, {page.title for page in draft.pages}
        known = [normalise_answer(answer) for answer in draft.answers]
        vague = (*WHERE, "headquarters", "occupation")  # told in many words, or in part
        if any_value:
            known += [y for answer in known for y in self.pages.rules.year.findall(answer)]
        for hit in ranking:
            page = self.by_id.get(hit.passage.id)
            if page is None or page.title in own:
                continue
            told = normalise_answer(page.text)
            tells = draft.asked in vague or any(each in told for each in known)
            if any_value and subject in page.text and tells:
                return True
            for sentence in page.sentences if relation and relation.pattern else ():
                _, name, rest = sentence.partition(subject)
                found = relation.pattern.search(rest[:200]) if name else None  # type: ignore[union-attr]
                if found is None or re.search(r"[.;]", rest[: found.start()]):
                    continue
                value = normalise_answer(next(group for group in found.groups() if group))
                if not any(value in answer or answer in value for answer in known):
                    return True
        return False


def _stems(text: str) -> set[str]:
    """The first five letters of each longer word of a text: "korea" of "South Korean"."""
    return {word[:5] for word in re.findall(r"\w{4,}", text.lower())}


def _in_turn(*kinds: Iterator[Item | None]) -> Iterator[Item | None]:
    """Items of several iterators in turn, until all have ended."""
    left = list(kinds)
    while left:
        for each in list(left):
            try:
                yield next(each)
            except StopIteration:
                left.remove(each)
