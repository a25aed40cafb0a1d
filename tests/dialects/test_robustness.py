"""Parsing never raises, takes linear time and flat memory."""

from __future__ import annotations

import random
import re
import resource
import time
from collections.abc import Callable

import pytest

from searchgym.dialects.base import DIALECTS, Dialect, get_dialect
from searchgym.types import (
    Answer,
    Hit,
    Invalid,
    Passage,
    Search,
)
from tests.dialects.common import NAMES, check
from tests.fuzzing import corpus_of_seeds, mutate


def test_twenty_thousand_mutated_transcripts(dialect: Dialect) -> None:
    rng = random.Random(20)
    seeds = corpus_of_seeds(dialect)
    valid = 0
    runs = 20_000 // len(NAMES) + 1
    for _ in range(runs):
        text = mutate(rng, rng.choice(seeds))
        parsed = dialect.parse(text)
        check(parsed, text, dialect)
        valid += not isinstance(parsed.action, Invalid)
        dialect.escape(text).encode()
    assert valid > runs // 20  # the mutator leaves some actions standing


@pytest.mark.benchmark
@pytest.mark.parametrize("name", list(DIALECTS))
def test_a_turn_costs_microseconds(name: str) -> None:
    dialect = get_dialect(name)
    text = dialect.render_action(Search(("who is the mayor of this city",)))
    hits = tuple(Hit(Passage(str(i), f"T{i}", "lorem ipsum " * 50, "u"), 1.0) for i in range(3))

    def turn(text: str) -> None:
        for _ in range(10_000):
            dialect.parse(text)
            dialect.render_hits([("q", hits)])

    micros = _seconds(turn, text, tries=5) * 1e6 / 10_000
    print(f"{name}: parse + render_hits {micros:.2f} µs")
    assert micros < 12  # the budget is 6 on the reference machine; this allows for slower ones


@pytest.mark.benchmark
def test_a_million_mutated_transcripts_in_flat_memory() -> None:
    dialects = [(d, corpus_of_seeds(d)) for d in map(get_dialect, NAMES)]
    rng = random.Random(21)
    highest = []
    for _ in range(10):
        for _ in range(100_000 // len(NAMES) + 1):
            for dialect, seeds in dialects:
                text = mutate(rng, rng.choice(seeds))
                check(dialect.parse(text), text, dialect)
        highest.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert highest[-1] - highest[1] < 20_000, highest  # KiB on Linux


def test_mutator_is_seeded() -> None:
    a, b = random.Random(1), random.Random(1)
    assert [mutate(a, "<search> q </search>") for _ in range(50)] == [
        mutate(b, "<search> q </search>") for _ in range(50)
    ]


UNITS = [
    "<search>",
    "</search>",
    "<answer>",
    "</answer>",
    "<think>",
    "<think>x</think>",
    "</think>",
    "<",
    "</",
    "< ",
    "<\u200b",
    "<s\u200b",
    "</answe",
    "##",
    "\n",
    " \n",
    " ",
    "\r",
    "\x00",
    "\ud800",
    "search",
    "search \n",
    "a search: ",
    "\n search",
    '<tool_call>{"',
    '<tool_call>{"name":"search","arguments":{"query":"q"}}</tool_call>',
    '"query":"',
    '"query":"\\',
    "<|begin_of_query|>",
    "<|end_of_query|>",
    "1-hop:",
    "[",
    "x",
    "é<",
]
FRAMES = [
    "{}",
    "<search>{}</search>",
    "<answer>{}</answer>",
    "search: {}",
    "call: {}",
    "<tool>{}</tool>",
    "<|begin_of_query|>similar:{}<|end_of_query|>",
    "<tool_call>{}</tool_call>",
    '<tool_call>{{"name":"search","arguments":{{"query":"{}"}}}}</tool_call>',
]


_WORDS = re.compile(r"\w+")
_PROSE = "The quick brown fox; jumps over it.\n" * 28_000
_IDLE_S = 0.03
"""Processor seconds of finding the words of ``_PROSE`` on the machine the limits were set on."""


def _seconds(run: Callable[[str], object], text: str, *, tries: int = 1) -> float:
    """Least processor time of some tries, of this thread: the machine may be busy, and threads
    that other tests left may be, too."""
    spent = []
    for _ in range(tries):
        start = time.thread_time()
        run(text)
        spent.append(time.thread_time() - start)
    return min(spent)


def _slower() -> float:
    """How much slower this machine computes just now than an idle one: neighbours on the same core
    or cache cost processor time, too. At least 1, so that no limit is ever tighter than it says."""
    return max(1.0, _seconds(_WORDS.findall, _PROSE) / _IDLE_S)


def _assert_below(limit: float, run: Callable[[str], object], text: str) -> None:
    """A defect is slow every time; a busy machine is not."""
    fastest = float("inf")
    for _ in range(10):
        fastest = min(fastest, _seconds(run, text))
        if fastest < limit:
            return
        allowed = limit * _slower()
        if fastest < allowed:
            return
        if fastest > 10 * allowed:  # no machine is that busy: say so now
            break
    pytest.fail(f"{fastest:.3f} s of processor time at best, allowed {allowed:.3f}")


_LENGTH = 60_000


def _assert_linear(run: Callable[[str], object], one: str, two: str) -> None:
    # 0.1 s a megabyte. A quadratic pass over this length takes seconds: 6 ms need no second look.
    if _seconds(run, one) < 0.1 * _LENGTH / 1_000_000:
        return
    _assert_below(0.1 * _LENGTH / 1_000_000, run, one)  # half of it on an idle machine
    ones, twos = [], []
    end = time.monotonic() + 30  # a defect is slow every time, a neighbour goes away
    while len(ones) < 10 or time.monotonic() < end:
        ones.append(_seconds(run, one))  # in turns: what slows one slows the other
        twos.append(_seconds(run, two))
        if len(ones) >= 3 and min(twos) < 3 * min(ones):
            return
    pytest.fail(f"twice the text takes {min(twos):.3f} s after {min(ones):.3f}")


@pytest.mark.parametrize(
    "name",
    [
        "search_r1+parallel+tools",
        "asearcher",
        "agentgl",
        "json_tools+parallel+tools",
        "plain+tools",
    ],
)
@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_in_a_long_text_of_anything(name: str, unit: str) -> None:
    dialect = get_dialect(name)
    small = unit * (_LENGTH // len(unit))
    for frame in FRAMES:
        _assert_linear(dialect.parse, frame.format(small), frame.format(small + small))
    _assert_linear(dialect.escape, small, small + small)


@pytest.mark.parametrize("name", NAMES)
def test_an_ordinary_megabyte_takes_under_50_ms(name: str) -> None:
    dialect = get_dialect(name)
    text = "The quick brown fox; jumps over it.\n" * 28_000
    for whole in (text, dialect.render_action(Answer("x"), text), f"<search>{text}</search>"):
        assert len(whole) > 1_000_000
        _assert_below(0.05, dialect.parse, whole)


def test_a_megabyte_document(dialect: Dialect) -> None:
    passage = Passage("1", "T", "<answer>x</answer> lorem ipsum\n" * 33_000, "u")
    shown = dialect.render_hits([("q", (Hit(passage, 1.0),))])
    assert isinstance(dialect.parse(shown).action, Invalid)
    if "asearcher" not in dialect.name:  # which shows 5,000 characters of a result
        assert len(shown) > 1_000_000
