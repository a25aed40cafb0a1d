"""Tools around tools: degraded by dials, decoys that do nothing, answers on record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from searchgym.core import run_tools
from searchgym.dialects import get_dialect
from searchgym.errors import CardError, EngineError
from searchgym.tools import TOOLS, Tool, ToolContext, decoys, make_tool, make_toolbox
from searchgym.tools.wrappers import falsified
from searchgym.types import Call, CallContext, Failure, ToolCall, ToolResult, ToolSpec
from searchgym.utils.trust import registered_only
from tests.small import CORPUS

from .playing import DIALECT, SMALL, begin, call, context

ECHO = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Echo(Tool):
    """Says what it is told, counts its calls and can be switched off."""

    spec = ToolSpec("echo", "Say it again.", ECHO)
    time_limit = None
    asked = 0

    def use(self, args: Any, state: Any) -> ToolResult:
        type(self).asked += 1
        return ToolResult((args["text"],), cost=0.5, state=(state or 0) + 1)


ECHOED = "tests.tools.test_wrappers:Echo"


def calls(count: int, text: str = "Quell: 4120", **params: float) -> list[ToolCall]:
    return [
        ToolCall("echo", {"text": text}, 0, CallContext(7, "e", params, None, None, 0, (0, 0, i)))
        for i in range(count)
    ]


def degraded(**dials: Any) -> Any:
    return make_tool({"use": "degraded", "tool": ECHOED, **dials}, context())


# --- degraded -------------------------------------------------------------------------------------
def test_without_dials_it_is_the_tool_itself() -> None:
    batch = calls(50)
    assert degraded().run(batch) == Echo().run(batch)
    assert degraded().spec == Echo.spec


@pytest.mark.parametrize("dial", ["fail", "lie", "delay", "outage"])
def test_each_dial_strikes_as_often_as_it_says(dial: str) -> None:
    batch = calls(2_000)
    results = degraded(**{dial: 0.1}).run(batch)
    struck = [r for r in results if isinstance(r, Failure) or r.meta.get("degraded")]
    assert 150 < len(struck) < 250
    by_params = degraded().run(calls(2_000, **{f"tool_{dial}": 0.1}))
    assert by_params == results, "an episode's parameter is the dial"
    assert degraded(**{dial: 0.1}).run(batch[::-1])[::-1] == results, "in any batching"
    told = {"fail": "fail", "lie": "lie", "delay": "latency"}
    for result in struck:
        if dial == "outage":
            assert result[0] == "unavailable"
        else:
            assert list(result.meta["degraded"]) == [told[dial]]
    if dial == "fail":
        assert (struck[0].cost, struck[0].state) == (0.0, None)
        assert "does not work at the moment" in struck[0].parts[0]
    if dial == "lie":
        assert (struck[0].cost, struck[0].state) == (0.5, 1)
        assert all(len(r.parts[0].split(": ")[1]) == 4 and "4120" not in r.parts[0] for r in struck)
        assert not any("Quell" in r.parts[0] for r in struck)


def test_slow_calls_time_out() -> None:
    results = degraded(delay=1.0, delay_s=2.0, timeout_s=3.0).run(calls(500))
    late = [r for r in results if isinstance(r, Failure)]
    in_time = [r for r in results if not isinstance(r, Failure)]
    assert {r.kind for r in late} == {"timeout"}
    assert 60 < len(late) < 170  # exp(-1.5) of them
    for r in in_time:
        assert r.cost == 0.5
        assert r.meta["degraded"]["latency"] <= 3.0


@pytest.mark.parametrize(
    ("true", "same"),
    [("1931-03-12", False), ("12", False), ("0", False), ("yes", False), ("no", False),
     ("title | n\nQuell | 7", False), ("Aldor", False), ("No rows.", True), ("", True),
     ("9" * 5000, False), ("a yesterday", True)],
)  # fmt: skip
def test_lies_are_other_facts_of_the_same_form(true: str, same: bool) -> None:
    for key in range(40):
        said = falsified(true, key, CORPUS)
        assert (said == true) == same
        assert said == falsified(true, key, CORPUS)
        if true[:1].isdigit():
            assert len(said) == len(true)
            assert said[0] != "0" or true == "0" or len(true) == 10


def test_dials_and_tools_that_do_not_fit_are_named() -> None:
    for wrong, said in (
        ({"fail": 1.5}, "probability in"), ({"lie": -1}, "probability in"),
        ({"delay": True}, "'delay' .* is a number, got True"),
    ):  # fmt: skip
        with pytest.raises(CardError, match=said):
            degraded(**wrong)
    with pytest.raises(CardError, match="probability in"):
        degraded().run(calls(1, tool_lie=2.0))
    with pytest.raises(CardError, match="degraded by its engine"):
        make_tool({"use": "degraded", "tool": "search"}, context())
    with pytest.raises(CardError, match="'fall'"):
        make_tool({"use": "degraded", "tool": ECHOED, "fall": 1}, context())


def test_an_episode_tells_what_struck_and_replays() -> None:
    tools = ["search", {"use": "degraded", "tool": ECHOED, "lie": 1.0, "delay": 1.0}]
    env = gym.make("SearchQA-v0", tools=tools, dialect=DIALECT, **SMALL)
    env.reset(seed=3)
    said = get_dialect(DIALECT).render_action(Call("echo", {"text": "Quell 4120"}))
    *_, info = env.step(said)
    assert "4120" not in info["delta"]
    assert info["degraded"].keys() == {"lie", "latency"}
    again = gym.make("SearchQA-v0", tools=tools, dialect=DIALECT, **SMALL)
    again.reset(seed=3)
    assert again.step(said)[4] == info
    fork = env.unwrapped.fork()
    assert env.step(said)[4]["delta"] == fork.step(said)[4]["delta"] != info["delta"]


# --- decoys ---------------------------------------------------------------------------------------
def test_decoys_are_told_apart_from_real_tools_by_use_alone() -> None:
    real = ["calculator", ECHOED]
    toolbox = make_toolbox([*real, *decoys(real, 20)], context())
    assert len(toolbox.tools) == 22
    again = make_toolbox([*real, *json.loads(json.dumps(decoys(real, 20)))], context())
    assert again.specs(tuple(again.tools)) == toolbox.specs(tuple(toolbox.tools))
    specs = [tool.spec for tool in toolbox.tools.values()]
    assert len({spec.description for spec in specs}) >= 18
    for spec in specs[2:]:
        original = specs[0] if "calculator" in spec.name else specs[1]
        assert spec.parameters == original.parameters
        assert original.description in spec.description
    for name, args in (("quick_echo", {"text": "x"}), ("calculator_plus", {"expression": "1"})):
        (result,) = toolbox.run([ToolCall(name, args, 0, CallContext(0, "", {}))])
        assert result == ToolResult(("No result.",))
    with pytest.raises(CardError, match="whole number from 0"):
        make_tool({"use": "decoy", "of": "calculator", "number": -1}, context())
    with pytest.raises(CardError, match="at least one"):
        decoys([], 2)


def test_the_axis_tools_offers_as_many_decoys_as_it_says() -> None:
    tools = ["search", ECHOED, *decoys([ECHOED], 6)]
    env = gym.make("SearchQA-v0", tools=tools, dialect=DIALECT, **SMALL)
    for offered in (2, 5, 8):
        observation, _ = env.reset(seed=0, options={"params": {"tools": offered}})
        assert observation.count("Say it again.") == offered - 1
    e, toolbox = begin(ECHOED, *decoys([ECHOED], 1))
    assert call(e, toolbox, "echo_plus", text="5") == "No result."
    assert call(e, toolbox, "echo", text="5") == "5"
    assert e.tool_states == {"echo": 1}, "a decoy does nothing"


# --- recorded -------------------------------------------------------------------------------------
def test_a_recording_replays_without_the_tool(tmp_path: Path, monkeypatch: Any) -> None:
    path = str(tmp_path / "calls.sqlite")
    spec = {"use": "recorded", "tool": ECHOED, "path": path}

    def play(mode: str, *texts: str) -> Any:
        e, toolbox = begin({**spec, "mode": mode})
        for text in texts:
            e.act(get_dialect(DIALECT).render_action(Call("echo", {"text": text})))
            run_tools([e], toolbox)
        return e

    first = play("replay_or_live", "a", "b", "a")
    asked = Echo.asked
    assert play("replay_or_live", "a", "b", "a").snapshot() == first.snapshot()
    assert Echo.asked == asked, "the second time nothing was asked"

    def broken(self: Any, args: Any, state: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(Echo, "use", broken)
    replayed = play("replay", "a", "b", "a")
    assert json.dumps(replayed.snapshot()) == json.dumps(first.snapshot())
    assert replayed.tool_states == {"echo": 3}, "what became of the state is on record"
    missed = play("replay", "b")  # recorded after another call, so with another state
    assert missed.outcome().end == "infra_error"
    assert "not recorded" in missed.turns[-1].results[0].message


def test_what_changes_answers_is_another_recording(tmp_path: Path) -> None:
    path = str(tmp_path / "calls.sqlite")
    spec = {"use": "recorded", "tool": "calculator", "path": path}
    tool = make_tool(spec, context())
    asked = ToolCall("calculator", {"expression": "1 + 1"}, 0, CallContext(0, "", {}))
    assert tool.run([asked])[0].parts == ("2",)  # type: ignore[union-attr]
    with pytest.raises(EngineError, match="holds nothing answered by"):
        make_tool({**spec, "tool": ECHOED, "mode": "replay"}, context())
    with pytest.raises(EngineError, match="degraded"):
        make_tool({**spec, "tool": {"use": "degraded", "tool": "calculator"}}, context())
    noisy = make_tool({"use": "degraded", "tool": spec, "lie": 1.0}, context())
    assert noisy.run([asked])[0].parts != ("2",)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["calculator", "search", "access"])
def test_every_kind_of_tool_can_be_recorded(name: str, tmp_path: Path) -> None:
    there = ToolContext(CORPUS, context().engine)
    tool = make_tool({"use": "recorded", "tool": name, "path": str(tmp_path / "x.db")}, there)
    argument = {"calculator": "expression", "search": "query", "access": "url"}[name]
    asked = [ToolCall(name, {argument: "Quell"}, 0, CallContext(0, "", {}))]
    assert tool.run(asked) == tool.run(asked) == make_tool(name, there).run(asked)
    with registered_only("a card"), pytest.raises(CardError, match="a card names the tool 'rec"):
        make_tool({"use": "recorded", "tool": name, "path": str(tmp_path / "y.db")}, there)
    assert not (tmp_path / "y.db").exists()
    assert {"degraded", "decoy", "recorded"} <= set(TOOLS.shipped)
