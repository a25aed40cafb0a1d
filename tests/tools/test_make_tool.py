"""Tools by name, path, class, function, table and object; their state, which no two share."""

from __future__ import annotations

import functools
import inspect
import json
import re
import threading
import time
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import searchgym
from searchgym.core import Episode, Trajectory, run_tools
from searchgym.dialects import get_dialect
from searchgym.engines import build_engine
from searchgym.envs import step_info
from searchgym.errors import CardError, EngineError, EpisodeError
from searchgym.objects import load_known
from searchgym.tools import TOOLS, Tool, ToolContext, make_tool, make_toolbox
from searchgym.tools.base import MAX_STATE, FunctionTool
from searchgym.types import (
    Call,
    CallContext,
    Failure,
    Hit,
    Passage,
    Search,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from tests.kgs.random_graphs import generated
from tests.small import CORPUS, TASKS

from . import mine
from .playing import DIALECT, SMALL, begin, call, context


# --- how a tool is written ------------------------------------------------------------------------
def needs_options(name: str) -> bool:
    """Tell whether a tool is made of more than its name, as those around another are
    (tests/tools/test_wrappers.py)."""
    made = load_known(TOOLS[name])
    needed = inspect.signature(made).parameters.values() if inspect.isclass(made) else ()
    return any(p.default is p.empty and p.kind is not p.VAR_KEYWORD for p in needed)


@pytest.mark.parametrize("name", [name for name in TOOLS.shipped if not needs_options(name)])
def test_a_registered_tool_can_be_made_and_is_called_as_registered(name: str) -> None:
    world, corpus = generated()
    toolbox = make_toolbox([name], ToolContext(corpus, build_engine("bm25", corpus), world))
    assert list(toolbox.tools) == [name]
    assert isinstance(toolbox.tools[name], Tool)


def label(value: Any) -> str:
    """A name for a parameter, the same in every process."""
    plain = re.sub(r" at 0x[0-9a-f]+", "", str(value))
    return plain[:60]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("tests.tools.mine:Put", "put"),
        ("tests.tools.mine:double", "double"),
        ("tests.tools.mine:READY", "count_calls"),
        ({"use": "tests.tools.mine:Count", "start": 3, "cost": 0.5}, "count_calls"),
        ({"use": "tests.tools.mine:double", "number": 4}, "double"),
        ({"use": "calculator", "cost": 2.0}, "calculator"),
        (mine.Put, "put"),
        (mine.Count(4), "count_calls"),
        (mine.describe, "describe"),
        (functools.partial(mine.describe, loud=True), "describe"),
    ],
    ids=label,
)
def test_all_the_ways_to_name_one(spec: Any, name: str) -> None:
    assert make_tool(spec, context()).spec.name == name


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("serch", "Did you mean 'search'"),
        ("tests.tools.mine:Nothing", "cannot load"),
        ("tests.tools.mine:NUMBER", "no tool|cannot be a tool"),
        ({"use": "tests.tools.mine:Count", "begin": 3}, "begin"),
        ({"name": "search"}, "use"),
        (mine.NoSpec, "needs 'spec'"),
        (7, "no tool"),
        (lambda x: x, "annotation"),
        ({"use": "search", "k": 5}, "k=5"),
    ],
    ids=label,
)
def test_what_is_no_tool_is_named(spec: Any, said: str) -> None:
    with pytest.raises(CardError, match=said):
        make_tool(spec, context())


@pytest.mark.parametrize("name", ["answer", "judge", "delegate", "", "1x", "a b", "x" * 80, "a<b"])
def test_names_that_dialects_cannot_say_are_refused(name: str) -> None:
    class Odd(mine.Put):
        spec = ToolSpec(name, "Odd.", {"type": "object", "properties": {}})

    with pytest.raises(CardError, match="name is letters"):
        make_tool(Odd, context())


def test_a_tool_called_search_takes_a_query() -> None:
    class Odd(mine.Put):
        spec = ToolSpec("search", "Odd.", {"type": "object", "properties": {"text": {}}})

    with pytest.raises(CardError, match="'query'"):
        make_tool(Odd, context())


