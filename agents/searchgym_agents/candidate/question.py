"""Analyses questions: mentions, wh-word, focus noun, expected type and alternatives."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.utils.english import AUXILIARIES, STOP, Words, fold, tokenise

from .spans import Found, find_spans

WH = ("who", "what", "which", "when", "where", "how", "why")
TYPES = ("person", "place", "group", "work", "date", "year", "number", "kind", "other")
"""Coarse answer types; ``kind`` is a lower-case answer (occupation, genre, nationality, …)."""

_PERSON = frozenset(
    """actor actress singer director writer author player politician president person man woman
    artist musician composer producer painter poet scientist king queen leader founder owner wife
    husband father mother son daughter brother sister child children spouse sibling uncle
    grandfather grandmother parent novelist journalist drummer guitarist bassist vocalist rapper
    comedian model architect engineer coach manager footballer golfer boxer wrestler driver general
    officer emperor prince princess saint bishop pope governor senator mayor minister secretary
    lawyer judge teacher professor philosopher star host character people member performer
    cinematographer screenwriter playwright editor inventor designer explorer killer criminal
    captain chairman ceo chief lyricist songwriter filmmaker celebrity athlete""".split()
)
_PLACE = frozenset(
    """city country state county town village place location area region province district
    continent island river lake mountain capital nation neighborhood suburb borough municipality
    parish peninsula ocean sea street venue stadium arena building airport hotel park museum
    headquarters community territory birthplace hometown kingdom empire valley bay settlement
    planet prefecture""".split()
)
_GROUP = frozenset(
    """company band group team university college school organization organisation label party
    club network studio agency corporation airline league conference church army publisher
    manufacturer retailer institution association brand firm franchise duo orchestra government
    newspaper channel station tribe family dynasty union chain developer distributor academy
    institute division brewery bank guild society foundation side ensemble outfit squad
    crew""".split()
)
_WORK = frozenset(
    """film movie album song book novel magazine show series game single play musical opera sitcom
    episode soundtrack anime manga poem story comic program programme documentary record
    publication journal award title video work composition ballet painting drama sequel prequel
    predecessor successor""".split()
)
_KIND = frozenset(
    """occupation profession nationality genre language type kind ethnicity religion style sport
    position instrument color colour species breed category form job role race animal currency
    cause subject field industry descent heritage denomination color material""".split()
)
_NUMBER = frozenset(
    """many much old population number long tall far percentage percent large big high deep wide
    heavy populous duration length capacity height size area runtime attendance enrollment
    enrolment total amount distance depth width weight""".split()
)
_FOCUS_END = frozenset(
    """that who which whose where when of in on at for by with from to and or as based located
    known born founded released published used""".split()
)


_OPENING = frozenset(
    """name between beside besides before give tell take identify list find state compare comparing
    considering out if please say""".split()
)
"""Words that open a question in capitals without naming anything."""
_ASKS = frozenset("name names title titles call called identify tell give".split())
_FILLER = frozenset("me us the a an one name names title titles of full".split())


_PREAMBLE = STOP | AUXILIARIES | _ASKS | frozenset("know like looking find please people".split())


class Question(NamedTuple):
    """An analysed question (pure function of its text)."""

    words: Words
    mentions: tuple[Found, ...]
    mention_texts: tuple[str, ...]
    in_mention: tuple[bool, ...]
    """Mask of the words that belong to a mention."""
    wh: str
    """Question word, one of ``WH``, or ""."""
    wh_at: int
    """Word index of the wh-word, -1 if there is none."""
    focus: tuple[int, int]
    """Word bounds of the phrase that names what is asked ("American actor"); empty if a == b."""
    head: int
    """Word index of the focus phrase's head noun, -1 if there is none."""
    type: str
    """Type of the answer, one of ``TYPES``."""
    polar: bool
    """Answerable by yes or no."""
    alternatives: tuple[str, ...]
    """The two sides of "A or B", empty unless the question offers a choice."""
    norm: str
    close: tuple[float, ...]
    """Nearness of each word to a mention: 1 beside one, 0 inside or far away. In "the *population*
    of the *city where* X *stands*" the near words tie X to something unnamed, the far ones say what
    is asked of that."""

    opening: int
    """Number of words that only open the question ("Give the name of"), 0 if nothing would be
    left."""
    inner_type: str
    """Coarse type of what stands unnamed beside a mention ("the *city* where X stands"), "other"
    if no noun near a mention is on the lists."""

    @property
    def relation(self) -> tuple[int, ...]:
        """Word indices that say *how* things relate: content words outside mentions, after what
        only opens the question ("I would like to know", "Give the name of")."""
        lower = self.words.lower
        return tuple(
            i
            for i in range(self.opening, len(lower))
            if not self.in_mention[i] and lower[i] not in STOP and lower[i] not in AUXILIARIES
        )

    def relation_text(self) -> str:
        return " ".join(self.words.lower[i] for i in self.relation)

    def outer_text(self) -> str:
        """The relation words away from all mentions: what is left to ask once the near ones have
        been followed. All of them where every one is near."""
        far = [self.words.lower[i] for i in self.relation if self.close[i] < 0.5]
        return " ".join(far) or self.relation_text()


