"""A dialect for models that have learnt nothing: each text is a search, so that episodes of random
weights read real results and have all their turns."""

from __future__ import annotations

from zlib import crc32

from searchgym.dialects import SearchR1
from searchgym.types import Parsed, Search

QUERIES = (
    "film directed by the writer", "born in the city", "who married the painter",
    "capital of the country", "founded the company", "author of the novel",
    "river that flows through", "head of the university",
)  # fmt: skip
NAME = "tests.benchmarks.gpu.dialect:AnyText"


class AnyText(SearchR1):
    """Every text is a search; the text says only which."""

    def parse(self, text: str) -> Parsed:
        query = QUERIES[crc32(text.encode()) % len(QUERIES)]
        return Parsed(Search((query,)), (), len(text))
