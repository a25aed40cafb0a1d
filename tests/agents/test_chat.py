"""Agents over OpenAI-compatible servers, against a real HTTP server that answers as told: the JSON
that is sent, what is made of replies of every kind, and what is counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest

from searchgym.core import Episode, run_episode
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, EngineError, EpisodeError
from searchgym.evaluation import EvalResult, caveats, episode_for, evaluate, unreadable
from searchgym.llms import ChatClient, ChatRequest
from searchgym.types import Access, Answer, Call, Failure, Invalid, Search
from searchgym_agents.chat.chat import NOT_POSSIBLE, WRONG_FORM
from searchgym_agents.chat.react import ReActAgent, parse
from searchgym_agents.chat.tool_calling import ABOVE, ToolCallingAgent
from tests.cli.conftest import Cli, cli  # noqa: F401
from tests.engines.loopback import Got, Loopback, Say, serving
from tests.small import CORPUS, PASSAGES, TASKS

pytestmark = pytest.mark.timeout(60)
Body = dict[str, Any]
Model = Callable[[Body], Any]
"""What the server's model says to a request: a message, (message, finish reason), or a ``Say``."""


def reply(message: Any) -> Say:
    if isinstance(message, Say):
        return message
    message, finish = message if isinstance(message, tuple) else (message, "stop")
    usage = {"prompt_tokens": 100, "completion_tokens": 7}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}
    return Say(body=json.dumps(body).encode())


def text(content: str) -> Body:
    return {"role": "assistant", "content": content}


def calls(*uses: tuple[str, Any], content: str | None = None) -> Body:
    """``uses``: (tool, arguments, as an object or as raw text)."""
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {"id": f"server-{i}", "type": "function",
             "function": {"name": n, "arguments": a if isinstance(a, str) else json.dumps(a)}}
            for i, (n, a) in enumerate(uses)
        ],
    }  # fmt: skip


@pytest.fixture
def serve() -> Iterator[Callable[[Model], Loopback]]:
    with ExitStack() as stack:

        def start(model: Model) -> Loopback:
            def answer(got: Got) -> Say:
                if got.path == "/v1/models":
                    return Say(body=b'{"data": [{"id": "the-model"}]}')
                return reply(model(json.loads(got.body)))

            return stack.enter_context(serving(answer))

        yield start


def sent(log: Loopback) -> list[Body]:
    return [json.loads(got.body) for got in log.got if got.path == "/v1/chat/completions"]


def setting(**changes: Any) -> SearchEnv:
    return SearchEnv(**{"corpus": CORPUS, "tasks": list(TASKS), "max_turns": 4, "k": 1, **changes})


def agent(kind: Any, log: Loopback, **options: Any) -> Any:
    return kind(f"{log.url}/v1", "m", **{"backoff_s": 0.01, **options})


def played(player: Any, where: SearchEnv, task: int = 0) -> Episode:
    return run_episode(episode_for(where, where.tasks[task], 0), player, where.toolbox)


def test_a_model_of_another_form_is_told(serve: Any) -> None:
    log = serve(lambda body: text("<search> Aldor founder </search>"))
    result = evaluate(agent(ReActAgent, log), setting(), name="react")
    found = unreadable([result])
    assert found is not None
    assert (found["share"], "Aldor founder" in found["example"]) == (1.0, True)
    assert "Action: search[a query]" in found["expected"]
    assert "100 % of the turns no legal action" in repr(result)
    assert "Most turns were no legal action: react 100 %" in caveats([result])