def test_a_function_called_search_or_access_shows_no_text() -> None:
    def search(query: str) -> str:
        return "never shown"

    def access(url: str) -> list[str]:
        return ["never shown"]

    with pytest.raises(
        CardError, match=r"'search' shows hits and no text: return ToolResult\(hits"
    ):
        make_tool(search, context())
    with pytest.raises(CardError, match="'access' shows a page and no text"):
        make_tool(access, context())


def test_a_tool_called_search_shows_hits() -> None:
    def search(query: str) -> ToolResult | Failure:
        return ToolResult(hits=(Hit(CORPUS[2], 1.0),))

    e, toolbox = begin(search)
    e.act(get_dialect(e.config.rules.dialect).render_action(Search(("Quell",))))
    run_tools([e], toolbox)
    assert "4,120 people" in e.delta

    def unsaid(query: str):  # type: ignore[no-untyped-def]
        return "never shown"

    unsaid.__name__ = "search"
    e, toolbox = begin(unsaid)
    e.act(get_dialect(e.config.rules.dialect).render_action(Search(("Quell",))))
    with pytest.raises(EngineError, match=r"shows hits and no text.*it returned the text 'never"):
        run_tools([e], toolbox)


async def later(word: str) -> str:
    return word


async def one_by_one(word: str) -> Any:
    yield word


def yielding(word: str) -> Any:
    yield word


class Later(mine.Put):
    async def use(self, args: Any, state: Any) -> str:  # type: ignore[override]
        return "late"


class Callable_:
    async def __call__(self, word: str) -> str:
        return word


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (later, "later cannot be a tool: it is async"),
        (one_by_one, "one_by_one cannot be a tool: it is async"),
        (yielding, r"yielding cannot be a tool: it is a generator \(it yields\)"),
        (functools.partial(later, word="x"), "later cannot be a tool: it is async"),
        (Later, "Later.use cannot be a tool: it is async"),
        (Callable_(), "Callable_ cannot be a tool"),
    ],
    ids=label,
)
def test_a_tool_answers_when_it_is_called(spec: Any, said: str) -> None:
    with pytest.raises(CardError, match=said):
        make_tool(spec, context())


def test_a_wrapped_coroutine_is_no_answer() -> None:
    waiting = later("x")

    def wrapped(word: str) -> Any:
        return waiting

    e, toolbox = begin(wrapped)
    with pytest.raises(EngineError, match="'wrapped' returned coroutine where a text"):
        call(e, toolbox, "wrapped", word="x")
    waiting.close()


@pytest.mark.parametrize("given", [None, 5, b"x", ["a"]], ids=label)
def test_what_use_returns_is_a_text_a_result_or_a_failure(given: Any) -> None:
    class Odd(mine.Put):
        cost = 0.5

        def use(self, args: Any, state: Any) -> Any:
            return given

    e, toolbox = begin(Odd)
    with pytest.raises(EngineError, match=f"the tool 'put' returned {type(given).__name__} where"):
        call(e, toolbox, "put", item="x")


@pytest.mark.parametrize(
    "tools", [["search", "search"], ["tests.tools.mine:Count", mine.READY], "search", {"use": "x"}]
)
def test_lists_that_are_none_and_double_names(tools: Any) -> None:
    with pytest.raises(CardError, match=r"give each name once|tools is a list"):
        gym.make("SearchQA-v0", tools=tools, dialect="json_tools", **SMALL)


def test_a_function_is_described_by_its_annotations() -> None:
    assert FunctionTool(mine.double).spec == ToolSpec(
        "double", "Double a number.",
        {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    )  # fmt: skip
    spec = FunctionTool(functools.partial(mine.describe, loud=True)).spec
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "sizes": {"type": "array", "items": {"type": "number"}},
            "unit": {"enum": ["m", "km"]},
        },
        "required": ["name"],
    }
    e, toolbox = begin(functools.partial(mine.describe, loud=True))
    assert call(e, toolbox, "describe", name="A", sizes=[1]) == "A [1] m True"
    assert "must be one of m, km" in call_reason(e, toolbox, unit="mile", name="A")


def call_reason(e: Episode, toolbox: Any, **args: Any) -> str:
    call(e, toolbox, "describe", **args)
    return e.turns[-1].action.reason  # type: ignore[union-attr]