def _mentions(w: Words) -> tuple[Found, ...]:
    """Names, quotes, dates and numbers; a capitalised first word counts only if it is no wh-word
    or auxiliary (``find_spans`` already drops stop words that open a sentence)."""
    spans = [f for f in find_spans(w) if f.kind in ("name", "quote", "date", "year", "part")]
    kept = []
    for f in spans:
        first = f.first
        while first < f.last - 1 and (w.lower[first] in AUXILIARIES or w.lower[first] in STOP):
            first += 1
        lone = f.last - first == 1
        if lone and (w.lower[first] in STOP or w.lower[first] in AUXILIARIES):
            continue
        if lone and first == 0 and w.lower[0] in _OPENING:
            continue
        if f.kind == "part" and not (w.capital[first] or w.capital[f.last - 1]):
            continue
        kept.append(Found(first, f.last, f.kind))
    return tuple(dict.fromkeys(kept))


def _wh(w: Words) -> tuple[str, int]:
    places = [i for i, x in enumerate(w.lower) if x in WH or x in ("whose", "whom")]
    if not places:
        return "", -1
    asked = [
        i
        for i in places
        if i == 0
        or w.gap[i - 1].strip() in (",", ".", ";")
        or w.lower[i - 1]
        in ("in", "on", "of", "by", "for", "at", "to", "from", "with", "and", "is")
    ]
    if w.lower[0] in WH or w.lower[0] in ("whose", "whom"):
        at = places[0]
        if w.lower[0] in ("when", "where", "who") and len(places) > 1:
            late = [i for i in places[1:] if w.lower[i] in ("what", "which", "how") and i in asked]
            at = late[-1] if late and w.gap[max(0, late[-1] - 1)].strip() == "," else at
    else:
        strong = [i for i in asked if w.lower[i] != "who" or i == places[-1]]
        at = (strong or asked or places)[-1]
    word = {"whose": "who", "whom": "who"}.get(w.lower[at], w.lower[at])
    return word, at


def _focus(w: Words, wh: str, at: int) -> tuple[int, int]:
    n = len(w.lower)
    if at < 0 or wh not in ("what", "which", "how"):
        return 0, 0
    first = at + 1
    if first < n and w.lower[first] in AUXILIARIES and wh != "how":
        first += 1
        while first < n and w.lower[first] in ("the", "a", "an", "his", "her", "their", "one"):
            first += 1
    elif first < n and w.lower[first] in ("of", "one"):
        while first < n and w.lower[first] in ("of", "the", "one", "these", "two", "his", "her"):
            first += 1
    last = first
    while last < n and last - first < 6:
        if w.lower[last] in AUXILIARIES or (w.lower[last] in _FOCUS_END and last > first):
            break
        last += 1
        if w.gap[last - 1] not in (" ", "-", ", ") or last == n:
            break
        if w.gap[last - 1] == ", " and not (last < n and w.lower[last].isalpha()):
            break
    while first < last and w.lower[first] in STOP:
        first += 1
    return (first, last) if first < last else (0, 0)


def _named(w: Words) -> tuple[int, int]:
    """Focus of "name the X …", "what is the name of the X …", "what do people call the X …"."""
    first = next((i for i, x in enumerate(w.lower[:8]) if x in _ASKS), -1)
    if first < 0:
        return 0, 0
    while first < len(w.lower) and (w.lower[first] in _ASKS or w.lower[first] in _FILLER):
        first += 1
    last = first
    while last < len(w.lower) and last - first < 5 and not w.capital[last]:
        if w.lower[last] in AUXILIARIES or (w.lower[last] in _FOCUS_END and last > first):
            break
        last += 1
        if w.gap[last - 1] not in (" ", "-"):
            break
    return (first, last) if first < last else (0, 0)


def _head(w: Words, focus: tuple[int, int], in_mention: tuple[bool, ...]) -> int:
    """Head noun: the last word before a verb-like word; known nouns win."""
    first, last = focus
    known = [i for i in range(first, last) if noun_type(w.lower[i], w.stem[i]) != "other"]
    if known:
        run = [known[0]]
        for i in known[1:]:
            if i == run[-1] + 1 or w.gap[i - 1] != ", ":
                run.append(i)
        return run[-1] if run[-1] - run[0] <= 2 else run[0]
    for i in range(last - 1, first - 1, -1):
        if w.lower[i] not in STOP and not in_mention[i] and not w.lower[i].endswith("ed"):
            return i
    return first if first < last else -1


