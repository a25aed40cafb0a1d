"""Search-R1's tags (Jin et al., arXiv 2503.09516), byte for byte on the wire.

A policy trained there reads the same observations here: ``<information>`` wrapper, ``Doc i(Title:
t) text`` lines, corrective message, cutting and matching rules. Three deliberate differences: an
empty search or answer is invalid, control characters are dropped, and tags inside passages are
escaped. The instructions are our own words; ``instructions="search_r1"`` gives its authors' prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from ..errors import DialectError
from ..types import ABSTAIN, Action, Answer, Invalid, Parsed, Passage, Ranking, Span
from .base import View
from .escape import clean, escape_tags
from .tags import MALFORMED, MASKED, TagDialect, trim

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

    def __init__(self, *, quoted: bool = False, **flags: bool) -> None:
        super().__init__(**flags)
        self._quoted = quoted
        self._hint = (
            "\nMy previous action is invalid. "
            "If I want to search, I should put the query between <search> and </search>. "
            + "".join(hint for name, hint in _EXTRA_HINTS.items() if flags.get(name))
            + "If I want to give the final answer, I should put the answer between <answer> and "
            "</answer>. Let me try again.\n"
        )

    def question(self, text: str) -> str:
        text = escape_tags(text).strip()
        # A bare phrase gets a question mark; "Name the river." ends already.
        return f"Question: {text}\n" if text.endswith(("?", ".", "!")) else f"Question: {text}?\n"

    def _write_tail(self, passage: Passage) -> str:
        title = self._line(passage.title)
        if self._quoted and not (len(title) > 1 and title[0] == title[-1] == '"'):
            title = f'"{title}"'
        return f"(Title: {title}) {escape_tags(passage.text)}\n"

    def _docs(self, hits: Ranking) -> str:
        tail = self._tail
        return "".join([f"Doc {i}{tail[hit.passage]}" for i, hit in enumerate(hits, 1)]).strip()

    def _wrap(self, body: str) -> str:
        return f"\n\n<information>{body}</information>\n\n"

    def _page(self, title: str, url: str, part: str, text: str) -> str:
        head = f"Page(Title: {self._line(title)}) {self._line(url)} ({part})"
        return self._wrap(f"{head}\n{escape_tags(text)}")

    def render_missing(self, url: str) -> str:
        return self._wrap(f"No page has the URL or title {self._line(url)}")

    def render_invalid(self, reason: str) -> str:
        if reason in MALFORMED:
            return self._hint
        # Rules that Search-R1 does not have (budgets, search switched off): say which.
        return f"\nMy previous action is invalid: {self._line(reason)}. Let me try again.\n"


UNANSWERED = "no closed <answer>"
NOTHING = "Nothing was found."
"""Information block of a real engine that finds nothing; an empty one breaks the form."""
_TAG = re.compile(r"<(/?)(think|search|information|answer)>")


class Block(NamedTuple):
    """A tagged piece: ``text[start:end]`` with its tags, ``text[inner:outer]`` between them."""

    kind: str
    start: int
    end: int
    inner: int
    outer: int
    closed: bool = True


def blocks(text: str) -> list[Block]:
    """The blocks of a self-search text, in order; time linear in its length.

    Between ``<information>`` and the next ``</information>`` no tag counts: results may quote
    anything. An information block that is never closed reaches to the next tag or the end of the
    text (``closed`` False). A further ``</information>`` before any other block belongs to the
    block, too: its results quoted an opening tag. Other blocks that are not closed before the next
    one opens are none.
    """
    pieces: list[Block] = []
    opened: re.Match[str] | None = None
    last_close = text.rfind("</information>")
    for tag in _TAG.finditer(text):
        closing, kind = bool(tag[1]), tag[2]
        if opened is not None and opened[2] == "information":
            if closing and kind == "information":
                pieces.append(_block(opened, tag.start(), tag.end()))
                opened = None
                continue
            if last_close > opened.start():
                continue
            pieces.append(_block(opened, tag.start(), tag.start())._replace(closed=False))
            opened = None
        if not closing:
            opened = tag
        elif opened is not None and opened[2] == kind:
            pieces.append(_block(opened, tag.start(), tag.end()))
            opened = None
        elif opened is None and kind == "information" and pieces and pieces[-1].kind == kind:
            pieces[-1] = pieces[-1]._replace(end=tag.end())
    if opened is not None and opened[2] == "information":
        pieces.append(_block(opened, len(text), len(text))._replace(closed=False))
    return pieces


def _block(opened: re.Match[str], outer: int, end: int) -> Block:
    return Block(opened[2], opened.start(), end, opened.end(), outer)


class SelfSearch(SearchR1):
    """Search-R1's self-search form, chosen by ``engine="self"``.

    ``parse`` keeps the whole text and returns the last answer in it. Its spans: think, search,
    information, answer (content without surrounding white space), and ``masked`` for each
    information block with its tags.
    """

    BASE: ClassVar[str] = "search_r1_self"
    FLAGS: ClassVar[tuple[str, ...]] = ("quoted",)
    self_search: ClassVar[bool] = True
    """True tells an episode that the policy searches within its own text."""

    def __init__(self, *, quoted: bool = False) -> None:
        super().__init__(quoted=quoted)
        self.stop = ("</answer>",)
        self.renders = frozenset({Answer})

    def instructions(self, view: View) -> str:
        said = [
            "Answer the question as briefly as you can, a name or a few words. There is no search "
            "engine: you play it yourself, all in one text. Begin with <think> your thoughts "
            "</think>. Whenever you need a fact, ask for it in one line, <search> your query "
            "</search>, and directly after it write what a good search engine would show, "
            "<information> your information </information>, then think again. Finish with "
            "<answer> your answer </answer>, only the answer itself. Use no other tags."
        ]
        if view.may_abstain:
            said.append(f"If no answer can be established, answer: {ABSTAIN}.")
        return " ".join(said) + "\n\n"

    # --- reading ------------------------------------------------------------------------------
    def parse(self, text: str) -> Parsed:
        spans: list[Span] = []
        answer: Block | None = None
        for block in blocks(text):
            if block.kind == "information":
                spans.append(Span(MASKED, block.start, block.end))
            elif block.kind == "answer":
                answer = block
            start, end = trim(text, block.inner, block.outer)
            if start < end:
                spans.append(Span(block.kind, start, end))
        action: Action = Invalid(UNANSWERED)
        if answer is not None:
            content = clean(text[answer.inner : answer.outer]).strip()
            action = Answer(content) if content else Invalid("empty answer")
        return Parsed(action, tuple(spans), len(text))

    # --- writing ------------------------------------------------------------------------------
    def render_invalid(self, reason: str) -> str:
        return f"\nThe text holds no answer: {self._line(reason)}.\n"

    def _write_tail(self, passage: Passage) -> str:
        # any other tag in the text would cost the whole format score
        return super()._write_tail(passage).replace("<", "&lt;")

    def _docs(self, hits: Ranking) -> str:
        return super()._docs(hits) or NOTHING

    def render_search(self, query: str, hits: Ranking) -> str:
        """A search and its information block, as a policy would write them."""
        query = self._line(query)
        if not query:
            raise DialectError("a search needs a query that is not empty")
        return f"<search> {query} </search>" + self.render_hits([(query, hits)])

    def render_text(self, searches: Sequence[str], answer: str) -> str:
        """A whole text around searches from ``render_search``, a thought before each and the
        answer."""
        before = "<think> This must be looked up. </think>\n"
        thought = f"What is known now says: {escape_tags(answer).strip()}."
        return "".join(before + s for s in searches) + self.render_action(Answer(answer), thought)
