"""Macro-actions of ComputedQA: what to search, which numbers and dates of the pages to work with,
and by which template of Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from searchgym.text import bare_title
from searchgym.types import Answer, Call, Passage, Search, TurnRequest
from searchgym.utils.english import STOP, fold

from ..candidate.question import Question, read_question
from ..candidate.spans import analyse
from .history import History, read_history
from .policy import Macro, Reading, Slot
from .reading import NUMERIC, Found, builder, pages, spans

MOST = 8
"""Members of a list that are searched."""
TEMPLATES = {
    "days": "from datetime import date\nprint(abs(({a}) - ({b})).days)",
    "percent of second": "print(round(100 * {a} / {b}))",
    "percent of first": "print(round(100 * {b} / {a}))",
    "percent of larger": "print(round(100 * min({a}, {b}) / max({a}, {b})))",
    "difference": "print(abs({a} - {b}))",
    "sum": "print({a} + {b})",
}
"""Python over two values, by kind of macro-action."""


def read_sums(request: TurnRequest) -> Reading:
    """A decision while something is worked out."""
    seen = read_history(request)
    read = read_question(seen.question)
    names = _names(read)
    searched = [q for e in seen.of("search") if isinstance(e.action, Search)
                for q in e.action.queries]  # fmt: skip
    titled = {fold(bare_title(page.title)): page for page, _ in pages(seen)}
    found = [page for name in names if (page := _of(name, titled))]
    lists = _lists(seen.question, found[0]) if found else None
    members = next((names for names in (lists.options if lists else ())
                    if searched and searched[-1] in names), ())  # fmt: skip
    rest = [name for name in members if name not in searched]
    worked = [e for e in seen.of("python") if _printed(e.text)]
    told = {read.words.stem[i] for i, inside in enumerate(read.in_mention)
            if not inside and read.words.lower[i] not in STOP}  # fmt: skip
    features = [
        "always", f"names {len(names)}", f"found {len(found)}", f"worked {bool(worked)}",
        f"members {bool(members)}", f"rest {bool(rest)}",
        *(f"says {stem}" for stem in sorted(told)),
    ]  # fmt: skip
    macros = [Macro("search name", Search((n,))) for n in names if n not in searched][:1]
    if lists and not members and len(searched) >= len(names):
        macros.append(Macro("search list", lambda names: Search((names[0],)), lambda: [lists]))
    if rest and request.turns_left > 3:
        macros.append(Macro("search rest", Search((rest[0],))))
    if worked:
        macros.append(Macro("answer", Answer(_printed(worked[-1].text))))
    if len(found) > 1 and not worked:
        for kind, code in TEMPLATES.items():
            macros.append(Macro(kind, partial(_run, code), partial(_slots, seen, found[:2], kind)))
    if members and not worked:
        shown = [titled[fold(name)] for name in members if fold(name) in titled]
        if len(shown) > 1:
            values = partial(_slots, seen, shown, "mean")
            macros += [Macro("mean", _mean, values), Macro("total", _total, values)]
    return Reading(features, macros or [Macro("give up", Answer("unknown"))])


def _slots(seen: History, found: Sequence[Passage], kind: str) -> list[Slot]:
    """A slot of dates or numbers for each page."""
    kinds = frozenset(("date",)) if kind == "days" else NUMERIC
    value, name = (_day, "date") if kind == "days" else (_whole, "number")
    made = []
    for page in found:
        slot = spans(name, seen.question, [page], lambda _: [1.0], kinds)
        kept: dict[Any, NDArray[np.float64]] = {}
        for each, row in zip(slot.options[1:], slot.numbers[1:], strict=True):
            if v := value(each):
                kept[v] = np.maximum(kept[v], row) if v in kept else row
        kept = kept or {0: slot.numbers[0]}  # no date, and no number
        made.append(Slot(name, [*kept], np.stack([*kept.values()])))
    return made


def _whole(found: Found) -> int | None:
    digits = re.search(r"\d[\d,]*", found.text)
    return int(digits[0].replace(",", "")) if digits and len(digits[0]) < 16 else None


def _day(found: Found) -> date | None:
    plain = " ".join(found.text.replace(",", " ").split())
    for form in ("%d %B %Y", "%B %d %Y"):
        try:
            return datetime.strptime(plain, form).date()
        except ValueError:
            continue
    return None


def _said(value: Any) -> str:
    return (
        f"date({value.year}, {value.month}, {value.day})" if isinstance(value, date) else str(value)
    )


def _run(code: str, a: Any, b: Any) -> Call:
    return Call("python", {"code": code.format(a=_said(a), b=_said(b))})


def _mean(*values: int) -> Call:
    return Call(
        "python", {"code": f"values = {[*values]}\nprint(round(sum(values) / len(values)))"}
    )


def _total(*values: int) -> Call:
    return Call("python", {"code": f"print(sum({[*values]}))"})


def _printed(text: str) -> str:
    """What code printed, as the tool shows it; "" for an error."""
    output = re.search(r'"output": "([^"]*)"', text)
    return output[1] if output and re.fullmatch(r"-?\d+", output[1]) else ""


def _names(read: Question) -> list[str]:
    """What a question names, at most three; single words that begin a sentence are no names."""
    names = []
    for found, text in zip(read.mentions, read.mention_texts, strict=True):
        before = read.words.gap[found.first - 1].strip() if found.first else "."
        if found.last - found.first > 1 or before not in (".", "?"):
            names.append(re.sub(r"['’]s?$", "", text))
    return list(dict.fromkeys(names))[:3]


def _of(name: str, titled: Mapping[str, Passage]) -> Passage | None:
    """The page of what is named: with this title, or one that begins so."""
    said = fold(name)
    begun = (page for title, page in titled.items() if title.startswith(f"{said} "))
    return titled.get(said) or next(begun, None)


def _lists(question: str, page: Passage) -> Slot | None:
    """Runs of names on a page, apart by commas and "and", as a slot."""
    doc = analyse(page.title, page.text)
    block = builder().pair(question, doc).block
    names = [i for i, s in enumerate(doc.spans) if s.kind == "name" and s.first >= doc.body]
    runs: list[list[int]] = []
    for i in names:
        here = doc.spans[i]
        last = doc.spans[runs[-1][-1]].last if runs else -1
        if runs and last <= here.first:
            between = doc.words.text[doc.words.end[last - 1] : doc.words.start[here.first]]
            if between.strip() in (",", "and", ", and", "as well as", "&"):
                runs[-1].append(i)
                continue
        if not runs or last <= here.first:
            runs.append([i])
    options, rows = [], []
    for run in runs:
        members = [name for i in run for name in doc.texts[i].split(" and ")]
        if 2 <= len(members) <= MOST:
            options.append(tuple(members))
            rows.append([*block[run].mean(0), len(members) / MOST, 1.0])
    return Slot("list", options, np.array(rows, dtype=np.float64)) if options else None