# --- in environments ------------------------------------------------------------------------------
@pytest.mark.parametrize("dialect", ["json_tools", "search_r1", "asearcher", "plain"])
def test_a_foreign_tool_in_an_environment_of_every_dialect(dialect: str) -> None:
    tools = ["search", "tests.tools.mine:double", {"use": "tests.tools.mine:Count", "cost": 0.25}]
    env = gym.make("SearchQA-v0", tools=tools, dialect=dialect, **SMALL)
    observation, _ = env.reset(seed=0)
    assert "Double a number." in observation
    said = get_dialect(env.unwrapped.episode.config.rules.dialect).render_action
    observation, *_, info = env.step(said(Call("double", {"number": 21})))
    assert ("42" in info["delta"], info["tool"]) == (True, "double")
    *_, info = env.step(said(Call("count_calls", {})))
    assert f"0 of {len(CORPUS)}" in info["delta"]  # it was bound to the corpus
    assert info["cost"] == 0.25
    *_, info = env.step(said(Call("double", {"number": "x"})))
    assert not info["valid"]


def test_vector_and_single_environments_run_foreign_tools_alike() -> None:
    keywords = {"tools": ["search", "tests.tools.mine:Put"], "dialect": "json_tools", **SMALL}
    single = gym.make("SearchQA-v0", **keywords)
    vector = gym.make_vec("SearchQA-v0", 2, **keywords)
    text = get_dialect(DIALECT).render_action(Call("put", {"item": "a"}))
    vector.reset(seed=5)
    infos = [vector.step([text, text])[4] for _ in range(2)][-1]
    for i in range(2):
        single.reset(seed=5 + i)
        single.step(text)
        assert single.step(text)[4]["delta"] == infos["delta"][i]
        assert "2 things" in infos["delta"][i]


def test_a_tool_that_needs_the_task_is_told_it_and_no_other_is() -> None:
    e, toolbox = begin("tests.tools.mine:Told", "tests.tools.mine:Put")
    assert call(e, toolbox, "told") == "t1"
    call(e, toolbox, "put", item="x")
    assert e.turns[-1].calls[0].ctx.task is None


# --- state ----------------------------------------------------------------------------------------
def test_tools_share_a_state_by_its_name_and_its_end_can_be_read() -> None:
    e, toolbox = begin("tests.tools.mine:Put", "tests.tools.mine:Take", "tests.tools.mine:Count")
    assert e.tool_states == {}
    assert call(e, toolbox, "take", item="a") == "It is not there."
    call(e, toolbox, "put", item="a")
    call(e, toolbox, "put", item="b")
    assert call(e, toolbox, "take", item="a") == "Taken."
    assert call(e, toolbox, "count_calls") == f"0 of {len(CORPUS)}"
    assert call(e, toolbox, "count_calls") == f"1 of {len(CORPUS)}"
    assert e.tool_states == {"basket": {"things": ["b"]}, "count_calls": 1}
    e.tool_states["basket"]["things"].append("mine")
    assert e.tool_states["basket"] == {"things": ["b"]}
    e.act(get_dialect(DIALECT).render_action(searchgym.Answer("Quell")))
    assert e.tool_states == {"basket": {"things": ["b"]}, "count_calls": 1}
    copies = [
        Episode.restore(json.loads(json.dumps(e.snapshot()))),
        Trajectory.from_json(json.loads(json.dumps(Trajectory.of(e).to_json()))).replay(),
        e.fork(),
    ]
    assert all(copy.tool_states == e.tool_states for copy in copies)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["put", "take"]), st.sampled_from("abc")), max_size=6
)  # fmt: skip


@given(ACTIONS, ACTIONS, ACTIONS, st.integers(0, 6))
def test_forks_never_share_state(
    before: list[Any], mine_: list[Any], theirs: list[Any], at: int
) -> None:
    """Whatever is done in one of two forks, in any order, the other is as if it were alone."""
    e, toolbox = begin("tests.tools.mine:Put", "tests.tools.mine:Take")

    def play(episode: Episode, actions: list[Any]) -> None:
        for tool, item in actions:
            call(episode, toolbox, tool, item=item)

    play(e, before)
    at = min(at, len(e.turns))
    fork = e.fork(at=at)
    for i in range(max(len(mine_), len(theirs))):  # turn by turn, one after the other
        play(e, mine_[i : i + 1])
        play(fork, theirs[i : i + 1])
    alone, other = begin("tests.tools.mine:Put", "tests.tools.mine:Take")
    play(alone, [*before, *mine_])
    fresh, _ = begin("tests.tools.mine:Put", "tests.tools.mine:Take")
    play(fresh, [*before[:at], *theirs])
    assert other is not toolbox
    assert (e.tool_states, fork.tool_states) == (alone.tool_states, fresh.tool_states)
    assert json.dumps(e.snapshot()) == json.dumps(alone.snapshot())


