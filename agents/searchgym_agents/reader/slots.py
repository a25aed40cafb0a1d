"""Names as pointers: every word that a tokenizer does not know is one token, bound for an episode.

A small model that reads names piece by piece spends most of its time on copying them, and miscopies
them most. Here each unknown word of an episode's texts is read as one of ``SLOTS`` tokens that mean
nothing but "the same word as there", as in pointer networks' extended vocabulary of out-of-
vocabulary words (See et al., 2017, §2.2) and the entity markers of Hermann et al. (2015); what the
policy writes is read back. The model and its tokenizer stay stock: slots are added tokens, one
private-use character each.

Which slot a word takes is drawn from the word and the episode's first text: no slot is tied to a
word, and hiding an observation does not rename what others showed (unless two words wanted the same
slot). Numbers have slots of their own: a year and a town look different before what is said of
either is understood. A slot stands for the word and the space before it; ``JOIN`` before a slot
takes that away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from zlib import crc32

from searchgym.errors import EngineError
from searchgym.llms.base import Completion, Ids
from searchgym.llms.prompts import Codec
from searchgym.policies.renderer import PlainRenderer, Spelt, spelt
from searchgym.types import Segment, TurnRequest

SLOTS = 128
NUMBERS = 32
"""The last so many are numbers', the others names'; where one kind has more words than slots, it
takes the other's."""
_FIRST = 0xE100
JOIN = chr(_FIRST - 1)
UNBOUND = " \ufffd"
"""Reading of a slot that no word of the episode has taken, and of private-use characters of a
text are read where no slot is left for them: no page can write a slot."""
_LETTERS = r"[^\W\d_]"
_NAME = rf"[^\W\d_a-z]{_LETTERS}*"
_WORD = rf"{_NAME}(?:-{_NAME})+|{_LETTERS}+|\d+(?:[.,]\d+)*|[\ue000-\uf8ff]"
_SLOT = re.compile(rf"{JOIN}?[{chr(_FIRST)}-{chr(_FIRST + SLOTS - 1)}]|{JOIN}")


def slots() -> tuple[str, ...]:
    """The tokens that a tokenizer needs besides its own."""
    return (JOIN, *(chr(_FIRST + i) for i in range(SLOTS)))


def has_slots(tokenizer: Any) -> bool:
    """Check whether a tokenizer was made for :class:`NamesRenderer`."""
    return JOIN in tokenizer.get_vocab()


class Lettering:
    """Words that a tokenizer reads as they are: its own whole words, and what stands in its added
    tokens. ``words``: without the space before them."""

    def __init__(self, words: Iterable[str], marks: Iterable[str]) -> None:
        self.words = frozenset(words)
        longest_first = sorted(marks, key=len, reverse=True)
        kept = "|".join(re.escape(mark) for mark in longest_first)
        self.pattern = re.compile(rf"({kept})|( ?)({_WORD})" if kept else rf"((?!))|( ?)({_WORD})")


class Names:
    """The words of one episode and their slots, in the order of their first mention. ``salt``: the
    episode's first text."""

    def __init__(self, lettering: Lettering, salt: str) -> None:
        self._lettering = lettering
        self._salt = crc32(salt.encode(errors="surrogatepass"))
        self._slots: dict[str, str] = {}
        self._words: dict[str, str] = {}

    def write(self, text: str) -> str:
        """A text with slots for its unknown words; beyond ``SLOTS`` of them they stay as they
        are."""
        return self._lettering.pattern.sub(self._written, text)

    def read(self, text: str) -> tuple[str, list[int]]:
        """A text with words for its slots, and where each of its character positions, the end
        included, has come to stand."""
        parts: list[str] = []
        moved: list[int] = []
        last = length = 0
        for match in _SLOT.finditer(text):
            moved += range(length, length + match.start() - last)
            parts.append(text[last : match.start()])
            length += match.start() - last
            word = self._read(match.group())
            # the joiner's own end lies before the word
            moved += [length] * (match.end() - match.start())
            parts.append(word)
            length, last = length + len(word), match.end()
        moved += range(length, length + len(text) - last + 1)
        parts.append(text[last:])
        return "".join(parts), moved

    def _written(self, match: re.Match[str]) -> str:
        mark, space, word = match.groups()
        if mark or (word in self._lettering.words):
            return match.group()
        slot = self._slots.get(word) or self._take(word)
        if not slot:
            return space + UNBOUND[1:] if "\ue000" <= word <= "\uf8ff" else match.group()
        return slot if space else JOIN + slot

    def _take(self, word: str) -> str:
        if len(self._slots) == SLOTS:
            return ""
        wanted = (chr(_FIRST + place) for place in _places(word, self._salt))
        slot = next(slot for slot in wanted if slot not in self._words)
        self._slots[word], self._words[slot] = slot, word
        return slot

    def _read(self, slot: str) -> str:
        word = self._words.get(slot[-1])
        if slot == JOIN:
            return ""
        if word is None:
            return UNBOUND
        return word if slot[0] == JOIN else f" {word}"


