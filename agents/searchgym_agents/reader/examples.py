"""Training rows of a warm start: six kinds, from many small worlds.

``copy``: a question of one hop, the thought that names it, the search. ``plan``: the same for
questions of any length, and for more of them than are answered. ``cloze``: for a page's own
sentence. ``drill``: a page, and its facts looked up. ``one``: whole episodes of one hop.
``trace``: whole episodes of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from searchgym.envs.search import SearchEnv
from searchgym.errors import DataError
from searchgym.llms.sft_data import Example
from searchgym.seeding import stream
from searchgym.utils.processes import mapped

from .drills import drills_of
from .encoding import encode_traces, reader_tokenizer
from .questions import asked_of, clozes_of
from .traces import DEFAULTS, ENTITIES, Trace, traces_of

KINDS = ("copy", "plan", "cloze", "drill", "one", "trace")
CLOZES = 150
"""Number of clozes per world."""
SAMPLE = 20_000
"""Texts from which pieces of words are learnt, less than twice as many: every third of a hundred
worlds' says the same."""
ASKED: Mapping[str, int] = {"simple": 200, "chain-2": 200, "chain-3": 200}
"""Questions per world of which only the beginning is read."""


class Examples(NamedTuple):
    """Worked examples as texts, by kind."""

    traces: list[Trace]
    drills: list[Trace]
    clozes: list[Trace]
    asked: list[Trace]

    def texts(self) -> Iterator[str]:
        """Yield all texts of the examples."""
        for kind in self:
            for trace in kind:
                for piece in trace.pieces:
                    yield piece.text

    def tokenizer(self, size: int, words: Collection[str] | None = None) -> Any:
        """A byte-pair tokenizer of them; ``words``: see :func:`.encoding.reader_tokenizer`."""
        texts = [*self.traces, *self.drills]
        return reader_tokenizer(texts[:: max(1, len(texts) // SAMPLE)], size, words)

    def rows(self, tokenizer: Any, max_tokens: int) -> dict[str, list[Example]]:
        """Return the rows by kind; longer ones are left out."""
        one = [trace for trace in self.traces if trace.hops == 1]
        kinds = {
            "copy": [trace._replace(pieces=trace.pieces[:2]) for trace in one],
            "plan": [t._replace(pieces=t.pieces[:2]) for t in (*self.traces, *self.asked)],
            "cloze": self.clozes,
            "drill": self.drills,
            "one": one,
            "trace": self.traces,
        }
        return {
            kind: encode_traces(tokenizer, texts, max_tokens)
            for kind, texts in kinds.items()
            if texts
        }


def examples(
    worlds: int,
    *,
    keywords: Mapping[str, Any] = DEFAULTS,
    entities: int = ENTITIES,
    paraphrases: bool = False,
    seed: int = 0,
    processes: int = 1,
    report: Callable[[int], None] | None = None,
) -> Examples:
    """Write worked examples of ``worlds`` worlds of the train split; fixed by ``seed``.

    ``paraphrases``: three of four worlds are worded in its schema's paraphrases, too
    (:mod:`searchgym.worlds.paraphrases`).

    Drills show one passage per search, so that there is one place to look; episodes as many as
    ``keywords`` say. ``processes`` share the worlds; with more than one, ``keywords`` must pickle
    (:func:`searchgym.utils.processes.mapped`). ``report`` is told how many worlds are done.
    ``DataError`` if nothing came of them.
    """
    made = Examples([], [], [], [])
    of = partial(of_world, keywords=keywords, entities=entities, paraphrases=paraphrases, seed=seed)
    for done, world_examples in enumerate(mapped(of, range(worlds), processes), 1):
        for kind, more in zip(made, world_examples, strict=True):
            kind.extend(more)
        if report is not None:
            report(done)
    if not made.traces:
        raise DataError(
            f"no episode of {worlds} worlds was solved: give keywords with tasks of the families "
            "simple and chain-2, …"
        )
    return made


def of_world(
    i: int, *, keywords: Mapping[str, Any], entities: int, paraphrases: bool, seed: int
) -> Examples:
    """The examples of one world, the ``i``-th."""
    number = seed * 100_000 + i
    wide = {"paraphrases": True} if paraphrases and i % 4 else {}
    chosen = {
        "world": {"entities": entities, "seed": number},
        "wording": {"seed": number, **wide},
    }
    shown = SearchEnv(**{**keywords, **chosen})
    single = shown.under(k=1)
    clozes = list(clozes_of(single))
    order = stream(seed, "clozes", i).permutation(len(clozes))[:CLOZES]
    return Examples(
        list(traces_of(shown, seed=seed)),
        list(drills_of(single, seed=number)),
        [clozes[int(j)] for j in order],
        list(asked_of(single, ASKED, seed=number)),
    )
