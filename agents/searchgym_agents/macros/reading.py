"""Pages as slots: what stands in them that a question may mean, as the candidate agent's features
see it (:mod:`searchgym_agents.candidate.features`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from searchgym.types import Passage
from searchgym.utils.english import fold

from ..candidate.features import FeatureBuilder
from ..candidate.pairs import SPAN_NAMES
from ..candidate.spans import analyse
from .history import History
from .policy import Slot

_AT = {name: i for i, name in enumerate(SPAN_NAMES)}
_FITS = [_AT[n] for n in ("type_fits", "date_wanted", "year_wanted", "number_wanted",
                          "kind_wanted_lower", "is_name")]  # fmt: skip
_NEAR = [_AT[n] for n in ("near_rel_soft", "close_rel_soft", "after_rel_soft", "sent_rel_soft",
                          "cos_relation")]  # fmt: skip
NUMERIC = frozenset(("number", "quantity"))


class Found(NamedTuple):
    """A piece of a page, and the page."""

    text: str
    page: Passage


@cache
def builder() -> FeatureBuilder:
    """Features with the bundled sentence encoder, which is not trained.

    Raises:
        MissingExtraError: the extra "encoder" is not installed.
    """
    from ..candidate.encoder import WordEncoder

    return FeatureBuilder(WordEncoder(), states=1)


def pages(seen: History) -> list[tuple[Passage, int]]:
    """Every passage shown, once, with its best rank."""
    shown: dict[str, tuple[Passage, int]] = {}
    for event in seen.of("search"):
        for rank, hit in enumerate(event.hits):
            if hit.passage.id not in shown or rank < shown[hit.passage.id][1]:
                shown[hit.passage.id] = hit.passage, rank
    return [*shown.values()]


def says(page: Passage, words: str) -> bool:
    """Check whether a page says words; case and marks do not count."""
    return f" {fold(words)} " in f" {fold(page.title)} {fold(page.text)} "


def spans(
    name: str, question: str, shown: Sequence[Passage],
    about: Callable[[Passage], Sequence[float]], kinds: frozenset[str] | None = None,
) -> Slot:  # fmt: skip
    """A slot of pieces of pages that may answer a question; the first option is none of them.

    Args:
        name: The slot's.
        question: In words.
        shown: Pages, at least one.
        about: A page's own numbers.
        kinds: Kinds of pieces (``searchgym_agents.candidate.spans``); by default those that do not
            clash with what is asked for.
    """
    options: list[Found | None] = [None]
    width = len(about(shown[0]))
    rows = [np.zeros(len(SPAN_NAMES) + len(_NEAR) * (len(_FITS) + width) + width)]
    if (encoder := builder().encoder) is not None:
        encoder.prepare([analyse(p.title, p.text).words for p in shown])
    for page in shown:
        doc = analyse(page.title, page.text)
        block = builder().pair(question, doc).block
        best: dict[str, int] = {}
        for i, span in enumerate(doc.spans):
            if kinds is not None:
                keep = span.kind in kinds
            else:
                keep = not block[i, _AT["type_clashes"]] and not block[i, _AT["in_question"]]
                keep = keep and span.kind != "part"
            if not keep:
                continue
            old = best.get(doc.norms[i])
            if old is None or block[i, _NEAR].sum() > block[old, _NEAR].sum():
                best[doc.norms[i]] = i
        own = np.asarray(about(page), dtype=np.float64)
        for i in best.values():
            row = block[i].astype(np.float64)
            both = np.outer(row[_NEAR], row[_FITS]).ravel()
            beside = np.outer(row[_NEAR], own).ravel()
            options.append(Found(doc.texts[i], page))
            rows.append(np.concatenate([row, both, own, beside]))
    return Slot(name, options, np.stack(rows))
