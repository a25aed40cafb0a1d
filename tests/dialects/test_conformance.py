"""What every dialect promises, over the whole registry: names, round trips, reading, writing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.dialects.base import Dialect, get_dialect
from searchgym.errors import DialectError
from searchgym.types import (
    Access,
    Action,
    Answer,
    Call,
    Delegate,
    Invalid,
    Judge,
    Search,
)
from tests.dialects.common import NAMES, TEXT, VIEW, check
from tests.fuzzing import ACTIONS, corpus_of_seeds

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
CALL = st.one_of(
    st.builds(Call, st.sampled_from(["look_up", "a.b:C", "search", "", "é"]),
              st.dictionaries(TEXT, JSON, max_size=3)),
    st.builds(Call, st.just("graph_neighbors"),
              st.fixed_dictionaries({"node": TEXT}, optional={"hops": st.integers(0, 3)})),
    st.builds(Call, st.just("graph_rank"),
              st.fixed_dictionaries({"query": TEXT}, optional={"method": st.just("sim")})),
)  # fmt: skip
ACTION = st.one_of(
    CALL,
    st.lists(TEXT, min_size=1, max_size=3).map(lambda q: Search(tuple(q))),
    TEXT.map(Answer),
    TEXT.map(Access),
    TEXT.map(Delegate),
    st.booleans().map(Judge),
)


# --- the registry -------------------------------------------------------------------------------
def test_names_are_canonical_and_shared(dialect: Dialect) -> None:
    assert get_dialect(dialect.name) is dialect
    assert isinstance(dialect, Dialect)
    assert {Search, Answer} <= dialect.renders


def test_third_party_names() -> None:
    found = get_dialect("searchgym.dialects.search_r1:SearchR1+parallel")
    assert found.parse("<search>a##b</search>").action == Search(("a", "b"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("serch_r1", "Did you mean 'search_r1'"),
        ("search_r1+paralel", "Did you mean 'parallel'"),
        ("plain+judge", "unknown option of dialect 'plain'"),
        ("searchgym.dialects.nothing:X", "cannot load"),
        ("searchgym.dialects.plain:Missing", "cannot load"),
        ("collections:OrderedDict", "cannot be a dialect"),
        (":", "is not of the form"),
    ],
)
def test_unknown_names_say_what_is_known(name: str, said: str) -> None:
    with pytest.raises(DialectError, match=said.replace("(", r"\(")):
        get_dialect(name)


# --- round trips --------------------------------------------------------------------------------
def test_simple_actions_survive_unchanged(dialect: Dialect) -> None:
    parallel = dialect.name.startswith("plain") or "+parallel" in dialect.name
    for action in ACTIONS:
        if type(action) not in dialect.renders or (
            isinstance(action, Search) and len(action.queries) > 1 and not parallel
        ):
            with pytest.raises(DialectError):
                dialect.render_action(action)
            continue
        assert dialect.canonical(action) == action
        for thought in ("", "search for it; <answer>no</answer>\nsearch: no\nanswer: no"):
            text = dialect.render_action(action, thought)
            parsed = dialect.parse(text)
            check(parsed, text, dialect)
            assert parsed.action == action
            assert parsed.cut == len(text)


@pytest.mark.parametrize("name", NAMES)
@given(action=ACTION, thought=TEXT)
def test_round_trip_of_any_text(name: str, action: Action, thought: str) -> None:
    dialect = get_dialect(name)
    try:
        canonical = dialect.canonical(action)
    except DialectError:
        with pytest.raises(DialectError):
            dialect.render_action(action, thought)
        return
    text = dialect.render_action(action, thought)
    text.encode()
    parsed = dialect.parse(text)
    check(parsed, text, dialect)
    assert parsed.action == canonical
    assert parsed.cut == len(text)
    assert dialect.canonical(canonical) == canonical
    assert dialect.render_action(canonical, thought) == text


@pytest.mark.parametrize("name", NAMES)
@given(text=st.text(st.characters(categories=("L", "N", "Zs")), min_size=1).map(str.strip))
def test_ordinary_text_is_never_changed(name: str, text: str) -> None:
    dialect = get_dialect(name)
    if text:
        assert dialect.canonical(Search((text,))) == Search((text,))
        assert dialect.canonical(Answer(text)) == Answer(text)
    assert dialect.escape(text) == text


def test_what_cannot_be_said_is_said_harmlessly() -> None:
    tagged = Answer("a </answer> <b> \x00\ud800\r\n c")
    assert get_dialect("search_r1").canonical(tagged) == Answer("a &lt;/answer> <b> ?\n c")
    assert get_dialect("json_tools").canonical(tagged) == Answer("a </answer> <b> ?\n c")
    assert get_dialect("plain").canonical(tagged) == Answer("a </answer> <b> ?  c")
    hashes = Search(("C###", "##"))
    assert get_dialect("search_r1+parallel").canonical(hashes) == Search(("C# # #", "# #"))
    assert get_dialect("search_r1").canonical(Search(("C###",))) == Search(("C###",))
    assert get_dialect("json_tools+parallel").canonical(hashes) == hashes


# --- reading ------------------------------------------------------------------------------------
def test_text_after_the_cut_is_ignored(dialect: Dialect) -> None:
    for seed in corpus_of_seeds(dialect):
        parsed = dialect.parse(seed)
        if isinstance(parsed.action, Invalid):
            continue
        kept = seed[: parsed.cut]
        assert dialect.parse(kept) == parsed
        for tail in ("\n<information>fake</information>", "\nhello", "\nanswer: x"):
            assert dialect.parse(kept + tail) == parsed


def test_stop_strings_end_where_the_cut_is(dialect: Dialect) -> None:
    for action in ACTIONS:
        try:
            text = dialect.render_action(action, "thinking")
        except DialectError:
            continue
        after = text + "\nand then some <answer> x </answer>\nanswer: x"
        ends = [after.find(s) + len(s) for s in dialect.stop if s in after]
        if dialect.stop and "json_tools+parallel" not in dialect.name:
            assert min(ends) == len(text) == dialect.parse(after).cut


def test_spans_are_the_content(dialect: Dialect) -> None:
    query = "who\tis   «she»?" if dialect.name.startswith("plain") else "who\n is\n\n«she»?"
    text = dialect.render_action(Search((query,)), "line one\nline two")
    thought, search = dialect.parse(text).spans
    assert (thought.kind, search.kind) == ("think", "search")
    assert text[thought.start : thought.end] == "line one\nline two"
    if "json" not in dialect.name:
        assert text[search.start : search.end] == query
    text = dialect.render_action(Search(("query",)))
    (search,) = dialect.parse(text).spans
    assert text[search.start : search.end] == "query"
    for kind, action in {
        "access": Access("u"),
        "answer": Answer("x"),
        "task": Delegate("t"),
    }.items():
        if type(action) in dialect.renders:
            text = dialect.render_action(action)
            (span,) = dialect.parse(text).spans
            assert (span.kind, text[span.start : span.end]) == (kind, action[0])


def test_spans_of_parallel_queries() -> None:
    for name in NAMES:
        if name.startswith("plain") or "+parallel" in name:
            dialect = get_dialect(name)
            text = dialect.render_action(Search(("one", "two", "three")), "t")
            spans = [s for s in dialect.parse(text).spans if s.kind == "search"]
            assert [text[s.start : s.end] for s in spans] == ["one", "two", "three"]


def test_the_number_of_queries_is_bounded() -> None:
    for name in NAMES:
        if name.startswith("plain") or "+parallel" in name:
            dialect = get_dialect(name)
            most = Search(tuple(f"q{i}" for i in range(64)))
            text = dialect.render_action(most)
            assert dialect.parse(text).action == most
            with pytest.raises(DialectError, match="at most 64"):
                dialect.render_action(Search((*most.queries, "one more")))
            more = text + "\n" + text if "json" in name else text.replace("q9", "q9 ## r")
            assert dialect.parse(more).action == Invalid("too many queries")


TAG_NAMES = [n for n in NAMES if n.startswith(("search_r1", "asearcher"))]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "I would search for it.",
        "<search>unclosed",
        "unopened</search>",
        "<search></search>",
        "<search> \n\t </search>",
        "<answer>\x00</answer>",
        "<answer></answer>",
        "<Search>q</Search>",
        "< search >q</ search >",
        "<search q</search>",
        "<search>q</search",
        "<search>q</answer>",
        "<answer>a</search>",
        "</search><search>",
        "</answer>a<answer>",
        "<information>x</information>",
    ],
)
def test_malformed_tags_are_invalid(text: str) -> None:
    for name in TAG_NAMES:
        parsed = get_dialect(name).parse(text)
        assert isinstance(parsed.action, Invalid), (name, parsed)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<search>a</search><search>b</search>", Search(("a",))),
        ("<search>a</search><answer>b</answer>", Search(("a",))),
        ("<answer>b</answer><answer>c</answer>", Answer("b")),
        ("<answer>b</answer><search>a</search>", Answer("b")),
        ("<search><answer>b</answer></search>", None),
        ("<think><search> or not</think><search>q</search>", None),
    ],
)
def test_the_first_of_several_tags_counts(text: str, action: Action | None) -> None:
    for name in TAG_NAMES:
        got = get_dialect(name).parse(text).action
        if action is not None:
            assert got == action
        elif "or not" in text:  # as in Search-R1: from the first opening to the first closing tag
            assert got == Search(("or not</think><search>q",))
        else:  # Search-R1 lets the search win; elsewhere generation ends at </answer>
            assert got == (Search(("<answer>b</answer>",)) if "search_r1" in name else Answer("b"))


# --- writing ------------------------------------------------------------------------------------
def test_instructions_name_what_is_possible(dialect: Dialect) -> None:
    full = dialect.instructions(VIEW)
    assert "briefly" not in dialect.instructions(VIEW._replace(prompt="Do it."))
    rank = "pagerank" if dialect.name == "agentgl" else "graph_rank"
    if getattr(dialect, "native", False):  # the chat template describes the tools
        assert rank not in full
    else:
        assert (rank in full) == (Call in dialect.renders)
    assert rank not in dialect.instructions(VIEW._replace(queries_left=0))
    only = VIEW._replace(tools=VIEW.tools[2:])
    assert ("not possible" in dialect.instructions(only)) == (Call not in dialect.renders)
    assert full.endswith("\n")
    assert "search" in full or getattr(dialect, "native", False)
    assert "unanswerable" in full
    assert "5 turns" in full
    assert "unanswerable" not in dialect.instructions(VIEW._replace(may_abstain=False))
    off = dialect.instructions(VIEW._replace(queries_left=0))
    assert "not possible" in off
    assert "<search>" not in off
    if Judge in dialect.renders:
        assert "judge" in full
        assert "judge" not in dialect.instructions(VIEW._replace(judge=False))
    if Access in dialect.renders and not getattr(dialect, "native", False):
        assert "access" in full
        assert "access" not in dialect.instructions(VIEW._replace(tools=VIEW.tools[::2]))
    assert "2 queries" in dialect.instructions(VIEW._replace(queries_left=2))
    planner = dialect.instructions(VIEW._replace(role="planner"))
    assert "sub-task" in planner
    assert "question" in dialect.question("Who?").lower()


@pytest.mark.parametrize("name", NAMES)
@given(answer=TEXT)
def test_forced_answers_parse(name: str, answer: str) -> None:
    dialect = get_dialect(name)
    try:
        bridge, target = dialect.force_answer(answer)
    except DialectError:
        assert not dialect.escape(answer).strip()
        return
    text = bridge + target
    parsed = dialect.parse(text)
    assert isinstance(parsed.action, Answer)
    span = parsed.spans[-1]
    assert span.kind == "answer"
    assert text[span.start : span.end] == parsed.action.text
    assert span.start >= len(bridge)


def test_forced_answer_is_the_gold_text(dialect: Dialect) -> None:
    assert dialect.parse("".join(dialect.force_answer("Žižkov, 1st"))).action == Answer(
        "Žižkov, 1st"
    )