# --- the exact exchange -----------------------------------------------------------------------
def test_tool_calls_on_the_wire(serve: Any) -> None:
    """Search, page, answer: all that is sent, byte for byte but for the instructions."""

    def model(body: Body) -> Any:
        turn = sum(m["role"] == "assistant" for m in body["messages"])
        return [
            (calls(("search", {"query": "Aldor founder"}), content="First the founder."),
             "tool_calls"),
            calls(("access", {"url": PASSAGES[1].url})),
            calls(("answer", {"answer": "Quell"})),
        ][turn]  # fmt: skip

    log = serve(model)
    where = setting(tools=("search", "access"))
    e = played(agent(ToolCallingAgent, log), where)
    assert e.outcome() is not None
    assert e.outcome().parts["em"] == 1.0  # type: ignore[union-attr]
    bodies = sent(log)
    assert len(bodies) == 3
    first, _, last = bodies
    assert {k: v for k, v in first.items() if k not in ("messages", "tools")} == {
        "model": "m", "max_tokens": 512, "temperature": 0.0, "tool_choice": "auto",
        "parallel_tool_calls": False,
    }  # fmt: skip
    search = where.toolbox.tools["search"].spec
    assert first["tools"][0] == {
        "type": "function",
        "function": {
            "name": "search",
            "description": search.description,
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string", "description": "What to look for."}},
                "required": ["query"],
            },
        },
    }
    assert [t["function"]["name"] for t in first["tools"]] == ["search", "access", "answer"]
    assert first["tools"][-1]["function"]["parameters"]["required"] == ["answer"]
    assert [m["role"] for m in first["messages"]] == ["system", "user"]
    assert first["messages"][1]["content"] == f"Question: {TASKS[0].question}"
    assert last["messages"][:2] == first["messages"], "the beginning stays, for servers' caches"
    results = e.contexts.segments[3].text.strip()
    page = next(s for s in e.contexts.segments if s.kind == "page").text.strip()
    assert last["messages"][2:] == [
        {"role": "assistant", "content": "First the founder.", "tool_calls": [
            {"id": "t000c0000", "type": "function",
             "function": {"name": "search", "arguments": '{"query": "Aldor founder"}'}}]},
        {"role": "tool", "tool_call_id": "t000c0000", "content": results},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "t001c0000", "type": "function",
             "function": {"name": "access", "arguments": json.dumps({"url": PASSAGES[1].url})}}]},
        {"role": "tool", "tool_call_id": "t001c0000", "content": page},
    ]  # fmt: skip
    assert "founded by Mira Venn" in results


def test_react_on_the_wire(serve: Any) -> None:
    def model(body: Body) -> Any:
        turn = sum(m["role"] == "assistant" for m in body["messages"])
        return text(
            ["Thought: who founded it?\nAction: search[Aldor founder]",
             "Thought: born where?\nAction: search[Mira Venn born]\nObservation: in Osten",
             "Thought: done.\nAction: finish[Quell]"][turn]
        )  # fmt: skip

    log = serve(model)
    e = played(agent(ReActAgent, log), setting(dialect="plain"))
    assert e.outcome().parts["em"] == 1.0  # type: ignore[union-attr]
    assert [t.action for t in e.turns] == [
        Search(("Aldor founder",)), Search(("Mira Venn born",)), Answer("Quell"),
    ]  # fmt: skip
    first, second, last = sent(log)
    assert {k: v for k, v in first.items() if k != "messages"} == {
        "model": "m", "max_tokens": 512, "temperature": 0.0, "stop": ["\nObservation:"],
    }  # fmt: skip
    system = first["messages"][0]["content"]
    assert "search[query]" in system
    assert "open[url]" not in system, "there are no pages here"
    assert "4 turns" in system
    assert second["messages"][:2] == first["messages"]
    assert second["messages"][2] == text("Thought: who founded it?\nAction: search[Aldor founder]")
    assert second["messages"][3]["role"] == "user"
    assert second["messages"][3]["content"].startswith("Observation: results for 'Aldor founder'")
    assert "Osten" not in last["messages"][4]["content"], "what it made up itself is cut"


# --- several calls at once --------------------------------------------------------------------
def test_parallel_searches_run_in_one_turn(serve: Any) -> None:
    def model(body: Body) -> Any:
        if any(m["role"] == "tool" for m in body["messages"]):
            return calls(("answer", {"answer": "Quell"}))
        return calls(("search", {"query": "Aldor founder"}), ("search", {"query": "Mira Venn"}))

    log = serve(model)
    player = agent(ToolCallingAgent, log)
    e = played(player, setting(max_parallel=2))
    assert e.turns[0].action == Search(("Aldor founder", "Mira Venn"))
    assert e.outcome().parts["em"] == 1.0  # type: ignore[union-attr]
    first, last = sent(log)
    assert "parallel_tool_calls" not in first
    assistant, one, two = last["messages"][2:]
    assert [c["id"] for c in assistant["tool_calls"]] == ["t000c0000", "t000c0001"]
    assert [m["tool_call_id"] for m in (one, two)] == ["t000c0000", "t000c0001"]
    assert "Aldor founder" in one["content"]
    assert "Mira Venn" in one["content"]
    assert two["content"] == ABOVE
    assert player.usage["left_out"] == 0
    alone = agent(ToolCallingAgent, log)
    e = played(alone, setting())
    assert e.turns[0].action == Search(("Aldor founder",)), "one at a time here"
    assert alone.usage["left_out"] == 1
    assert not any("invalid" in t.reward_parts for t in e.turns)


