"""Every command that a page or a help text prints can be pasted: the command line's own parser, or
that of the module run by ``python -m``, takes its options, and what it names is there or is made by
another printed command."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from searchgym.cards import cards
from searchgym.cli import build
from searchgym_agents.leaderboard.entries import entries

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CATALOGUE.md"]
PAGES += [p for kind in ("envs", "corpora", "agents", "notebooks", ".site/docsite/pages")
          for p in sorted((ROOT / kind).rglob("*.md"))]  # fmt: skip
_FENCE = re.compile(r"^```(?:sh|bash|console)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)`(searchgym [^`\n]+)`")
_SAID = re.compile(r"'(searchgym [a-z][^'\n{}]*)'")
OPEN = re.compile(r"…|\.\.\.|<[a-z]|\{\{|\{%")
"""A line with one of these shows a form, not a command."""
NAMED = "(in a sentence)"
"""There a command may be named without what it needs, but not with what it does not take."""
APP: Any = typer.main.get_command(build())


def commands_of(text: str) -> Iterator[str]:
    for block in _FENCE.findall(text):
        lines = iter(re.sub(r"\\\n\s*", "", block).splitlines())
        for line in lines:
            if line.removeprefix("$ ").lstrip().startswith("searchgym "):
                while not closed(line) and (more := next(lines, None)) is not None:
                    line += f"\n{more}"  # a quotation goes on
                yield line.removeprefix("$ ").strip()


def closed(line: str) -> bool:
    try:
        return bool(shlex.split(line, comments=True))
    except ValueError:
        return False


def walk(command: Any, path: str = "searchgym") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, f"{path} {name}")


def test_an_error_names_what_is_missing_as_the_help_does() -> None:
    """In capitals, which are not the parameter's name in the code."""
    assert not [
        f"{path} {parameter.name}"
        for path, command in walk(APP)
        for parameter in command.params
        if parameter.param_type_name == "argument" and parameter.required and not parameter.metavar
    ]


def printed() -> dict[str, str]:
    """Command → where it is printed."""
    found: dict[str, str] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for line in commands_of(text):
            found[line] = str(page.relative_to(ROOT))
        for line in _CODE.findall(text):
            found.setdefault(line, f"{page.relative_to(ROOT)} {NAMED}")
    for name, command in walk(APP):
        for line in re.findall(r"\$ (searchgym .*)", command.epilog or ""):
            found.setdefault(line.replace(r"\[", "["), f"{name} --help")
    for path in (ROOT / "searchgym").rglob("*.py"):
        for line in _SAID.findall(path.read_text(encoding="utf-8")):
            found.setdefault(line, f"{path.relative_to(ROOT)} {NAMED}")
    for kind in ("corpora", "agents", "envs"):
        for card in cards(kind).values():
            for value in card.body.values():
                if isinstance(value, str) and value.startswith("searchgym "):
                    found.setdefault(value, f"the card of {card.id}")
    for row in entries():
        if row.command.startswith("searchgym "):
            found.setdefault(row.command, f"searchgym leaderboard --commands: {row.run}")
    return found


def words_of(line: str) -> list[str]:
    """The command's own words: without what a shell does with its output, and comments."""
    words = shlex.split(line, comments=True)
    for place, word in enumerate(words):
        if word in ("|", ">", "&", "&&", ";", "2>"):
            return words[1:place]
    return words[1:]


OURS = re.compile(r"(?:agents|envs|corpora|notebooks|searchgym|tests)/[\w./-]+")
"""A file of the repository."""


def test_files_of_ours_that_commands_name_are_there() -> None:
    named = {(word.rpartition("=")[2], line) for line in SHOWN for word in words_of(line)}
    ours = [
        (word, line) for word, line in named if OURS.fullmatch(word) and not word.endswith("-v0")
    ]
    missing = [pair for pair in ours if not (ROOT / pair[0]).exists()]
    assert not missing
    assert ours


def parse(command: Any, words: list[str], name: str) -> None:
    """Parse as the command line does, down to the last subcommand; nothing is run."""
    context = command.make_context(name, list(words), resilient_parsing=False)
    with context:
        rest = [*context._protected_args, *context.args]  # as click's own Group.invoke does
        if hasattr(command, "resolve_command") and rest:
            child_name, child, child_words = command.resolve_command(context, rest)
            assert child is not None, f"no command {child_name}"
            parse(child, child_words, child_name)


ALL = printed()
SHOWN = {line: where for line, where in ALL.items() if not OPEN.search(line)}


def test_there_are_commands() -> None:
    assert len(SHOWN) > 250
    assert {"README.md", "CATALOGUE.md"} <= {where.split()[0] for where in SHOWN.values()}


def test_printed_commands_are_parsed() -> None:
    wrong = []
    for line, where in SHOWN.items():
        try:
            parse(APP, words_of(line), "searchgym")
        except Exception as error:
            kind = type(error).__name__
            if kind == "Exit":  # --help, --version
                continue
            if NAMED in where and kind in ("MissingParameter", "BadOptionUsage"):
                continue
            wrong.append(f"{where}: {line}\n{getattr(error, 'message', error)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("line", ["eval X --nope 1", "nonsense", "train grpo --steps many"])
def test_the_parser_can_refuse(line: str) -> None:
    with pytest.raises(Exception, match=r"nope|nonsense|integer"):
        parse(APP, words_of(f"searchgym {line}"), "searchgym")


MODULE = re.compile(r"python -m ((?:searchgym|searchgym_agents|docsite|tests)\b[\w.]*)([^`#\n|>]*)")
"""A module of ours that a page runs, and its arguments."""


def modules() -> dict[tuple[str, str], str]:
    """(module, its arguments) → the page that runs it."""
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    return {
        found: str(page.relative_to(ROOT))
        for page in pages for found in MODULE.findall(page.read_text(encoding="utf-8"))
    }  # fmt: skip


def source_of(module: str) -> Path:
    """The file that ``python -m`` runs."""
    path = (ROOT / {"docsite": ".site", "searchgym_agents": "agents"}.get(
        module.partition(".")[0], "")).joinpath(*module.split("."))  # fmt: skip
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def test_modules_that_pages_run_are_there_and_take_their_options() -> None:
    named: dict[str, set[str]] = {}
    for (module, words), page in modules().items():
        source = source_of(module)
        assert source.is_file(), f"{page}: python -m {module}: there is no {source}"
        options = {word.partition("=")[0] for word in words.split() if word.startswith("-")}
        reads = "argparse" in source.read_text(encoding="utf-8")
        assert reads or not options, f"{page}: python -m {module} takes no options, got {options}"
        if reads:
            named.setdefault(module, set()).update(options)
    assert len(named) > 2
    paths = os.pathsep.join(str(ROOT / name) for name in ("", "agents", ".site"))
    for module, options in named.items():
        told = subprocess.run(
            [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True,
            cwd=ROOT, env={**os.environ, "PYTHONPATH": paths},
        ).stdout  # fmt: skip
        assert options <= set(re.findall(r"(?<![\w-])--?[\w-]+", told)), f"{module}\n{told}"
