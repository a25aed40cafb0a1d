"""Every regular expression and every parser of texts of others takes time linear in its input.

Patterns are found by walking the package, so that new ones are tried as well. Each is fed what its
own parse tree says is worst for it: for every repetition in it, what must stand before, then what
is repeated, many times, then something that does not fit. A quadratic one takes sixteen times as
long for four times the text, a cubic one sixty-four times.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _parser as parser  # type: ignore[attr-defined]  # the only one there is
from typing import Any

import pytest

pytestmark = pytest.mark.contract

HOME = Path(__file__).resolve().parent.parent
PACKAGES = HOME / "searchgym", HOME / "agents" / "searchgym_agents"
SIZES = 24, 250, 1_000, 4_000, 16_000
"""Characters. An agent's text has 20,000 at most."""
FLOOR = 0.03
"""Seconds of the longest text below which nothing is measured: a linear pattern takes 1 ms."""
MOST = 2.5
"""Most of the time's growth when a text doubles."""
SCANS = frozenset({"search", "findall", "finditer", "sub", "subn", "split"})


class Found:
    """A pattern, where it stands, and whether the code looks for it anywhere in a text."""

    def __init__(self, where: str, pattern: Any, methods: set[str]) -> None:
        self.where, self.pattern = where, pattern
        self.methods = methods & {"match", "fullmatch"}
        self.scans = bool(methods & SCANS) or not self.methods

    def run(self, text: str) -> None:
        given: Any = text
        if isinstance(self.pattern.pattern, bytes):
            given = text.encode("latin-1", "replace")
        if self.scans:
            for _ in self.pattern.finditer(given):
                pass
        else:
            for method in self.methods:
                getattr(self.pattern, method)(given)


def patterns(package: Path) -> list[Found]:
    """Patterns of all modules: their variables, also within tables, and texts given to ``re``."""
    kept: dict[Any, Found] = {}
    for path in sorted(package.rglob("*.py")):
        source, inner = path.read_text("utf-8"), path.relative_to(package)
        if "re." not in source:
            continue
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        used: dict[str, set[str]] = {}
        for call in calls:
            if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
                used.setdefault(call.func.value.id, set()).add(call.func.attr)
        if not used.get("re"):
            continue
        name = ".".join((package.name, *inner.with_suffix("").parts)).removesuffix(".__init__")
        try:
            module = importlib.import_module(name)
        except ImportError:  # it adapts a package that is not installed here
            module = None
        for variable, value in list(vars(module).items()) if module else ():
            for pattern in _within(value):
                methods = used.get(variable, set()) if isinstance(value, re.Pattern) else set()
                bound = getattr(value, "__name__", "") if pattern is not value else ""
                kept[pattern.pattern, pattern.flags] = Found(
                    f"{name}.{variable}", pattern, methods | ({bound} - {""})
                )
        for call in calls:
            function = ast.unparse(call.func)
            if function.startswith("re.") and function != "re.compile" and call.args:
                written = call.args[0]
                if isinstance(written, ast.Constant) and isinstance(written.value, str | bytes):
                    pattern = re.compile(written.value)
                    kept.setdefault(
                        (pattern.pattern, pattern.flags),
                        Found(f"{name}, line {call.lineno}", pattern, {function[3:]}),
                    )
    return list(kept.values())


def _within(value: Any, depth: int = 0) -> Iterator[Any]:
    bound = getattr(value, "__self__", None)
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(bound, re.Pattern):
        yield bound
    elif depth < 3 and isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _within(inner, depth + 1)


# --- what is worst for a pattern ------------------------------------------------------------------
def attacks(pattern: Any) -> list[tuple[str, str, str]]:
    """(before, what is repeated, after) of every repetition in a pattern, and of the whole."""
    written = pattern.pattern
    flags = pattern.flags & ~re.UNICODE if isinstance(written, bytes) else pattern.flags
    tree = parser.parse(written, flags)
    pumps: list[tuple[str, str]] = []

    def walk(items: Any, before: str) -> None:
        for op, value in items:
            name = str(op)
            if name.endswith("_REPEAT"):
                pumps.extend((before, text) for n in range(3) if (text := _text(value[2], n)))
                walk(value[2], before)
            elif name == "SUBPATTERN":
                walk(value[3], before)
            elif name == "BRANCH":
                for branch in value[1]:
                    walk(branch, before)
            elif name == "ATOMIC_GROUP":
                walk(value, before)
            elif name in ("ASSERT", "ASSERT_NOT"):
                walk(value[1], before)
            before += _text([(op, value)], 0)

    walk(tree, "")
    for whole in (_text(tree, 0), _text(tree, 1)):
        cuts = (len(whole), (len(whole) + 1) // 2, 1, max(1, len(whole) - 1))
        pumps.extend(("", whole[:cut]) for cut in cuts if whole)
    made = [
        (start, pump, end)
        for before, pump in pumps for start in {"", before} for end in ("", "\x00", "b\n")
    ]  # fmt: skip
    return list(dict.fromkeys(made))


_SIGNS = "a1 <[(.,-_\n\t'\"A:*éxe0#\u3000=\u0316中"
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "SPACE": str.isspace,
    "WORD": lambda sign: sign.isalnum() or sign == "_",
    "DIGIT": str.isdecimal,
}