def test_other_tools_are_called_by_name(serve: Any) -> None:
    use = {"node": "Aldor"}

    def model(body: Body) -> Any:
        if body["messages"][-1]["role"] == "tool":
            return calls(("answer", {"answer": "x"}))
        return calls(("graph_neighbors", use))

    from tests.small import NEIGHBORS, episode, lookup, rules

    log = serve(model)
    player = agent(ToolCallingAgent, log)
    e = episode(tools=(*rules().tools, NEIGHBORS), dialect="json_tools+tools")
    while e.phase != "done":
        (said,) = player.act(e.requests())
        assert isinstance(said, str)
        e.act(said)
        while e.phase == "receive":
            e.receive(lookup(e.pending))
    assert e.turns[0].action == Call("graph_neighbors", use)
    first, last = sent(log)
    names = [t["function"]["name"] for t in first["tools"]]
    assert names == ["search", "access", "graph_neighbors", "answer"]
    assert last["messages"][2]["tool_calls"][0]["function"]["arguments"] == json.dumps(use)
    assert "is joined to" in last["messages"][3]["content"]


# --- what models do wrong ---------------------------------------------------------------------
WRONG: dict[str, tuple[Any, str]] = {
    "no call": (text("The answer is Quell."), "no_call"),
    "broken JSON": (calls(("search", '{"query": ')), "broken_json"),
    "arguments are a list": (calls(("search", "[1]")), "broken_json"),
    "no query": (calls(("search", {"q": "x"})), "broken_arguments"),
    "empty query": (calls(("search", {"query": " "})), "broken_arguments"),
    "unknown tool": (calls(("rm -rf", {})), "unknown_tool"),
    "a tool that is not here": (calls(("browse", {"x": 1})), "not_sayable"),
    "cut short": ((calls(("search", '{"query": "Ald')), "length"), "length"),
    "refusal": ({"role": "assistant", "content": None, "refusal": "I cannot help."}, "refused"),
    "filtered": ((text(""), "content_filter"), "refused"),
    "nothing": (text(""), "no_call"),
    "the dialect's own syntax": (text("<answer> Quell </answer>"), "no_call"),
    "too long a chat": (
        Say(400, b'{"error": {"message": "This model\'s maximum context length is 10 tokens"}}'),
        "no_room",
    ),
}


@pytest.mark.parametrize(
    ("case", "dialect"), list(zip(WRONG, cycle(("search_r1", "plain", "json_tools")), strict=False))
)
def test_wrong_replies_are_invalid_actions(serve: Any, case: str, dialect: str) -> None:
    said, why = WRONG[case]

    def model(body: Body) -> Any:
        return said if len(body["messages"]) == 2 else calls(("answer", {"answer": "Quell"}))

    log = serve(model)
    player = agent(ToolCallingAgent, log)
    e = played(player, setting(dialect=dialect))
    assert isinstance(e.turns[0].action, Invalid)
    assert e.turns[0].reward_parts == {"invalid": 1.0}
    assert e.outcome().parts["em"] == 1.0  # type: ignore[union-attr]
    assert player.usage[f"wrong_{why}"] == 1
    assert WRONG_FORM in sent(log)[1]["messages"][-1]["content"]
    assert sent(log)[1]["messages"][-1]["role"] == "user"


def test_instructions_are_the_same_at_every_turn(serve: Any) -> None:
    """Also at the last one, where nothing can be asked any more: what is shared is not paid for
    twice."""
    log = serve(lambda body: text("Action: search[Aldor]"))
    played(agent(ReActAgent, log), setting(max_queries=3))
    said = {body["messages"][0]["content"] for body in sent(log)}
    assert len(sent(log)) == 4
    assert len(said) == 1


