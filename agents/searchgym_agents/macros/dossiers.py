"""Macro-actions of ReportQA: what to search, and which pieces of pages the sentences state.

A sentence is written in the question's own words: "the year Fello Prize was first handed over" and
a piece of a page become "The year Fello Prize was first handed over is 1912 [Fello Prize]."
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from searchgym.types import Answer, Passage, Search, TurnRequest
from searchgym.utils.english import fold

from .history import read_history
from .policy import Macro, Reading, Slot
from .reading import Found, pages, says, spans

_THE = re.compile(r"\bthe\s+(?=[a-z])")
_BETWEEN = re.compile(r"(?:, |,? and )(?=the [a-z])")
_OPEN = re.compile(r"\b(?:where|which|that|whom|whose|who)\s+$")
_NAME = re.compile(r"[A-Z0-9]\S*(?:.*\s[A-Z0-9]\S*)?")


class Part(NamedTuple):
    """Something that a report is asked for: "the city where the firm that made X is based" has an
    inner part, "the firm that made X", between two outer ones."""

    before: str
    inner: str = ""
    """"" where the part is about the topic itself."""
    after: str = ""

    def about(self, name: str) -> str:
        """The part with a name in the place of its inner one."""
        return f"{self.before}{name}{self.after}"


def parts_of(question: str) -> tuple[str, list[Part]]:
    """The topic of a question for a report, and the parts that it asks for."""
    asked = re.split(r"(?<=[.?]) (?=[A-Z])", " ".join(question.split()))[0].rstrip(".?")
    begin = _THE.search(asked)
    said = _BETWEEN.split(asked[begin.start() :]) if begin else [asked]
    said[-1] = re.sub(r",[^A-Z]*$", "", said[-1])
    names = Counter(re.sub(r"['’]s?$", "", m[0]) for t in said if (m := _NAME.search(t)))
    topic = names.most_common(1)[0][0] if names else ""
    parts = []
    for text in said:
        *_, last = (m.start() for m in _THE.finditer(text)) if topic else (0,)
        end = len(text)
        if _OPEN.search(text[:last]):  # "the city where the firm that made X is based"
            end = max(text.find(topic, last), last) + len(topic)
        parts.append(Part(text[:last], text[last:end], text[end:]) if last else Part(text))
    return topic, parts


def read_dossier(request: TurnRequest) -> Reading:
    """A decision while a report is prepared."""
    seen = read_history(request)
    topic, parts = parts_of(seen.question)
    shown = pages(seen)
    searched = [q for e in seen.of("search") if isinstance(e.action, Search)
                for q in e.action.queries]  # fmt: skip
    nested = [p for p in parts if p.inner and p.about(p.inner) not in searched]
    named = [q for q in searched if q != topic and not q.startswith("the ")]
    bridges = dict(zip(nested, named, strict=False))
    found = [page for page, _ in shown]
    ranks = {page.id: rank for page, rank in shown}
    features = ["always", f"topic {topic in searched}", f"left {min(request.turns_left, 3)}",
                f"bridges {len(nested) - len(bridges)}", f"searches {len(searched)}"]  # fmt: skip
    macros: list[Macro] = []

    def slot(name: str, asked: str, about: str) -> Slot:
        def own(page: Passage) -> list[float]:
            titled = fold(page.title) == fold(about)
            return [1.0, titled, not titled and says(page, about), 1 / (1 + ranks[page.id])]

        return spans(name, asked, found, own)

    if topic and topic not in searched:
        macros.append(Macro("search topic", Search((topic,))))
    if len(bridges) < len(nested) and found and request.turns_left > 1:
        part = nested[len(bridges)]
        macros.append(Macro(
            "search bridge", lambda f: Search((f.text if f else part.about(part.inner),)),
            lambda: [slot("bridge", part.inner, topic)],
        ))  # fmt: skip
    told = [part for part in parts if part in bridges or part not in nested]
    ends = [bridges.get(part, topic) for part in told]
    wanted = [p.about(bridges.get(p, p.inner)) for p in told]
    left = [text for text in wanted if text not in searched]
    if left and request.turns_left > 1:
        macros.append(Macro("search part", Search((left[0],))))
    if found:
        macros.append(Macro(
            "report", partial(_written, topic, told, bridges, found),
            lambda: [slot("value", *each) for each in zip(wanted, ends, strict=True)],
        ))  # fmt: skip
    return Reading(features, macros or [Macro("give up", Answer("nothing"))])


def _written(
    topic: str, parts: Sequence[Part], bridges: dict[Part, str], shown: Sequence[Passage],
    *values: Found | None,
) -> Answer:  # fmt: skip
    """The report: a sentence for each part that has a value, and for what leads to it."""
    sentences, said = [], set()
    for part, value in zip(parts, values, strict=True):
        if value is None:
            continue
        bridge = bridges.get(part)
        if bridge and bridge not in said and (page := _page(topic, bridge, shown)):
            said.add(bridge)
            sentences.append(f"{_capital(part.inner)} is {bridge} [{page.title}].")
        if value.text not in said:
            said.add(value.text)
            about = _capital(part.about(bridge or part.inner))
            sentences.append(f"{about} is {value.text} [{value.page.title}].")
    return Answer(" ".join(sentences) or "nothing")


def _page(topic: str, name: str, shown: Sequence[Passage]) -> Passage | None:
    """A page that speaks of both, the topic's own first."""
    both = [page for page in shown if says(page, topic) and says(page, name)]
    return min(both, key=lambda p: fold(p.title) != fold(topic), default=None)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
