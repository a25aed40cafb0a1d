"""What the suites below share: every dialect variant, any text, what any parse must satisfy."""

from __future__ import annotations

import json
from itertools import combinations

from hypothesis import strategies as st

from searchgym.dialects.base import DIALECTS, Dialect, View
from searchgym.types import (
    Action,
    Call,
    Invalid,
    Judge,
    Parsed,
    Search,
    ToolSpec,
)
from tests.fuzzing import FRAGMENTS


def _variants() -> list[str]:
    """Each registered dialect bare, with each option, and with all of them."""
    names = []
    for base, where in DIALECTS.items():
        module, _, attribute = where.partition(":")
        flags = getattr(__import__(module, fromlist=[attribute]), attribute).FLAGS
        chosen = {(), *combinations(flags, 1), tuple(flags)}
        names += sorted("+".join((base, *picked)) for picked in chosen)
    return names


NAMES = _variants()
VIEW = View(
    tools=(
        ToolSpec("search", "Search.", {"type": "object"}),
        ToolSpec("access", "Open.", {"type": "object"}),
        ToolSpec("graph_rank", "Rank <entities>.", {"type": "object"}),
    ),
    max_parallel=3,
    k=3,
    turns_left=5,
    queries_left=None,
    judge=True,
    delegate=True,
    role="agent",
    may_abstain=True,
)


TEXT = st.one_of(
    st.text(max_size=60),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=8)), max_size=8).map("".join),
)


def check(parsed: Parsed, text: str, dialect: Dialect) -> None:
    """What holds for any parse of any text."""
    assert 0 <= parsed.cut <= len(text)
    assert type(parsed.action) in dialect.renders | {Invalid}
    last = 0
    for span in parsed.spans:
        assert last <= span.start < span.end <= parsed.cut
        content = text[span.start : span.end]
        assert content == content.strip()
        last = span.end
    action = parsed.action
    if isinstance(action, Invalid):
        assert action.reason
        dialect.render_invalid(action.reason).encode()
    elif isinstance(action, Search):
        assert action.queries
        assert all(q and q == q.strip() for q in action.queries)
    elif isinstance(action, Call):
        assert action.tool
        json.dumps(action.args, allow_nan=False, ensure_ascii=False).encode()
        same = dialect.canonical(action)
        assert dialect.canonical(same) == same
    elif not isinstance(action, Judge):
        assert action[0]
        assert action[0] == action[0].strip()
    repr(action).encode()
    for value in () if isinstance(action, (Invalid, Judge)) else _texts(action):
        value.encode()  # no lone surrogate reaches an engine


def _texts(action: Action) -> tuple[str, ...]:
    return action.queries if isinstance(action, Search) else (str(action[0]),)