def test_what_the_rules_forbid_is_said_in_the_models_own_terms(serve: Any) -> None:
    def model(body: Body) -> Any:
        tools = [t["function"]["name"] for t in body["tools"]]
        if len(body["messages"]) < 6 and "search" in tools:
            return calls(("search", {"query": "Aldor"}))
        return calls(("answer", {"answer": "Quell"}))

    log = serve(model)
    where = setting(max_queries=1)
    e = played(agent(ToolCallingAgent, log), where)
    assert [type(t.action).__name__ for t in e.turns] == ["Search", "Answer"]
    tools = [[t["function"]["name"] for t in body["tools"]] for body in sent(log)]
    assert tools == [["search", "answer"], ["answer"]], "a spent tool is not offered"

    def stubborn(body: Body) -> Any:
        return text("Action: search[Aldor]")

    log = serve(stubborn)
    e = played(agent(ReActAgent, log), where)
    assert [type(t.action).__name__ for t in e.turns] == ["Search", "Invalid", "Invalid", "Invalid"]
    last = sent(log)[-1]["messages"]
    assert last[-1]["content"] == f"Observation: {NOT_POSSIBLE}"
    assert not any("<search>" in m["content"] for m in last), "the dialect is not shown"


@pytest.mark.parametrize(
    ("said", "action", "thought"),
    [
        ("Thought: a\nAction: search[b]", Search(("b",)), "a"),
        ("thought 1: a\nACTION 1: Search[ b [c] ].", Search(("b [c]",)), "a"),
        ("Action: open[http://x]", Access("http://x"), ""),
        ("Action: finish[Quell]\nAction: search[x]", Answer("Quell"), ""),
        ("Thought: a\nAction: search\nAction Input: \"b\"", Search(("b",)), "a"),
        ("Thought: a\nFinal Answer: Quell", Answer("Quell"), "a"),
        ("<think>\nFinal Answer: Osten?\n</think>\nThought: a\nFinal Answer: Quell",
         Answer("Quell"), "a"),
        ("Action: finish[Osten]\nno\n</think>\nAction: search[a]", Search(("a",)), ""),
        ("<think>\nAction: finish[Osten]", Invalid("no_action"), ""),
        ("Action: search[a]\nObservation: no\nFinal Answer: b", Search(("a",)), ""),
        ('Action: call[{"name": "f", "arguments": {"a": [1]}}]', Call("f", {"a": [1]}), ""),
        ('Action: call[{"name": ]', Invalid("broken_call"), 'Action: call[{"name": ]'),
        ("Action: fly[away]", Invalid("unknown_action"), "Action: fly[away]"),
        ("Action: search[]", Invalid("empty_action"), "Action: search[]"),
        ("Action: search[cut", Invalid("no_action"), "Action: search[cut"),
        ("I think Quell.", Invalid("no_action"), "I think Quell."),
        ("", Invalid("no_action"), ""),
    ],
)  # fmt: skip
def test_reading_react(said: str, action: Any, thought: str) -> None:
    assert parse(said) == (action, thought)


# --- what servers do wrong --------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "fault", "tries"),
    [
        (ReActAgent, Say(503, b"busy", headers=(("Retry-After", "0"),)), 2),
        (ToolCallingAgent, Say(body=b"no json"), 2), (ReActAgent, Say(hang_up=True), 2),
        (ToolCallingAgent, Say(400, b'{"error": "bad field"}'), 1),
        (ReActAgent, Say(body=b'{"choices": []}'), 1),
        (ToolCallingAgent, Say(body=b'{"error": {"message": "overloaded"}}'), 1),
        (ToolCallingAgent, Say(body=b'{"choices": [{"message": {"tool_calls": [{}]}}]}'), 1),
    ],
)  # fmt: skip
def test_a_server_that_fails_loses_episodes_and_scores_nothing(
    serve: Any, kind: Any, fault: Say, tries: int
) -> None:
    """One of two questions fails for good; the other one is scored alone."""

    def model(body: Body) -> Any:
        if TASKS[1].question in body["messages"][1]["content"]:
            return fault
        content = "Action: finish[Quell]"
        return text(content) if kind is ReActAgent else calls(("answer", {"answer": "Quell"}))

    log = serve(model)
    player = agent(kind, log, tries=2)
    where = setting()
    result = evaluate(player, where, name="x")
    ends = {row.task_id: row.end for row in result.rows}
    assert ends == {"t1": "answered", "t2": "infra_error"}
    assert result.infra_errors == 1
    assert (result.means["em"].mean, result.means["em"].n) == (1.0, 1)
    failed = [b for b in sent(log) if TASKS[1].question in b["messages"][1]["content"]]
    assert len(failed) == tries
    assert result.usage["failures"] == 1
    again = EvalResult.from_json(json.loads(json.dumps(result.to_json())))
    assert again.usage == result.usage


