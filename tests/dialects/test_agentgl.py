"""AgentGL's marks, tool names and documents."""

from __future__ import annotations

import pytest

from searchgym.dialects.base import get_dialect
from searchgym.errors import DialectError
from searchgym.types import Answer, Call, Hit, Invalid, Passage, Search
from tests.dialects.common import HOSTILE

BEGIN, END = "<|begin_of_query|>", "<|end_of_query|>"
AGENTGL = get_dialect("agentgl")
ROWS = [
    ("1-hop:Lima", Call("graph_neighbors", {"node": "Lima", "hops": 1})),
    ("2-hop: Lima ", Call("graph_neighbors", {"node": "Lima", "hops": 2})),
    ("PageRank:who rules Lima?", Call("graph_rank", {"query": "who rules Lima?", "method": "ppr"})),
    ("similar:a: b", Call("graph_rank", {"query": "a: b", "method": "sim"})),
    (" mayor of Lima ", Search(("mayor of Lima",))),
    ("3-hop:Lima", Search(("3-hop:Lima",))),
    ("1-hop :Lima", Search(("1-hop :Lima",))),
    ("1-hop:", Invalid("nothing to ask 1-hop")),
    ("", Invalid("empty search")),
]


@pytest.mark.parametrize(("inside", "action"), ROWS, ids=[r[0] for r in ROWS])
def test_queries_name_their_tool(inside, action):
    text = f"<think>let me see {BEGIN}{inside}{END} and more"
    parsed = AGENTGL.parse(text)
    assert parsed.action == action
    assert text[: parsed.cut].endswith(END)
    if isinstance(action, Call):
        assert AGENTGL.parse(AGENTGL.render_action(action)).action == action
        (span,) = parsed.spans
        assert text[span.start : span.end] == next(
            v for k, v in action.args.items() if k in ("node", "query")
        )


def test_bytes():
    neighbours = Call("graph_neighbors", {"node": "Lima"})
    assert AGENTGL.render_action(neighbours) == f"{BEGIN}1-hop:Lima{END}"
    assert AGENTGL.render_action(Search(("1-hop:Lima",))) == f"{BEGIN} 1-hop : Lima {END}"
    assert AGENTGL.stop == (END, "</answer>")
    hits = (Hit(Passage("1", "Lima", "capital of: Peru", "u"), 1.0),)
    assert AGENTGL.render_call(neighbours, "", hits) == (
        "\n\n<|begin_of_documents|>\n1. Lima: capital of: Peru\n<|end_of_documents|>\n\n"
    )
    assert AGENTGL.render_call(neighbours, "A — b: C", ()) == (
        "\n\n<|begin_of_documents|>\nA — b: C\n<|end_of_documents|>\n\n"
    )
    assert "Nothing was found." in AGENTGL.render_hits([("q", ())])


@pytest.mark.parametrize(
    "call",
    [
        Call("graph_path", {"a": "x", "b": "y"}),
        Call("graph_neighbors", {"node": "x", "relation": "y"}),
        Call("graph_neighbors", {"node": "x", "hops": 3}),
        Call("graph_neighbors", {"hops": 1}),
        Call("graph_rank", {"query": 3}),
        Call("graph_rank", {"query": " "}),
    ],
)
def test_other_calls_have_no_words(call):
    with pytest.raises(DialectError, match="writes graph_neighbors"):
        AGENTGL.render_action(call)


def test_documents_cannot_close_their_wrapper():
    for hostile in HOSTILE:
        _cannot_close(hostile)


def _cannot_close(hostile):
    hits = (Hit(Passage(hostile, hostile, hostile, hostile), 1.0),)
    shown = AGENTGL.render_call(Call("graph_rank", {"query": hostile}), hostile, hits)
    assert shown.count("<|begin_of_documents|>") == shown.count("<|end_of_documents|>") == 1
    assert shown.count("<|") == 2
    own = AGENTGL.render_action(Answer("Quito"))
    assert AGENTGL.parse(shown + own).action == Answer("Quito")