@lru_cache(maxsize=60_000)
def noun_type(lower: str, stemmed: str) -> str:
    """The coarse type a noun names ("singer": person), "other" if it is not on the lists."""
    for word in (lower, lower[:-1] if lower.endswith("s") else lower, stemmed):
        if word in _PERSON:
            return "person"
        if word in _PLACE:
            return "place"
        if word in _GROUP:
            return "group"
        if word in _WORK:
            return "work"
        if word in _KIND:
            return "kind"
        if word in _NUMBER:
            return "number"
        if word in ("year", "decade", "century"):
            return "year"
        if word in ("date", "day", "month", "birthday", "birthdate"):
            return "date"
    if len(lower) > 5 and lower.endswith(("ist", "ian")):
        return "person"
    return "other"


def _type(w: Words, wh: str, at: int, head: int) -> str:
    if wh == "who":
        return "person"
    if wh == "where":
        return "place"
    if wh == "when":
        return "date"
    if wh == "how":
        following = w.lower[at + 1] if at + 1 < len(w.lower) else ""
        return "number" if following in _NUMBER else "other"
    return noun_type(w.lower[head], w.stem[head]) if head >= 0 else "other"


@lru_cache(maxsize=60_000)
def read_question(text: str) -> Question:
    """Analyse a question. Total: any string gives a ``Question``."""
    w = tokenise(text)
    mentions = _mentions(w)
    inside = [False] * len(w.lower)
    for f in mentions:
        named = all(w.capital[i] or w.lower[i] in STOP for i in range(f.first, f.last))
        if f.kind != "part" or named:
            inside[f.first : f.last] = [True] * (f.last - f.first)
    in_mention = tuple(inside)
    wh, at = _wh(w) if w.lower else ("", -1)
    focus = _focus(w, wh, at)
    if focus[0] == focus[1] or w.lower[focus[0]] in _ASKS or w.lower[focus[0]] == "people":
        focus = _named(w) if wh not in ("when", "where", "how") else focus
    head = _head(w, focus, in_mention) if focus[0] < focus[1] else -1
    alternatives = find_alternatives(text)
    polar = _polar(w, at) and (
        not alternatives or {"yes", "no"} <= set(w.lower) or "or" not in w.lower
    )
    return Question(
        w,
        mentions,
        tuple(w.slice(f.first, f.last) for f in mentions),
        in_mention,
        wh,
        at,
        focus,
        head,
        "other" if polar else _type(w, wh, at, head),
        polar,
        () if polar else alternatives,
        fold(text),
        close := _closeness(w, in_mention),
        _opening(w),
        _inner_type(w, close),
    )


def _inner_type(w: Words, close: tuple[float, ...]) -> str:
    """The type of the nearest typed noun within three content words of a mention."""
    near = sorted((-c, i) for i, c in enumerate(close) if c > 0.3 and w.lower[i] not in STOP)
    kinds = (noun_type(w.lower[i], w.stem[i]) for _, i in near)
    return next((k for k in kinds if k in ("person", "place", "group", "work")), "other")


def _opening(w: Words) -> int:
    first = 0
    while first < len(w.lower) and w.lower[first] in _PREAMBLE:
        first += 1
    return first if first < len(w.lower) else 0


def _polar(w: Words, at: int) -> bool:
    """Return whether the question, or a clause of it that no wh-word governs, opens with an
    auxiliary."""
    if any(w.lower[i : i + 3] == ("yes", "or", "no") for i in range(len(w.lower) - 2)):
        return True
    if w.lower and w.lower[0] in AUXILIARIES:  # "Can you name …" asks for a name, though
        return w.lower[1:2] != ("you",) or "same" in w.lower
    clauses = (i for i in range(1, len(w.lower)) if w.gap[i - 1].strip() in (",", ":"))
    return at < 0 and any(w.lower[i] in AUXILIARIES for i in clauses)


def _closeness(w: Words, in_mention: tuple[bool, ...]) -> tuple[float, ...]:
    """1 / (1 + ((d - 1) / 1.5)²) for the d-th content word from the nearest mention."""
    size = len(in_mention)
    if not any(in_mention):
        return (1.0,) * size
    nearest = [size] * size
    for order in (range(size), range(size - 1, -1, -1)):
        distance = size
        for i in order:
            if in_mention[i]:
                distance = 0
            elif w.lower[i] not in STOP and w.lower[i] not in AUXILIARIES:
                distance += 1
                nearest[i] = min(nearest[i], distance)
    return tuple(
        0.0 if inside else 1 / (1 + ((d - 1) / 1.5) ** 2)
        for d, inside in zip(nearest, in_mention, strict=True)
    )


def rarity_weights(question: Question, rarity: object) -> NDArray[np.float32]:
    """(Q,) rarity of each word of the question, 0 for stop words, auxiliaries and the opening."""
    weigh = rarity if callable(rarity) else (lambda _: 0.7)
    weights = np.asarray(
        [0.0 if w in AUXILIARIES or w in STOP else weigh(w) for w in question.words.lower],
        dtype=np.float32,
    )
    weights[: question.opening] = 0
    return weights


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