def test_a_lost_episode_is_replayed_exactly(serve: Any) -> None:
    log = serve(lambda body: Say(500, b""))
    e = played(agent(ToolCallingAgent, log, tries=1), setting())
    assert e.truncated
    assert e.outcome().end == "infra_error"  # type: ignore[union-attr]
    (failure,) = e.turns[-1].results
    assert isinstance(failure, Failure)
    again = Episode.restore(json.loads(json.dumps(e.snapshot())))
    assert again.turns == e.turns
    assert again.outcome() == e.outcome()
    with pytest.raises(EpisodeError, match="stands in for act"):
        again.fail(failure)


def test_mistakes_of_people_are_errors(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EngineError, match="OPENAI_BASE_URL"):
        ReActAgent()
    with pytest.raises(CardError, match="temprature"):
        ReActAgent("http://127.0.0.1:1/v1", temprature=1)
    with pytest.raises(EngineError, match="a budget needs price_in"):
        ReActAgent("http://127.0.0.1:1/v1", budget=1.0)
    request = episode_for(setting(), TASKS[0], 0).requests()
    refused = agent(ReActAgent, serve(lambda body: Say(401, b"no")))
    with pytest.raises(EngineError, match="refused the key"):
        refused.act(request)
    unknown = agent(ReActAgent, serve(lambda body: Say(404, b'{"error": "no such model"}')))
    with pytest.raises(EngineError, match=r"said 404 for model 'm'.*usually ends in /v1"):
        unknown.act(request)
    own = SearchEnv(**{"corpus": CORPUS, "tasks": list(TASKS), "engine": "self"})
    with pytest.raises(EpisodeError, match="use an environment with an engine"):
        played(unknown, own)


# --- what it costs ----------------------------------------------------------------------------
def test_usage_cost_budget_and_cache(serve: Any, tmp_path: Path) -> None:
    def model(body: Body) -> Any:
        asked = any(m["role"] == "tool" for m in body["messages"])
        return calls(("answer", {"answer": "Quell"}) if asked else ("search", {"query": "Aldor"}))

    log = serve(model)
    prices = {"price_in": 2.0, "price_out": 10.0, "cache": tmp_path / "chats.sqlite"}
    result = evaluate(agent(ToolCallingAgent, log, **prices), setting())
    used = {"requests": 4, "cached": 0, "failures": 0, "prompt_tokens": 400,
            "completion_tokens": 28, "left_out": 0}  # fmt: skip
    cost = (400 * 2.0 + 28 * 10.0) / 1e6
    assert result.usage == {**used, "cost": pytest.approx(cost)}
    again = evaluate(agent(ToolCallingAgent, log, **prices), setting())
    assert len(sent(log)) == 4, "answered from the cache"
    assert again == result
    assert (again.usage["cached"], again.usage["requests"], again.usage["cost"]) == (4, 0, 0.0)
    warmer = evaluate(agent(ToolCallingAgent, log, temperature=0.5, **prices), setting())
    assert warmer.usage["requests"] == 4, "other sampling, other requests"
    prices = {k: v for k, v in prices.items() if k != "cache"}
    poor = agent(ToolCallingAgent, log, budget=0.7 * cost, connections=1, **prices)
    found = evaluate(poor, setting(), batch=1)
    assert found.infra_errors == 1
    assert found.usage["cost"] == pytest.approx(0.75 * cost)


def chats(*texts: str, key: int = 0) -> list[ChatRequest]:
    return [ChatRequest(({"role": "user", "content": t},), {}, key) for t in texts]


