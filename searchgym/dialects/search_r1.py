"""Search-R1's tags (Jin et al., arXiv 2503.09516), byte for byte on the wire.

A policy trained there reads the same observations here: ``<information>`` wrapper, ``Doc i(Title:
t) text`` lines, corrective message, cutting and matching rules. Three deliberate differences: an
empty search or answer is invalid, control characters are dropped, and tags inside passages are
escaped. The instructions are our own words; ``instructions="search_r1"`` gives its authors' prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from searchgym.dialects.base import View
from searchgym.dialects.escape import PassageCache, escape_tags
from searchgym.dialects.tags import MALFORMED, TagDialect, headed
from searchgym.types import Page, Passage, Ranking

_EXTRA_HINTS = {
    "access": "If I want to open a page, I should put its title or URL between <access> and "
    "</access>. ",
    "tools": "If I want to use a tool, I should put its name and arguments as JSON between <tool> "
    "and </tool>. ",
    "judge": "If I want to judge the last results, I should put good or bad between <judge> and "
    "</judge>. ",
    "delegate": "If I want to hand over a sub-task, I should put it between <task> and </task>. ",
}


class SearchR1(TagDialect):
    """The default dialect. ``quoted`` puts titles in quotation marks, as wiki-18's are."""

    BASE: ClassVar[str] = "search_r1"
    FLAGS: ClassVar[tuple[str, ...]] = (*TagDialect.FLAGS, "quoted")
    TOOLS_FIRST: ClassVar[bool] = True

    def __init__(
        self,
        *,
        parallel: bool = False,
        access: bool = False,
        judge: bool = False,
        delegate: bool = False,
        tools: bool = False,
        quoted: bool = False,
    ) -> None:
        super().__init__(
            parallel=parallel, access=access, judge=judge, delegate=delegate, tools=tools
        )
        self._quoted = quoted
        self._tail = PassageCache(self._write_tail)
        chosen = {"access": access, "tools": tools, "judge": judge, "delegate": delegate}
        self._hint = (
            "\nMy previous action is invalid. "
            "If I want to search, I should put the query between <search> and </search>. "
            + "".join(hint for name, hint in _EXTRA_HINTS.items() if chosen[name])
            + "If I want to give the final answer, I should put the answer between <answer> and "
            "</answer>. Let me try again.\n"
        )

    def instructions(self, view: View) -> str:
        from searchgym.dialects.instructions import tag_instructions

        return tag_instructions(view, self.renders, parallel=self.parallel)

    def question(self, text: str) -> str:
        text = escape_tags(text).strip()
        # A bare phrase gets a question mark; "Name the river." ends already.
        return f"Question: {text}\n" if text.endswith(("?", ".", "!")) else f"Question: {text}?\n"

    def _write_tail(self, passage: Passage) -> str:
        title = self._line(passage.title)
        if self._quoted and not (len(title) > 1 and title[0] == title[-1] == '"'):
            title = f'"{title}"'
        return f"(Title: {title}) {escape_tags(passage.text)}\n"

    def render_hits(self, groups: Sequence[tuple[str, Ranking]]) -> str:
        if len(groups) == 1:
            body = self._docs(groups[0][1])
        else:
            body = headed([(self._line(q), self._docs(hits)) for q, hits in groups])
        return self._wrap(body)

    def _docs(self, hits: Ranking) -> str:
        tail = self._tail
        return "".join([f"Doc {i}{tail[hit.passage]}" for i, hit in enumerate(hits, 1)]).strip()

    def _wrap(self, body: str) -> str:
        return f"\n\n<information>{body}</information>\n\n"

    def render_page(self, page: Page, text: str, *, part: int, parts: int) -> str:
        head = f"Page(Title: {self._line(page.title)}) {self._line(page.url)}"
        return self._wrap(f"{head} (part {part} of {parts})\n{escape_tags(text)}")

    def render_stub(self, page_title: str, url: str, text: str, *, part: int = 1) -> str:
        head = f"Page(Title: {self._line(page_title)}) {self._line(url)}"
        return self._wrap(f"{head} (part {part}, shortened)\n{escape_tags(text)}")

    def render_missing(self, url: str) -> str:
        return self._wrap(f"No page has the URL or title {self._line(url)}")

    def render_invalid(self, reason: str) -> str:
        if reason in MALFORMED:
            return self._hint
        # Rules that Search-R1 does not have (budgets, search switched off): say which.
        return f"\nMy previous action is invalid: {self._line(reason)}. Let me try again.\n"

    def render_report(self, text: str) -> str:
        return self._wrap(escape_tags(text).strip())