class Returns(Tool):
    """Returns whatever it was given as state, and changes it afterwards."""

    spec = ToolSpec("returns", "Return.", {"type": "object", "properties": {}})

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state

    def use(self, args: Any, state: Any) -> ToolResult:
        if isinstance(self.state, dict):
            self.state["calls"] = self.state.get("calls", 0) + 1
        return ToolResult(("ok",), state=self.state)


def test_a_tool_that_keeps_its_object_changes_no_log() -> None:
    e, toolbox = begin(Returns({}))
    call(e, toolbox, "returns")
    first = json.dumps(e.snapshot())
    tool = toolbox.tools["returns"]
    tool.state["calls"] = 99
    assert json.dumps(e.snapshot()) == first
    assert e.tool_states == {"returns": {"calls": 1}}
    assert e.turns[0].results[0].state == {"calls": 1}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "state",
    [object(), {1: 2}, (1, 2), {"a": {"b": {3}}}, float("nan"), b"x", CORPUS[0], "x" * MAX_STATE],
    ids=lambda s: type(s).__name__,
)
def test_what_is_no_json_or_too_long_is_no_state(state: Any) -> None:
    e, toolbox = begin(Returns(state))
    if isinstance(state, Passage):  # a named tuple is a tuple
        assert isinstance(state, tuple)
    with pytest.raises(EngineError, match=r"the tool 'returns' returned a state"):
        call(e, toolbox, "returns")
    assert e.tool_states == {}


def test_states_of_tools_of_one_name_and_task_are_the_episodes_alone() -> None:
    (one, toolbox), (two, _) = begin("tests.tools.mine:Put"), begin("tests.tools.mine:Put", seed=2)
    call(one, toolbox, "put", item="a")
    assert call(two, toolbox, "put", item="b") == "1 things"
    assert isinstance(TASKS[0], Task)
    assert step_info(one)["tool"] == "put"


def test_the_examples_of_the_environments_page_run() -> None:
    """The blocks of code under Tools and Task families, as they are printed."""
    import re
    from datetime import date

    from searchgym.cards import catalog
    from searchgym.envs import SearchEnv

    text = (catalog("envs") / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Tools\n")[2].partition("\n## Difficulty\n")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, Any] = {
        "gym": gym, "searchgym": searchgym, "sg": searchgym, "ToolSpec": ToolSpec,
        "ToolResult": ToolResult, "Task": Task, "date": date,
    }  # fmt: skip
    for block in blocks:
        exec(compile(block, "envs/README.md", "exec"), names)
    e, toolbox = begin(names["days_between"], names["Notes"])
    assert call(e, toolbox, "days_between", first="1931-03-12", second="1931-03-01") == "11"
    call(e, toolbox, "note", text="a")
    assert call(e, toolbox, "note", text="b") == "a\nb"
    assert e.tool_states == {"notes": ["a", "b"]}
    env = SearchEnv(world={"entities": 300}, tasks={names["born_before"]: 9})
    assert len(env.tasks) == 9


def test_of_a_query_the_first_8000_characters_are_searched_for() -> None:
    """What a tool's schema lets through is bounded before an engine sees it."""
    asked: list[str] = []

    class Asked:
        fingerprint, needs_task = "asked", False

        def cache_key(self, request: Any, /) -> None:
            return None

        def run(self, batch: Any, /) -> Any:
            asked.extend(query.text for query in batch)
            return [() for _ in batch]

    toolbox = make_toolbox(["search"], ToolContext(CORPUS, Asked()))
    ctx = CallContext(0, "", {})
    toolbox.run([ToolCall("search", {"query": "x" * size}, 0, ctx) for size in (20_000, 5)])
    assert list(map(len, asked)) == [8_000, 5]