def test_a_budget_holds_within_one_batch(serve: Any) -> None:
    log = serve(lambda body: text("yes"))
    dear: dict[str, Any] = {"price_in": 10_000.0, "budget": 5.0}  # a dollar each
    client = ChatClient(f"{log.url}/v1", "m", connections=3, **dear)
    said = client.run(chats(*map(str, range(50))))
    spent = [s for s in said if isinstance(s, Failure)]
    assert all("the budget of $5 is spent" in s.message for s in spent)
    assert 5 <= len(sent(log)) == 50 - len(spent) <= 5 + 2, "calls under way are still paid for"
    assert client.usage["cost"] == len(sent(log))
    assert client.usage["failures"] == len(spent)


@pytest.mark.parametrize(("options", "asked"), [
    ({"temperature": 0.0}, 1), ({"temperature": 0.7}, 2), ({"extra": {"temperature": None}}, 2),
])  # fmt: skip
def test_the_cache_keeps_samples_apart(
    serve: Any, tmp_path: Path, options: dict[str, Any], asked: int
) -> None:
    numbers = count()
    log = serve(lambda body: text(f"reply {next(numbers)}"))
    client = ChatClient(f"{log.url}/v1", "m", cache=tmp_path / "c.sqlite", **options)
    first, other, again = (client.run(chats("q", key=key))[0] for key in (1, 2, 1))
    assert first == again
    assert (first == other) == (asked == 1)
    assert len(sent(log)) == asked


def test_fields_of_ones_own(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    log = serve(lambda body: text("Action: finish[Quell]"))
    extra = {"max_tokens": None, "max_completion_tokens": 9, "stop": None}
    player = agent(ReActAgent, log, extra=extra, seeded=True, seed=5, key_env="SECRET")
    where = setting()
    played(player, where)
    played(player, where)
    played(agent(ReActAgent, log, seeded=True, seed=6), where)
    one, two, other = sent(log)
    assert one["max_completion_tokens"] == 9
    assert not {"max_tokens", "stop"} & set(one)
    assert one["seed"] == two["seed"] != other["seed"]
    assert log.got[0].headers["authorization"] == "Bearer s3cret"
    assert player.fingerprint != agent(ReActAgent, log, seed=6).fingerprint


# --- the command line -------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["react", "tool-calling"])
def test_from_the_command_line(cli: Cli, serve: Any, tmp_path: Path, name: str) -> None:  # noqa: F811
    def model(body: Body) -> Any:
        if len(body["messages"]) > 2:
            return (
                calls(("answer", {"answer": "x"})) if "tools" in body else text("Action: finish[x]")
            )
        question = body["messages"][1]["content"]
        if "tools" in body:
            return calls(("search", {"query": question}))
        return text(f"Thought: look\nAction: search[{question}]")

    log = serve(model)
    done = cli(
        "eval", "SearchQA-v0", "-a", name, "-s", f"agent.base_url={log.url}/v1", "-s",
        "agent.max_tokens=64", "-n", 6, "-s", "world.entities=400", "-s", 'tasks={"simple": 12}',
        "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    (record,) = done.json
    assert record["means"]["searches"]["mean"] == 1.0
    assert record["means"]["invalid"]["mean"] == 0.0
    assert record["means"]["evidence_recall"]["mean"] > 0.5, "it has really searched"
    assert record["infra_errors"] == 0
    assert record["usage"]["requests"] == 12
    assert {b["model"] for b in sent(log)} == {"the-model"}, "the server's only one"
    assert {b["max_tokens"] for b in sent(log)} == {64}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-a", "react"], "base_url='http://127.0.0.1:8000/v1' (-s agent.base_url=…)"),
        (["-a", "rules", "-s", "agent.model=x"], "unknown option of agent 'rules' 'model'"),
        (["-a", "majority", "-s", "agent.model=x"], "takes no options"),
        (["-a", "react", "-s", "agent.model"], "--set takes KEY=VALUE"),
    ],
)
def test_what_is_wrong_is_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    done = cli("eval", "SearchQA-v0", *arguments, "-n", 2, "-s", "world.entities=400", "-s",
               'tasks={"simple": 12}')  # fmt: skip
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err
