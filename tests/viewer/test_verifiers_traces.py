"""verifiers' newer layout: episodes of several traces, each a graph of messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.errors import DataError
from searchgym.viewer.formats import RecordBytes, blocks, detect, parse, sources
from searchgym.viewer.formats.verifiers_traces import NAME, pieces
from searchgym.viewer.index import Index
from searchgym.viewer.record import Record

TASK = {
    "type": "WikiTask", "key": "k3", "hash": "ab12",
    "data": {"idx": 3, "prompt": "Who founded Aldor?", "system_prompt": "Be brief.",
             "answer": "Mira Venn", "network_allow": ["*"], "timeout": {}},
}  # fmt: skip
CALL = {"id": "1", "type": "function", "name": "search", "arguments": '{"q": "Aldor"}'}
LONG = "Aldor – für Ödön – was founded by Mira Venn."


def node(parent: int | None, role: str, content: str, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **more.pop("message", {})}
    start = {} if parent is None else {"parent": parent}
    empty: dict[str, Any] = {"token_ids": [], "mask": [], "is_content": [], "logprobs": []}
    return {**start, "message": message, "sampled": False, "timestamp": 1.5, **empty, **more}


def call(at: int, why: str = "stop", **more: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "cost": 0.001}
    return {"node": at, "model": "small-1", "finish_reason": why, "usage": usage, **more}


NODES = [
    node(None, "system", "Be brief."),
    node(0, "user", "Who founded Aldor?"),
    node(1, "assistant", "Let me see.", sampled=True, advantages=[0.5, 0.7],
         message={"reasoning_content": "hm", "tool_calls": [CALL]}),
    node(2, "tool", LONG, message={"tool_call_id": "1", "name": "search"}),
    node(3, "assistant", "Mira Venn", sampled=True),
]  # fmt: skip


def trace(name: str, **more: Any) -> dict[str, Any]:
    return {
        "version": 1, "id": name, "verifiers": {"version": "0.4.0"}, "task": TASK,
        "agent": {"config": {"harness": {"id": "null"}}, "name": "agent", "trainable": True},
        "tools": [], "nodes": NODES, "calls": [call(2, "tool_calls"), call(4)],
        "rewards": {"right": {"score": 1.0, "weight": 0.5}}, "metrics": {"judge": 1.0}, "info": {},
        "is_completed": True, "ok": True, "stop_condition": "agent_completed", "errors": [],
        "timing": {"start": 4.0, "agent": {"start": 5.0, "end": 7.5}}, **more,
    }  # fmt: skip


def episode(name: str, *traces: dict[str, Any], **more: Any) -> str:
    """A line as the library writes it: no spaces, characters as they are."""
    made = {"id": name, "env": {"id": "wiki"}, "task": TASK, "ok": True, "errors": [],
            "traces": list(traces), **more}  # fmt: skip
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n"


def read(path: Path) -> list[Record]:
    assert detect(path) == NAME
    return [parse(block.data, NAME, str(path)) for block in blocks(path, NAME)]


def test_a_trace_says_who_asked_what_and_got_which_reward(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(episode("e", trace("t")), "utf-8")
    (found,) = read(path)
    assert [(t.action, t.detail, t.context) for t in found.turns] == [
        ("Search", "Aldor", 0), ("Answer", "Mira Venn", 0),
    ]  # fmt: skip
    assert [o.text for o in found.turns[0].observations] == [LONG]
    assert "<think>hm</think>" in found.turns[0].text
    assert found.turns[0].advantage == pytest.approx(0.6)
    assert [o.kind for o in found.prompt] == ["system", "user"]
    assert (found.task, found.question, found.answers, found.answer) == (
        "WikiTask-3", "Who founded Aldor?", ("Mira Venn",), "Mira Venn",
    )  # fmt: skip
    assert (found.id, found.agent, found.end, found.searches) == ("t", "small-1", "completed", 1)
    assert (found.reward, dict(found.parts)) == (0.5, {"right": 1.0, "judge": 1.0})
    assert found.facts["seconds"] == "2.5"
    assert found.facts["tokens written"] == "8"


def test_paths_of_a_trace_are_contexts(tmp_path: Path) -> None:
    """Another try of the second turn, then a context that was written anew."""
    nodes = [
        *NODES,
        node(3, "assistant", "Osten", sampled=True),
        node(None, "user", "So far: Aldor."),
        node(6, "assistant", "Quell", sampled=True),
    ]
    path = tmp_path / "traces.jsonl"
    path.write_text(episode("e", trace("t", nodes=nodes, root_reply="Mira Venn")), "utf-8")
    (found,) = read(path)
    assert [(t.detail, t.context) for t in found.turns] == [
        ("Aldor", 0), ("Mira Venn", 0), ("Osten", 1), ("Quell", 2),
    ]  # fmt: skip
    assert [o.text for o in found.turns[2].observations] == ["So far: Aldor."]
    assert found.answer == "Mira Venn"


@pytest.mark.parametrize(
    ("changes", "end", "outcome"),
    [
        ({"ok": False, "errors": [{"type": "Timeout", "message": "gone"}]}, "infra_error", "lost"),
        ({"errors": [{"type": "Timeout", "message": "tried again"}]}, "completed", "partly"),
        ({"stop_condition": "max_turns"}, "max_turns", "partly"),
        ({"stop_condition": "agent_timeout", "is_timeout": True}, "agent_timeout", "partly"),
        ({"calls": [call(2), call(4, "length")]}, "max_tokens", "partly"),
        ({"is_completed": False}, "unfinished", "partly"),
        ({"rewards": {}, "metrics": {}}, "completed", "unscored"),
        ({"rewards": {"right": None}}, "completed", "unscored"),
    ],
)
def test_how_it_ended(tmp_path: Path, changes: Any, end: str, outcome: str) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(episode("e", trace("t", **changes)), "utf-8")
    (found,) = read(path)
    assert (found.end, found.outcome) == (end, outcome)


def test_failed_calls_stand_where_they_failed(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    failed = {"error": {"type": "ProviderError", "message": "busy"}}
    calls = [call(2, "tool_calls"), failed, call(4)]
    path.write_text(episode("e", trace("t", calls=calls)), "utf-8")
    (found,) = read(path)
    assert [t.failures for t in found.turns] == [["ProviderError: busy"], []]
    assert found.problems == ("failure",)


def test_every_trace_is_found_again_by_the_index(tmp_path: Path) -> None:
    """Several of a line, of other agents; a line of none; and what is added later."""
    other = {"config": {"model": "big"}, "name": "judge"}
    run = tmp_path / "wiki--small"
    run.mkdir()
    path = run / "traces.jsonl"
    broken = episode("none", ok=False, errors=[{"type": "Boot", "message": "no box"}])
    path.write_text(episode("a", trace("t1"), trace("t2", agent=other)) + broken, "utf-8")
    index = Index(run)
    rows = index.rows("SELECT key FROM episodes ORDER BY offset")
    found = [index.record(row["key"]) for row in rows]
    assert [(f.id, f.agent, f.end) for f in found if f] == [
        ("t1", "small-1", "completed"), ("t2", "judge (big)", "completed"),
        ("none", "wiki--small", "infra_error"),
    ]  # fmt: skip
    assert found[2] is not None
    assert found[2].facts == {"error": "Boot: no box"}
    assert json.loads(index.raw(rows[1]["key"], 1 << 20))["id"] == "t2"
    with path.open("a", encoding="utf-8") as file:
        file.write(episode("b", trace("t3"), trace("t4")) + episode("c", trace("t5"))[:-40])
    index.refresh()
    keys = [r["key"] for r in index.rows("SELECT key FROM episodes ORDER BY offset")]
    assert [f.id for k in keys if (f := index.record(k))] == ["t1", "t2", "none", "t3", "t4"]
    with path.open("a", encoding="utf-8") as file:
        file.write(episode("c", trace("t5"))[-40:])
    index.refresh()
    assert index.rows("SELECT count(*) AS n FROM episodes")[0]["n"] == 6
    assert sources(path)[0].agent == "wiki--small"


def test_a_broken_trace_is_named(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(episode("e", trace("t")) + episode("f", {"id": "u"}), "utf-8")
    with pytest.raises(DataError, match=r"not a record of verifiers_traces: no 'task'"):
        read(path)
    path.write_text(episode("e", trace("t")) + '{"env": {}, "traces": [{"id": 1]}\n', "utf-8")
    with pytest.raises(DataError, match=r"not a record of verifiers_traces"):
        read(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(VALUES, max_size=4),
    st.dictionaries(st.text(), VALUES, max_size=3),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_pieces_are_the_traces_whatever_stands_around_them(
    traces: list[Any], more: dict[str, Any], escaped: bool, indent: int | None
) -> None:
    value = {**more, "inner": {"traces": [1]}, "traces": traces, "last": "traces"}
    line = json.dumps(value, ensure_ascii=escaped, indent=indent).encode("utf-8", "surrogatepass")
    found = [line[start:end] for start, end in pieces(line)]
    if traces:
        assert [json.loads(piece) for piece in found] == traces
    else:
        assert found == [line]


def test_blocks_say_where_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    first, second = episode("a", trace("t1"), trace("t2")), episode("b", trace("t3"))
    path.write_text(first + second, "utf-8")
    found = list(blocks(path, NAME))
    ends = len(first.encode()), path.stat().st_size
    assert [block.then for block in found] == [None, *ends]
    text = path.read_bytes()
    for block in found:
        assert isinstance(block, RecordBytes)
        assert text[block.offset : block.offset + len(block.data)] == block.data
    assert [b.data for b in blocks(path, NAME, ends[0])] == [found[2].data]
