"""Names in knowledge graphs: making them unique and readable, and finding them in text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

words_of = re.compile(r"\w+").findall
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_APART = re.compile(r"[\W_]+")


def relation_words(relations: Sequence[str]) -> list[str]:
    """Relations in words, unique, in order: "/film/film/genre" is "genre", "dateOfBirth" "date of
    birth"; where two would read the same, as much of the path as tells them apart."""
    told = [_last_words(r) for r in relations]
    for way in (_spaced, str):
        counts = Counter(told)
        told = [t if t and counts[t] == 1 else way(r) for t, r in zip(told, relations, strict=True)]
    return told if len(set(told)) == len(told) else list(relations)


def _last_words(relation: str) -> str:
    """The last step of a path; of Freebase's two-step paths ("/a/b./c/d") the last of each."""
    steps = [step.rstrip("/").rsplit("/", 1)[-1] for step in relation.split("./")]
    return " ".join(dict.fromkeys(filter(None, map(_spaced, steps))))


def _spaced(text: str) -> str:
    return _APART.sub(" ", _CAMEL.sub(" ", text)).strip().lower()


def unique_titles(labels: Sequence[str], ids: Sequence[str]) -> list[str]:
    """The label where no other entity shares it (case ignored), else "label (id)"."""
    counts = Counter(label.casefold() for label in labels)
    taken = {label for label in labels if counts[label.casefold()] == 1}
    titles = []
    for label, key in zip(labels, ids, strict=True):
        title = label
        if label not in taken:
            title = f"{label} ({key})" if label != key else key
            while title in taken:
                title += "'"
            taken.add(title)
        titles.append(title)
    return titles


class Linker:
    """Finds entities by name in text: word sequences, ignoring case and punctuation.

    ``names``: columns of names; entity e is called ``column[e]`` in each. ``also``: more names per
    entity (aliases).
    """

    def __init__(self, names: Iterable[Sequence[str]], also: Sequence[Sequence[str]] = ()) -> None:
        self._named: dict[str, tuple[int, ...]] = {}
        lengths: dict[str, set[int]] = {}
        for column in names:
            for entity, name in enumerate(column):
                self._learn(name, entity, lengths)
        for entity, more in enumerate(also):
            for name in more:
                self._learn(name, entity, lengths)
        self._lengths: Mapping[str, tuple[int, ...]] = {
            w: tuple(sorted(n, reverse=True)) for w, n in lengths.items()
        }

    def _learn(self, name: str, entity: int, lengths: dict[str, set[int]]) -> None:
        words = words_of(name.lower())
        if not words:
            return
        key = " ".join(words)
        known = self._named.get(key, ())
        if entity not in known:
            self._named[key] = (*known, entity)
        lengths.setdefault(words[0], set()).add(len(words))

    def named(self, name: str) -> tuple[int, ...]:
        """Entities that are called so, in the order they were learnt; () if none is."""
        return self._named.get(" ".join(words_of(name.lower())), ())

    def mentions(self, text: str) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """``(words, entities)`` of each name found, left to right, longest first, no overlaps."""
        words = words_of(text.lower())
        mentions: list[tuple[int, tuple[int, ...]]] = []
        lengths, named = self._lengths, self._named
        i, n = 0, len(words)
        while i < n:
            for length in lengths.get(words[i], ()):
                entities = named.get(" ".join(words[i : i + length]))
                if entities is not None and i + length <= n:
                    mentions.append((length, entities))
                    i += length
                    break
            else:
                i += 1
        return tuple(mentions)
