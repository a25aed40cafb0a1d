"""A small English grammar: takes a schema's descriptions apart and rephrases them.

Every function answers None, or leaves the text alone, where it is not sure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

PEOPLE = ("person", "people", "human", "man", "woman")

_IRREGULAR_VERBS = (
    "written|built|born|held|led|set|known|made|drawn|sung|sold|run|spoken|worn|given|taken|shot|"
    "won|begun|chosen|found|kept|sent|taught|driven|grown|laid|put|wed"
)
_PARTICIPLE = rf"(?:\w+ly )?(?:\w+ed|{_IRREGULAR_VERBS})"
_STATES = re.compile(r"^(?:located|based|headquartered|situated|found|native|twinned|partnered) ")
_FINITE = {"starring": "stars", "featuring": "features"}
_DESCRIPTION = re.compile(
    r"^(?:the|an?) (?P<head>(?:[\w-]+ ){0,2}?[\w-]+) (?P<rest>(?:"
    r"that|which|who|whom|whose|where|of|in|on|at|by|for|from|with|to|about|along|into|since|"
    rf"native|sovereign|starring|featuring|{_PARTICIPLE}) .*)$"
)
_RELATIVE = re.compile(r"^(?:that|which|who) (?!\{[so]\})")
_PASSIVE = re.compile(rf"^{_PARTICIPLE} (?:by|in|at|on|after|to|from|for|as|under|near|with) ")
_PLURALS = {"person": "people", "child": "children", "man": "men", "woman": "women"}
_UNCHANGED = ("series", "species", "alumni")


def split_description(phrase: str) -> tuple[str, str] | None:
    """Head noun and the clause after it: ("film", "directed by {o}"); None if not "the NOUN …"."""
    found = _DESCRIPTION.match(phrase)
    return (found["head"], found["rest"]) if found else None


def predicate(phrase: str) -> str | None:
    """A description turned into a question's words: "which film was directed by {o}" for "the film
    directed by {o}", "who directed {o}" for "the person who directed {o}"."""
    parts = split_description(phrase)
    if parts is None:
        return None
    head, rest = parts
    subject = "who" if head in PEOPLE else f"which {head}"
    first, _, after = rest.partition(" ")
    if _RELATIVE.match(rest):
        return f"{subject} {_RELATIVE.sub('', rest)}"
    if _STATES.match(rest):
        return f"{subject} is {rest}"
    if _PASSIVE.match(rest):
        return f"{subject} was {rest}"
    if first in _FINITE:
        return f"{subject} {_FINITE[first]} {after}"
    return f"{subject} is {rest}" if first in ("by", "from", "about") else None


def clause(phrase: str, noun: str) -> str | None:
    """Return what can follow ``noun`` instead of the description's own head: "directed by {o}"."""
    parts = split_description(phrase)
    if parts is None:
        return None
    head, rest = parts
    free = _PASSIVE.match(rest) or rest.split()[0] in (
        *("that", "which", "who", "whose", "by", "from", "with", "native"),
        *_FINITE,
    )
    return rest if head == noun or free else None


def indefinite(phrase: str) -> str:
    """ "a native of X" for "the native of X": used where many would fit."""
    if not phrase.startswith("the "):
        return phrase
    article = "an" if re.match(r"[aeio]", phrase[4:], re.IGNORECASE) else "a"
    return f"{article} {phrase[4:]}"


def plural_description(phrase: str) -> str | None:
    """ "films directed by {o}" for "the film directed by {o}"."""
    parts = split_description(phrase)
    return None if parts is None else f"{plural(parts[0])} {_plural_clause(parts[1])}"


def plural(noun: str) -> str:
    """English plural of a noun phrase whose head comes last."""
    first, _, last = noun.rpartition(" ")
    if last in _PLURALS:
        last = _PLURALS[last]
    elif last in _UNCHANGED:
        pass
    elif re.search(r"[^aeiou]y$", last):
        last = last[:-1] + "ies"
    elif re.search(r"(s|x|z|ch|sh)$", last):
        last += "es"
    else:
        last += "s"
    return f"{first} {last}" if first else last


_BE = {"is": "are", "was": "were", "has": "have", "does": "do"}


def _plural_clause(rest: str) -> str:
    """ "that was made" -> "that were made", "that plays" -> "that play"."""
    found = re.match(r"^(that|which|who) (\w+) (.*)$", rest)
    if found is None:
        return rest
    pronoun, verb, after = found.groups()
    if verb in _BE:
        verb = _BE[verb]
    elif re.search(r"\w[^aeiou]ies$", verb):
        verb = verb[:-3] + "y"
    elif re.search(r"(sh|ch|ss|x)es$", verb):
        verb = verb[:-2]
    elif verb.endswith("s") and not verb.endswith("ss"):
        verb = verb[:-1]
    return f"{pronoun} {verb} {after}"


def listed(parts: Sequence[str]) -> str:
    """ "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def capitalised(text: str) -> str:
    """First letter in upper case, the rest untouched."""
    return text[:1].upper() + text[1:]
