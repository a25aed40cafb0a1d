"""Published rewards of statements in SQL and of structured output."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from searchgym import Call, Task
from searchgym.rewards import Outcome, well_formed
from searchgym.text import normalise_answer

_TOKEN = re.compile(
    r"--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?+|'(?:[^']|'')*+'?+|\"[^\"]++\"?+|[A-Za-z_]\w*+|"
    r"\d[\d.]*+|[<>=!|]++|\S"
)
_RESERVED = frozenset(
    "abs all and as asc avg between by case cast coalesce count cross current desc distinct else "
    "end except exists from full group group_concat having ifnull in inner instr intersect is join "
    "julianday left length like limit lower max min natural not null nullif offset on or order "
    "outer over partition recursive replace right round select strftime substr sum then total "
    "trim union upper using values when where with".split()
)
"""Words of SQL and functions, which name neither a table nor a column unless they are quoted."""


@dataclass(frozen=True)
class ReasoningSql:
    """Pay the last query of an episode by parts, against the question's own (``meta["sql"]``).

    ``execution`` if its rows are the answer's and no others, ``syntax`` if it ran, ``schema`` ·
    Jaccard index of the tables and columns named, ``ngram`` · Jaccard index of the n-grams of
    tokens, and ``form`` for a well-formed episode. Reasoning-SQL (Pourreza et al., arXiv
    2503.23157) pays schema-linking, n-gram similarity, a syntax check and a model's judgement
    beside execution; only its abstract was read, so indexes, weights and n are ours, and no model
    judges. Its syntax check is a reward of its own, so a well-formed ``SELECT 1`` earns ``syntax``
    + ``form``, 2 of 7; with ``syntax=0, form=0`` only what concerns the question is paid.
    """

    registered = "reward:reasoning_sql"
    systems = ("Reasoning-SQL",)

    execution: float = 3.0
    syntax: float = 1.0
    schema: float = 1.0
    ngram: float = 1.0
    form: float = 1.0
    n: int = 2

    def final(self, outcome: Outcome) -> dict[str, float]:
        asked = [t for t in outcome.turns if isinstance(t.action, Call) and t.action.tool == "sql"]
        asked = [turn for turn in asked if turn.calls]
        if not asked:
            return self.parts("", "", outcome.task, formed=well_formed(outcome))
        shown = "".join(map(str, getattr(asked[-1].results[0], "parts", ())))
        query = str(asked[-1].calls[0].args["query"])
        return self.parts(query, shown, outcome.task, formed=well_formed(outcome))

    def parts(self, query: str, shown: str, task: Task, *, formed: bool = True) -> dict[str, float]:
        """Each part of what a query earns that the tool answered so; no query is ""."""
        gold = str(task.meta.get("sql", ""))
        ran = bool(query) and not shown.startswith("Error: ")
        return {
            "execution": self.execution * (ran and same_rows(shown, task)),
            "syntax": self.syntax * ran,
            "schema": self.schema * jaccard(set(named(query)), set(named(gold))),
            "ngram": self.ngram * jaccard(ngrams(query, self.n), ngrams(gold, self.n)),
            "form": self.form * formed,
        }


def _parts(query: str) -> list[str]:
    """Tokens as they are written; comments say nothing."""
    return [t for t in _TOKEN.findall(query) if not t.startswith(("--", "/*"))]


def tokens(query: str) -> list[str]:
    """Words, numbers, texts and signs of a statement; case and quotes of names do not matter."""
    return [t.strip('"').lower() if t[0] != "'" else t for t in _parts(query)]


def ngrams(query: str, n: int) -> set[tuple[str, ...]]:
    """The different n-grams of a statement's tokens."""
    said = tokens(query)
    return {tuple(said[i : i + n]) for i in range(len(said) - n + 1)}


def named(query: str) -> Iterator[str]:
    """Tables and columns that a statement names; names of its own (aliases) are left out."""
    said = [(t.strip('"').lower(), t[0]) for t in _parts(query) if t[0] != "'"]
    words = [(w, i) for i, (w, first) in enumerate(said) if _is_name(w, quoted=first == '"')]
    own = {
        w for w, i in words
        if i and (said[i - 1][0] == "as" or (_is_name(*_at(said, i - 1)) and said[i - 1][0] != w))
    }  # fmt: skip
    yield from (w for w, _ in words if w not in own)


def _at(said: Sequence[tuple[str, str]], place: int) -> tuple[str, bool]:
    return said[place][0], said[place][1] == '"'


def _is_name(word: str, quoted: bool) -> bool:
    return bool(word) and (quoted or ((word[0].isalpha() or word[0] == "_")
                                      and word not in _RESERVED))  # fmt: skip


def jaccard(a: Collection[Any], b: Collection[Any]) -> float:
    """Share of the members of either that are members of both; 0 of nothing."""
    either = {*a} | {*b}
    return len({*a} & {*b}) / len(either) if either else 0.0


def same_rows(shown: str, task: Task) -> bool:
    """Check whether a table as the tool ``sql`` shows it has the answer's rows and no others, in
    any order."""
    rows = [tuple(map(normalise_answer, row.split(" | "))) for row in shown.split("\n")[1:]]
    cells = [cell for row in rows for cell in row]
    if not task.items:
        right = {normalise_answer(answer) for answer in task.answers}
        return len(cells) == 1 and cells[0] in right
    left = [{normalise_answer(form) for form in forms} for forms in task.items]
    for cell in cells:
        match = next((forms for forms in left if cell in forms), None)
        if match is None:
            return False
        left.remove(match)
    return not left


@dataclass(frozen=True)
class RlStruct:
    """Pay structured output by a hierarchy, the mean over the episode's actions, and the answer.

    ``valid`` if the action's text holds a JSON object, ``structure`` · share of ``keys`` that it
    has, ``format`` if nothing but tags stands around it, ``content`` · exact match of the answer.
    RL-Struct (Hu & Wu, arXiv 2512.00319) rewards structural integrity, format, content and
    validity; only its abstract was read, so forms and weights are ours. For dialects of JSON calls.
    """

    registered = "reward:rl_struct"
    systems = ("RL-Struct",)

    valid: float = 0.25
    structure: float = 0.25
    format: float = 0.25
    content: float = 1.0
    keys: str = "name arguments"
    """Words."""

    def final(self, outcome: Outcome) -> dict[str, float]:
        scored = [self.of(turn.text) for turn in outcome.turns]
        means = {name: sum(one[name] for one in scored) / len(scored) for name in scored[0]}
        return {**means, "content": self.content * outcome.em}

    def of(self, text: str) -> dict[str, float]:
        """What a text earns before its content is looked at."""
        first, last = text.find("{"), text.rfind("}")
        around = f"{text[:first]}{text[last + 1 :]}" if 0 <= first < last else text
        try:
            found: Any = json.loads(text[first : last + 1]) if 0 <= first < last else None
        except (ValueError, RecursionError):
            found = None
        is_object = isinstance(found, dict)
        keys = self.keys.split()
        has = sum(key in found for key in keys) / max(len(keys), 1) if is_object else 0.0
        bare = not re.sub(r"</?+[A-Za-z_]\w*+>", "", around).strip()
        return {
            "valid": self.valid * is_object,
            "structure": self.structure * has,
            "format": self.format * (is_object and bare),
        }