# --- what a tool cannot do ------------------------------------------------------------------------
def test_a_tool_that_hangs_is_not_waited_for() -> None:
    ended = threading.Event()

    def hang(word: str) -> str:
        ended.wait(60)
        return word

    e, toolbox = begin(FunctionTool(hang, time_limit=0.2))
    start = time.monotonic()
    e.act(get_dialect(e.config.rules.dialect).render_action(Call("hang", {"word": "x"})))
    run_tools([e], toolbox)
    assert time.monotonic() - start < 30
    ended.set()
    outcome = e.outcome()
    assert outcome is not None
    assert (outcome.end, e.phase) == ("infra_error", "done")
    (failure,) = toolbox.run([ToolCall("hang", {"word": "x"}, 0, CallContext(0, "", {}))])
    assert failure.parts == ("x",), "the next one is waited for anew"


def test_every_own_tool_has_a_time_limit_and_says_whose_it_is() -> None:
    assert FunctionTool(mine.double).time_limit == mine.Put().time_limit == 60
    assert FunctionTool(mine.double, time_limit=None).time_limit is None

    def slow(word: str) -> str:
        time.sleep(5)
        return word

    toolbox = make_toolbox([FunctionTool(slow, time_limit=0.05)], context())
    (failure,) = toolbox.run([ToolCall("slow", {"word": "x"}, 0, CallContext(0, "", {}))])
    assert failure[:2] == ("timeout", "the tool 'slow' took longer than its time_limit, 0.05 s")


def test_a_tool_changes_nothing_that_is_recorded() -> None:
    def clearing(things: list[str], about: dict, word: str = "w") -> str:  # type: ignore[type-arg]
        """Change all it is given."""
        things.clear()
        about["other"] = about.pop("deep")
        return "done"

    class Clearing(mine.Put):
        def run(self, batch: Any, /) -> list[ToolResult | Failure]:
            for one in batch:
                one.args.clear()
            return [ToolResult(("done",)) for _ in batch]

    e, toolbox = begin(clearing, Clearing())
    given = {"things": ["a"], "about": {"deep": [1]}}
    call(e, toolbox, "clearing", **given)
    call(e, toolbox, "put", item="apple")
    recorded = [dict(turn.calls[0].args) for turn in e.turns]
    assert recorded == [{"things": ["a"], "about": {"deep": [1]}}, {"item": "apple"}]


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), 10**400, True, -1e9, "1", None])
def test_a_cost_is_a_finite_number_from_0(cost: Any) -> None:
    def priced(word: str) -> ToolResult:
        """Look up."""
        return ToolResult((word,), cost=cost)

    e, toolbox = begin(priced)
    with pytest.raises(EngineError, match=r"tool 'priced' returned the cost .*a number from 0"):
        call(e, toolbox, "priced", word="x")
    with pytest.raises(EpisodeError, match=r"it raised\?\): begin anew with reset"):
        e.act("more")


@pytest.mark.parametrize(
    "made",
    [
        {"parts": (1,)}, {"parts": None}, {"parts": 3}, {"hits": (1,)}, {"hits": None},
        {"meta": {"a": {1, 2}}}, {"meta": {"a": float("nan")}}, {"meta": {"a": b"x"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_result_that_cannot_be_shown_or_kept_names_its_tool(made: dict[str, Any]) -> None:
    def odd(word: str) -> ToolResult:
        """Look up."""
        return ToolResult(**{"parts": (word,), **made})

    e, toolbox = begin(odd)
    with pytest.raises(EngineError, match=rf"tool 'odd' returned .*{next(iter(made))}"):
        call(e, toolbox, "odd", word="x")


def test_a_tool_ends_no_process() -> None:
    def leaving(word: str) -> str:
        """Look up."""
        raise SystemExit(word)

    e, toolbox = begin(leaving)
    with pytest.raises(EngineError, match=r"'leaving' failed on .*SystemExit: x"):
        call(e, toolbox, "leaving", word="x")


def test_a_tool_changes_nothing_that_it_returned() -> None:
    parts, about = ["first"], {"seen": ["a"]}

    def keeping(word: str) -> ToolResult:
        """Look up."""
        return ToolResult(parts, meta=about)  # type: ignore[arg-type]

    e, toolbox = begin(keeping)
    call(e, toolbox, "keeping", word="x")
    parts[0] = about["seen"][0] = "changed"
    kept = e.turns[0].results[0]
    assert isinstance(kept, ToolResult)
    assert (kept.parts, kept.meta) == (("first",), {"seen": ["a"]})
