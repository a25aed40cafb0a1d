"""Prompts for a language model that plays the search engine (after ZeroSearch, 2505.04588).

Two styles, both in our own words. ``sft``: short lines for a simulator that was fine-tuned on them
(``searchgym simulator data`` writes the training pairs with this very function); question and
answer stand in both kinds of prompt. ``prompt``: instructions and a worked example for a model that
was not; question and answer stand in the useful prompt only, so that nothing can leak into noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...dialects.escape import escape_controls


class Role(NamedTuple):
    """One search as the simulator sees it."""

    query: str
    k: int
    """Documents asked for."""
    words: int
    """Words a document should have, about."""
    noisy: bool
    question: str = ""
    """Question of the task; empty for a search that belongs to no task."""
    answer: str = ""
    """Answer of the task; empty where it has none (it is to be refused) or there is no task."""


def sft_prompt(role: Role) -> str:
    """Question, answer and query on a line each, then the cue. Ends with a line break."""
    lines = []
    if role.question:
        lines.append(f"Question: {_line(role.question, 256, 2_000)}")
    lines.append(_query(role))
    if role.answer:
        lines.append(f"Answer: {_line(role.answer, 256, 2_000)}")
    lines.append(
        f"{'Noisy' if role.noisy else 'Useful'} documents, {role.k} of {role.words} words:"
    )
    return "\n".join(lines) + "\n"


def few_shot_prompt(role: Role) -> str:
    """Instructions, one worked example of the kind wanted, and the search. Ends with "Output:"."""
    count = f"{role.k} documents" if role.k != 1 else "1 document"
    kind = "noisy" if role.noisy else "useful"
    aim = (
        "look related to the query but do not help to answer it: they are about other people, "
        "places, works or dates, or about side issues"
        if role.noisy
        else "answer the query: each states what the query asks for within its context, as an "
        "article would, without speaking of a question. The question is what the searcher wants to "
        "know in the end, the answer what documents for this query are to state"
    )
    example = _NOISY_EXAMPLE if role.noisy else _USEFUL_EXAMPLE
    lines = [
        f"You play a web search engine. For a query, write {count} of about {role.words} words "
        f"each that {aim}. Write every document on a line of its own, as 'Doc N: Title | Text', "
        "in English, and nothing else.",
        "",
        "Example",
        *([] if role.noisy else [_EXAMPLE_QUESTION, _EXAMPLE_ANSWER]),
        _EXAMPLE_QUERY,
        f"Output of {_EXAMPLE_DOCS} {kind} documents:",
        *example,
        "",
        "Your turn",
    ]
    if not role.noisy:
        if role.question:
            lines.append(f"Question: {_line(role.question, 256, 2_000)}")
        if role.answer:
            lines.append(f"Answer: {_line(role.answer, 256, 2_000)}")
    lines.append(_query(role))
    lines.append(f"Output of {role.k} {kind} document{'' if role.k == 1 else 's'}:")
    return "\n".join(lines) + "\n"


STYLES: dict[str, Callable[[Role], str]] = {"sft": sft_prompt, "prompt": few_shot_prompt}


_NO_CONTROLS = dict.fromkeys((*range(32), 127), " ")
"""Control characters, and a blank for each."""


def _line(text: str, words: int, chars: int) -> str:
    """A text on one line, without what is no character and what would control the model, cut like
    search engines cut queries."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    plain = plain.translate(_NO_CONTROLS)
    return escape_controls(" ".join(plain.split()[:words])[:chars])


def _query(role: Role) -> str:
    return f"Query: {_line(role.query, QUERY_WORDS, QUERY_CHARS)}"


QUERY_WORDS, QUERY_CHARS = 64, 400
"""Limits on what is read of a query."""


_EXAMPLE_DOCS = 3
_EXAMPLE_QUESTION = "Question: Which river does the oldest stone bridge of Regensburg cross?"
_EXAMPLE_ANSWER = "Answer: Danube"
_EXAMPLE_QUERY = "Query: Regensburg stone bridge river"
_USEFUL_EXAMPLE = (
    "Doc 1: Stone Bridge, Regensburg | The bridge, finished around 1146, spans the Danube with "
    "some sixteen arches. For centuries it was the only fixed crossing of the river for many miles "
    "up and down.",
    "Doc 2: Regensburg | The old town lies on the southern bank of the Danube. A medieval stone "
    "bridge leads from the salt store at its gate to the island of Stadtamhof across the river.",
    "Doc 3: Bridges over the Danube | Of the crossings that survive from the Middle Ages, the one "
    "at Regensburg is the oldest; crusaders are said to have used it on their way east.",
)
_NOISY_EXAMPLE = (
    "Doc 1: Charles Bridge | The bridge in Prague crosses the Vltava on sixteen arches and is "
    "lined with thirty statues of saints. Work on it started in the fourteenth century.",
    "Doc 2: Regensburg sausage kitchen | A small restaurant beside the old salt store has grilled "
    "sausages over charcoal for centuries. Visitors eat them with sauerkraut and sweet mustard.",
    "Doc 3: How arches carry load | A stone arch turns weight into thrust along its curve. Wedge "
    "shaped blocks lock each other in place, which is why no mortar is needed to keep it standing.",
)