def _places(word: str, salt: int) -> Iterator[int]:
    """Every slot's number, in the order in which a word asks for them: those of its kind first,
    from one on that is chance."""
    begin = crc32(word.encode(errors="surrogatepass"), salt)
    names, numbers = range(SLOTS - NUMBERS), range(SLOTS - NUMBERS, SLOTS)
    for kind in (numbers, names) if word[0].isdigit() else (names, numbers):
        for i in range(len(kind)):
            yield kind[(begin + i) % len(kind)]


class NamesRenderer(PlainRenderer):
    """:class:`BareRenderer` with unknown words as slots. ``EngineError`` for a tokenizer that lacks
    them."""

    registered = "renderer:names"

    def __init__(self, tokenizer: Any) -> None:
        if not has_slots(tokenizer):
            raise EngineError(
                "this tokenizer has no slots for names: use renderer 'bare', or one that "
                "'searchgym warmstart' makes (searchgym_agents.reader.slots.slots() are the tokens)"
            )
        super().__init__(tokenizer)
        self._lettering = lettering(tokenizer)

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        names: Names | None = None
        pieces: list[Ids] = []
        for segment in _shown(request.segments):
            names = names or Names(self._lettering, segment.text)
            text = names.write(segment.text)
            own = segment.author == "policy"
            pieces.append(written[segment.id] if own else self.encode(text))
        return tuple(pieces)

    def spell(self, segments: Sequence[Segment], text: str) -> Spelt:
        names = self._names(segments) or Names(self._lettering, text)
        ids, ends = spelt(self.tokenizer, self.encode(names.write(text)))
        moved = names.read(Codec(self.tokenizer).decode(list(ids)))[1]
        return Spelt(ids, tuple(moved[end] for end in ends))

    def heard(self, segments: Sequence[Segment], completion: Completion) -> Completion:
        names = self._names(segments)
        if names is None or completion.ends is None:
            return completion
        text, moved = names.read(completion.text)
        return completion._replace(text=text, ends=tuple(moved[end] for end in completion.ends))

    def _names(self, segments: Sequence[Segment]) -> Names | None:
        """Return the names in these texts; ``None`` where there are none."""
        names: Names | None = None
        for segment in _shown(segments):
            names = names or Names(self._lettering, segment.text)
            names.write(segment.text)
        return names


def _shown(segments: Sequence[Segment]) -> Iterator[Segment]:
    """Instructions never change, and are not read."""
    return (segment for segment in segments if segment.kind != "instructions")


@lru_cache(maxsize=16)
def lettering(tokenizer: Any) -> Lettering:
    """Read the words of a tokenizer that writes the space before a word as ``Ġ`` (byte-level)."""
    marks = {token.content for token in tokenizer.added_tokens_decoder.values()}
    marks -= set(slots())
    whole = re.compile(rf"Ġ({_LETTERS}+)")
    words = [m.group(1) for token in tokenizer.get_vocab() if (m := whole.fullmatch(token))]
    return Lettering(words, marks)
