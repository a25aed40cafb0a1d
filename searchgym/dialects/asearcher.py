"""ASearcher's tags (Gao et al., arXiv 2508.07976): search and access, pages read part by part.

Observations are byte-compatible: ``[Doc k](url):`` results, ``>>>> Page k >>>>`` chunks and their
stubs, fixed messages for nothing found, and a ``<think>`` left open for the policy to go on in.
The instructions are our own words; ``instructions="asearcher"`` gives its authors' prompt.
"""

from __future__ import annotations

from typing import ClassVar

from ..types import Page, Passage, Ranking
from .escape import escape_tags
from .tags import TagDialect

DOCUMENT_CHARS = 5_000
"""Characters of a search result that are shown (title included)."""


class ASearcher(TagDialect):
    """ASearcher's dialect, in which every policy text begins inside a thought: ``reasoning </think>
    <search> q </search>``."""

    BASE: ClassVar[str] = "asearcher"
    systems: ClassVar[tuple[str, ...]] = ("ASearcher",)
    FLAGS: ClassVar[tuple[str, ...]] = ("parallel", "judge", "delegate", "tools")
    TOOLS_FIRST: ClassVar[bool] = False
    THINKING: ClassVar[bool] = True

    longest: ClassVar[int] = 2 * DOCUMENT_CHARS

    def __init__(
        self, *, parallel: bool = False, judge: bool = False, delegate: bool = False,
        tools: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            parallel=parallel, access=True, judge=judge, delegate=delegate, tools=tools
        )

    def question(self, text: str) -> str:
        return f"Question: {escape_tags(text).strip()}\n\n<think>\n"

    def _write_tail(self, passage: Passage) -> str:
        title, text = self._line(passage.title), passage.text
        document = f"{title}\n{text}" if title else text
        return f"]({self._line(passage.url)}):\n{escape_tags(document[:DOCUMENT_CHARS])}"

    def _docs(self, hits: Ranking) -> str:
        if not hits:
            return "No search results are found."
        tail = self._tail
        return "\n\n".join([f"[Doc {i}{tail[hit.passage]}" for i, hit in enumerate(hits, 1)])

    def _wrap(self, body: str) -> str:
        return f"\n\n<information>\n{body}\n</information>\n<think>\n"

    def render_page(self, page: Page, text: str, *, part: int, parts: int) -> str:
        return self._wrap(f">>>> Page {part} >>>>\n\n{escape_tags(text)}")

    def render_stub(self, page_title: str, url: str, text: str, *, part: int = 1) -> str:
        return self._wrap(f">>>> Page {part} >>>>\n\n{escape_tags(text)}")

    def render_missing(self, url: str) -> str:
        return self._wrap("No More Information is Found for this URL.")

    def render_invalid(self, reason: str) -> str:
        return self._wrap(
            f"That was not a valid action: {self._line(reason)}. Close the thought, then write one "
            f"of {', '.join(t.open + ' … ' + t.close for t in self._tags)}."
        )

    def _think(self, thought: str) -> str:
        return f"{thought}\n</think>\n\n" if thought else "</think>\n\n"
