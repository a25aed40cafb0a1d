"""The two sides of a question that offers a choice: "Which is older, A or B?"."""

from __future__ import annotations

import re

_AMONG = re.compile(r"(?:of|between|among|from)\s++(?=.)", re.IGNORECASE)
_WHICH = re.compile(r"(?<=[^\s\n])\s++(?:which|who|what|whose)\b", re.IGNORECASE)
_JOINERS = frozenset("of the de la le van von der den du and & for in at on to a with".split())
_BREAK = re.compile(r"[,:;?]")
_COMPARES = re.compile(
    r"\b(?:which|who|whose|what)\b.*\b(?:\w{3,}er|more|first|last|most|least|\w{3,}est)\b",
    re.IGNORECASE,
)
_POLAR = re.compile(r"^(?:is|are|was|were|do|does|did|has|have|had)\b", re.IGNORECASE)
_LONGEST = 9


def find_alternatives(text: str) -> tuple[str, ...]:
    """(A, B) of "…, A or B?", "Is A or B …?", "Of A and B, which …?"; () without a choice."""
    if (among := _AMONG.match(text)) and (which := _WHICH.search(text, among.end())):
        sides = _split(text[among.end() : which.start()].removesuffix(","))
        if sides:
            return sides
    at = text.rfind(" or ")
    if at > 0:
        left, right = _left(text[:at]), _right(text[at + 4 :], not _POLAR.match(text))
        if left and right and left.lower() != right.lower():
            return left, right
    if _COMPARES.search(text):
        lead = text.split(",")[0] if ", wh" in text else ""
        if " and " in lead:
            return _split(lead)
    return ()


def _opens(word: str) -> bool:
    """Return whether a word begins, after quotes, with a capital letter or a digit."""
    bare = word.lstrip("\"“'‘([")
    return bool(bare) and (bare[0].isupper() or bare[0].isdigit())


def _trim(side: str) -> str:
    """Strip quotes and leading lower-case words ("two players Ann Lee")."""
    words = side.strip().strip('"“”,.?!:; ').split()
    while words and not _opens(words[0]):
        words.pop(0)
    return " ".join(words)


def _split(both: str) -> tuple[str, ...]:
    """The most balanced cut at "and" (or "or") that leaves two capitalised sides."""
    best: tuple[int, tuple[str, ...]] = (99, ())
    # what follows the word has few words, so only the last of many can be it
    for match in [*re.finditer(r" (?:and|or) ", both)][-2 * _LONGEST :]:
        rest = both[match.end() :]
        left, right = _trim(both[: match.start()]), _trim(rest)
        if left and right and _opens(rest.strip()):
            gap = abs(len(left.split()) - len(right.split()))
            if gap < best[0] and max(len(left.split()), len(right.split())) <= _LONGEST:
                best = (gap, (left, right))
    return best[1]


def _left(before: str) -> str:
    """The capitalised words that end here; a whole short clause if it is capitalised."""
    marks = [m.end() for m in _BREAK.finditer(before)]
    clause = before[marks[-1] :].strip() if marks else before.strip()
    if marks and _opens(clause) and len(clause.split()) <= _LONGEST:
        return _trim(clause)
    words = clause.split()
    first = len(words)
    for i in range(len(words) - 1, -1, -1):
        if _opens(words[i]):
            first = i
        elif words[i].lower() not in _JOINERS:
            break
    if first == 0 and words and not marks and words[0].lower() in _HEADS:
        first = 1
    return _trim(" ".join(words[first:]))


_HEADS = frozenset("is are was were do does did has have had which who what whose between".split())


def _right(after: str, whole: bool) -> str:
    """A short tail up to the question mark, else the capitalised words that begin it."""
    tail = after.split("?")[0].strip()
    if not _opens(tail) and not tail.lower().startswith("the "):
        return ""
    words = tail.split()
    if whole and len(words) <= _LONGEST:
        return _trim(tail)
    last = 0
    for i, word in enumerate(words):
        if _opens(word):
            last = i + 1
        elif word.lower() not in _JOINERS:
            break
        if word.endswith((",", ";", ":")):
            break
    return _trim(" ".join(words[:last]))