def _text(items: Any, number: int) -> str:
    """A text that a parsed pattern matches, one of several."""
    out = ""
    for op, value in items:
        match str(op):
            case "LITERAL":
                out += chr(value)
            case "NOT_LITERAL" | "ANY":
                out += "y" if value == ord("x") else "x"
            case "IN":
                out += _sign(value, number)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                out += _text(value[2], number) * max(value[0], number % 2)
            case "SUBPATTERN":
                out += _text(value[3], number)
            case "BRANCH":
                out += _text(value[1][number % len(value[1])], number)
            case "ATOMIC_GROUP":
                out += _text(value, number)
            case "ASSERT" if value[0] > 0:
                out += _text(value[1], number)
    return out


def _sign(choices: Any, number: int) -> str:
    negated = str(choices[0][0]) == "NEGATE"

    def among(sign: str) -> bool:
        for op, value in choices:
            match str(op):
                case "LITERAL" if value == ord(sign):
                    return True
                case "RANGE" if value[0] <= ord(sign) <= value[1]:
                    return True
                case "CATEGORY":
                    name = str(value).removeprefix("CATEGORY_").removeprefix("UNI_")
                    if _CATEGORIES[name.removeprefix("NOT_")](sign) != name.startswith("NOT_"):
                        return True
        return False

    fitting = [sign for sign in _SIGNS if among(sign) != negated]
    for op, value in () if negated else choices:
        if str(op) in ("LITERAL", "RANGE"):
            fitting.append(chr(value if str(op) == "LITERAL" else value[0]))
    return fitting[number % len(fitting)] if fitting else "x"


# --- how the time grows ---------------------------------------------------------------------------
def growth(run: Callable[[str], object], make: Callable[[int], str]) -> float:
    """How much longer a doubled text takes; 0 where the longest takes no time to speak of."""
    taken: list[float] = []
    for size in SIZES:
        taken.append(_seconds(run, make(size)))
        if taken[-1] > 0.1:  # of a longer one the end might not be seen
            break
    if taken[-1] < FLOOR:
        return 0.0
    whole = SIZES[len(taken) - 1]
    half, full = (min(_seconds(run, make(n)) for _ in range(2)) for n in (whole // 2, whole))
    return full / max(half, FLOOR / MOST / 2)


def _seconds(run: Callable[[str], object], text: str) -> float:
    start = time.thread_time()  # of this thread: other processes do not count
    run(text)
    return time.thread_time() - start


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("package", "fewest"), [(PACKAGES[0], 120), (PACKAGES[1], 20)])
def test_every_regular_expression_is_linear(package: Path, fewest: int) -> None:
    found = patterns(package)
    assert len(found) > fewest, "the walk has found too few"
    slow = {}
    for one in found:
        for before, pump, after in attacks(one.pattern):
            grown = growth(one.run, lambda n: before + pump * (n // len(pump)) + after)  # noqa: B023
            if grown > MOST:
                slow[one.where] = (before, pump, after, grown)
                break
    assert not slow, "\n".join(f"{where}: {worst}" for where, worst in slow.items())


def test_the_walk_tells_bad_patterns_from_good_ones() -> None:
    bad = (r"\s+x", r"<!--.*?-->", r"(?s)<b>(.*?)</b>", r"\w+\s*\(")
    good = (r"(?<!\s)\s++x", r"[a-z]++", r"<[^<>]*+>", r"(?<!\w)\w++\s*+\(")
    for pattern in map(re.compile, (*bad, *good)):
        one = Found("", pattern, {"search"})
        slow = any(
            growth(one.run, lambda n: before + pump * (n // len(pump)) + after) > MOST  # noqa: B023
            for before, pump, after in attacks(pattern)[:12]
        )
        assert slow == (pattern.pattern in bad), pattern.pattern
