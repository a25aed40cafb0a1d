"""A dialect for models that have learnt nothing: whatever they write is an action."""

from __future__ import annotations

from searchgym.dialects import SearchR1
from searchgym.types import Answer, Parsed, Search


class Eager(SearchR1):
    """The length of a text says which search it is, or that it is an answer, so that a random
    model's episodes hold real results of unequal length and end at unequal times."""

    def parse(self, text: str) -> Parsed:
        query = "".join(c for c in text if c.isalnum() or c == " ").strip()
        if len(query) % 5 == 4:
            return Parsed(Answer(query), (), len(text))
        # passages of the small corpus are about these
        words = ("Aldor founder", "Mira Venn born", "river Osten flows", "nothing at all")
        return Parsed(Search((words[len(query) % 4],)), (), len(text))


NAME = "tests.policies.eager:Eager"
