"""Calls of tools by name: what the episode allows, shows, counts and replays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from searchgym.core.episode import Episode
from searchgym.core.trajectory import Trajectory
from searchgym.dialects import get_dialect
from searchgym.envs import step_info
from searchgym.errors import CardError, EpisodeError
from searchgym.rewards import Reward
from searchgym.tools import AccessTool, SearchTool
from searchgym.types import Answer, Call, Failure, ToolResult
from searchgym.utils.arguments import argument_error, check_schema
from tests.small import NEIGHBORS, TASKS, episode, lookup, play

TOOLS = (SearchTool.spec, AccessTool.spec, NEIGHBORS)
CALL = Call("graph_neighbors", {"node": "Aldor", "hops": 2})
DIALECTS = ["search_r1+tools", "asearcher+tools", "agentgl", "json_tools+tools", "plain+tools"]


def ask(e: Episode, *calls: Call) -> Episode:
    dialect = get_dialect(e.config.rules.dialect)
    return play(e, *map(dialect.render_action, calls))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_is_run_shown_escaped_and_counted(dialect):
    e = episode(dialect=dialect, tools=TOOLS, max_queries=3,
                reward=Reward.of({"em": 1.0, "call": -0.25, "search": -1.0}))  # fmt: skip
    assert e.queries_left == 3
    text = get_dialect(dialect).render_action(CALL)
    (call,) = e.act(text)
    assert (call.tool, call.args) == ("graph_neighbors", {"node": "Aldor", "hops": 2})
    e.receive(lookup([call]))
    turn = e.turns[-1]
    assert (turn.action, turn.reward, turn.reward_parts) == (CALL, -0.25, {"call": 1.0})
    assert "Aldor is joined to" in e.delta
    assert type(get_dialect(dialect).parse(e.delta).action).__name__ == "Invalid"
    assert (e.queries, e.queries_left) == (1, 2)
    info = step_info(e)
    assert (info["action"], info["tool"], info["valid"]) == ("Call", "graph_neighbors", True)
    assert [s.kind for s in e.contexts.segments][-1] == "results"
    ask(e, CALL, CALL, CALL)
    assert "budget" in e.turns[-1].action.reason
    assert e.queries == 3
    assert step_info(e)["queries_left"] == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_replay_fork_and_snapshot(dialect):
    e = ask(episode(dialect=dialect, tools=TOOLS), CALL, CALL)
    states = [call.ctx.state for turn in e.turns for call in turn.calls]
    assert states == [None, {"asked": 1}]  # handed back by the tool, kept by the episode
    copy = Episode.restore(json.loads(json.dumps(e.snapshot())))
    assert copy.turns == e.turns
    assert copy.contexts.segments == e.contexts.segments
    record = json.loads(json.dumps(Trajectory.of(e).to_json()))
    assert Trajectory.from_json(record).replay().turns == e.turns
    assert record["turns"][0]["action"] == ["Call", "graph_neighbors", dict(CALL.args)]
    text = get_dialect(dialect).render_action(CALL)
    keys = [x.act(text)[0].ctx.key for x in (e, copy, e.fork(at=2), copy.fork(branch=3))]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    early = e.fork(at=1)
    assert len(early.turns) == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "the argument 'node' is missing"),
        ({"node": 3}, "'node' must be a text, got 3"),
        ({"node": "x", "hops": "2"}, "'hops' must be a whole number, got the text '2'"),
        ({"node": "x", "hops": 3}, "'hops' must be at most 2, got 3"),
        ({"node": "x", "hops": True}, "'hops' must be a whole number, got True"),
        ({"node": "x", "hop": 1}, "there is no argument 'hop'; did you mean 'hops'?"),
    ],
)
def test_wrong_arguments_are_the_policys_mistake(args, said):
    for dialect in ("search_r1+tools", "json_tools+tools", "plain+tools"):
        e = ask(episode(dialect=dialect, tools=TOOLS), Call("graph_neighbors", args))
        assert said in e.turns[0].action.reason
        assert e.turns[0].calls == ()
        assert e.turns[0].reward_parts == {"invalid": 1.0}
        assert e.queries == 0
        assert "graph_neighbors" in e.delta


def test_only_tools_of_the_episode_can_be_called():
    e = ask(episode(dialect="search_r1+tools", tools=TOOLS), Call("graph_neighbour", {"node": "x"}))
    reason = e.turns[0].action.reason
    assert "mean 'graph_neighbors'? Known: access, answer, graph_neighbors, search" in reason
    text = '<tool>{"name": "search", "arguments": {"query": "x"}}</tool>'
    assert "form of its own" in play(e, text).turns[1].action.reason
    off = ask(episode(dialect="search_r1+tools", tools=TOOLS, search_enabled=False), CALL)
    assert "unknown tool" in off.turns[0].action.reason
    assert off.requests()[0].queries_left == 0
    without = play(episode(tools=TOOLS), get_dialect("search_r1+tools").render_action(CALL))
    assert without.turns[0].action.reason == "no closed action tag"


def test_tools_alone_are_worth_asking():
    e = episode(dialect="json_tools+tools", tools=(NEIGHBORS,))
    assert e.queries_left is None
    assert "not possible" not in e.observation()
    assert episode(tools=(AccessTool.spec,)).queries_left == 0
    last = episode(dialect="json_tools+tools", tools=(NEIGHBORS,), max_turns=1)
    assert ask(last, CALL).outcome().end == "max_turns"
    assert last.turns[0].calls == ()


def test_a_failing_tool_is_tried_again_and_then_the_episode_ends():
    e = episode(dialect="json_tools+tools", tools=TOOLS, max_retries=1)
    e.act(get_dialect("json_tools+tools").render_action(CALL))
    e.receive([Failure("timeout", "slow")])
    assert e.pending[0].ctx.attempt == 1
    e.receive(lookup(e.pending))
    assert e.phase == "act"
    e.act(get_dialect("json_tools+tools").render_action(CALL))
    e.receive([Failure("rejected", "no", retryable=False)])
    assert e.outcome().end == "infra_error"
    with pytest.raises(EpisodeError):
        e.act("x")


def test_long_output_is_cut_and_judged_output_hidden():
    e = episode(dialect="search_r1+tools+judge", tools=TOOLS, judge=True, page_chars=20)
    e.act(get_dialect("search_r1+tools").render_action(CALL))
    e.receive([ToolResult(("z" * 99,))])
    assert e.delta.count("z") == 20
    play(e, "<judge>bad</judge>")
    assert "zzz" not in e.observation()
    assert play(e, "<answer>Quell</answer>").outcome().parts["em"] == 1.0


def test_a_shown_fact_counts_as_its_passage():
    """Tools that show facts rather than passages say which; exact credit needs no more."""
    from dataclasses import replace

    from searchgym.types import GraphEdge, GraphNode, ReasoningGraph

    nodes = (GraphNode("a", "city", "Aldor", True), GraphNode("b", "person", "Mira Venn"))
    graph = ReasoningGraph(nodes, (GraphEdge("a", "founder", "b", 17, "p1"),), "b")
    e = episode(replace(TASKS[0], graph=graph), dialect="json_tools+tools", tools=TOOLS)
    text = get_dialect("json_tools+tools").render_action(CALL)
    e.act(text)
    e.receive([ToolResult(("no such thing",), meta={"facts": [16]})])
    assert e.missing_evidence == ("p1", "p2")
    e.act(text)
    e.receive([ToolResult(("Aldor — founder: Mira Venn",), meta={"facts": [16, 17]})])
    assert e.missing_evidence == ("p2",)
    assert e.turns[-1].reward_parts == {"call": 1.0, "evidence": 0.5}


# --- schemas ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], "'x[1]' must be a text"),
        ({"type": "array", "maxItems": 1}, ["a", "b"], "at most 1 items"),
        ({"type": "string", "minLength": 1}, "", "at least 1 characters"),
        ({"type": "string", "enum": ["a", "b"]}, "c", "one of a, b, got the text 'c'"),
        ({"type": "number"}, float("inf"), "must be a number"),
        ({"type": "number"}, True, "must be a number"),
        ({"type": "integer"}, 1.0, "must be a whole number"),
        ({"type": "boolean"}, 0, "true or false"),
        ({"type": "object", "properties": {"y": {"type": "null"}}}, {"y": 1}, "'x.y' must be null"),
        ({"type": "object", "properties": {}}, {"y": 1}, "no argument 'x.y'"),
        ({"type": "integer", "minimum": 2}, 1, "at least 2"),
    ],
)
def test_misfits_are_named(schema, value, said):
    assert said in argument_error({"type": "object", "properties": {"x": schema}}, {"x": value})


def test_what_fits():
    schema = {"type": "object", "properties": {
        "n": {"type": "number"}, "l": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "object"}, "any": {}}, "additionalProperties": True}  # fmt: skip
    check_schema(schema, "t")
    good = {"n": 1, "l": [1, 2], "o": {"deep": [1]}, "any": None, "other": "x"}
    assert argument_error(schema, good) is None
    assert argument_error({}, {}) is None


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {"x": {"patern": "a"}}}, r"t.properties.x: .* 'patern'.*'pattern'"),
        (
            {"properties": {"x": {"items": {"format": "hue"}}}},
            r"t.properties.x.items.format: 'hue'",
        ),
        ({"type": "text"}, r"t.type: 'text'"),
        ({"items": 3}, r"t.items: 3"),
        ({"anyOf": []}, r"t.anyOf: \[\]"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, r"t: \$ref '#/\$defs/b' leads to nothing"),
        ({"$ref": "http://127.0.0.1:9/s.json"}, r"t.\$ref: 'http"),
        ([], "t: a schema is a mapping"),
    ],
)
def test_schemas_that_cannot_be_checked_are_refused(schema: Any, said: str) -> None:
    with pytest.raises(CardError, match=said):
        check_schema(schema, "t")


def test_a_schema_of_parts_is_closed_as_well() -> None:
    place = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}}}
    schema = {
        "$defs": {"place": place},
        "properties": {"at": {"$ref": "#/$defs/place"}, "to": {"type": ["string", "null"]}},
        "allOf": [{"properties": {"n": {"const": 3}}}],
    }
    check_schema(schema, "t")
    assert argument_error(schema, {"at": {"name": "x"}, "to": None, "n": 3}) is None
    assert "must be a text or null, got 3" in str(argument_error(schema, {"to": 3}))
    assert "'at.name': 'X' does not match" in str(argument_error(schema, {"at": {"name": "X"}}))
    assert "'z' was unexpected" in str(argument_error(schema, {"at": {"z": 1}}))
    assert "'q' was unexpected" in str(argument_error(schema, {"q": 1}))


def test_arguments_however_deep_are_judged() -> None:
    schema = {"properties": {"x": {"type": "array", "items": {"$ref": "#/properties/x"}}}}
    check_schema(schema, "t")
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert argument_error(schema, {"x": deep}) == "the arguments are nested too deeply"
    assert argument_error(schema, {"x": [[], [[]]]}) is None


def test_a_validator_is_built_once_for_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = [{"properties": {"x": {"minimum": i}}} for i in range(300)]
    for i, schema in enumerate(schemas):
        assert argument_error(schema, {"x": i}) is None
        assert argument_error(schema, {"x": i - 1}) == f"'x' must be at least {i}, got {i - 1}"
    monkeypatch.setattr("searchgym.utils.arguments._compiled", None)
    assert argument_error(schemas[-1], {"x": 0}) == "'x' must be at least 299, got 0"


def test_answers_end_as_ever():
    e = ask(episode(dialect="agentgl", tools=TOOLS), CALL)
    play(e, get_dialect("agentgl").render_action(Answer("Quell")))
    assert e.outcome().parts["format"] == 1.0


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"properties": []}, r"t\.properties: "),
        ({"properties": {"a": {"minimum": "3"}}}, r"t\.properties\.a\.minimum: "),
        ({"properties": {"a": {"maxLength": 2.5}}}, r"t\.properties\.a\.maxLength: "),
        ({"required": "abc"}, r"t\.required: "),
        ({"enum": 3}, r"t\.enum: "),
        ({"additionalProperties": 3}, r"t\.additionalProperties: "),
    ],
)
def test_keywords_with_other_values_are_refused(schema: dict[str, object], where: str) -> None:
    with pytest.raises(CardError, match=f"^{where}"):
        check_schema(schema, "t")
