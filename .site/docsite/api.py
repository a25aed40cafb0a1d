"""Reference of the public names as Markdown, one page a package, from docstrings and signatures.

Public are the names of each package's ``__all__``; those of ``searchgym`` stand on the page of the
package that defines them.
"""

from __future__ import annotations

import importlib
import inspect
import re
import typing
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pdoc

PACKAGES = (
    "searchgym.curricula",
    "searchgym.engines",
    "searchgym.llms",
    "searchgym.charts",
    "searchgym.reports",
    "searchgym.rewards",
    "searchgym.tools",
    "searchgym_agents.knower",
    "searchgym_agents.reader",
)
"""Packages whose own names are shown besides those of ``searchgym``."""
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_HOME = re.compile(r"^from \.([\w.]+) import (\w+) as", re.MULTILINE)


def load(package: str) -> None:
    """Load a package's public names, and give its named tuples the types of their fields in place
    of the types' names, which only their own modules can read; what Python says of every named
    tuple ("Alias for field number 0") is taken out."""
    module: Any = importlib.import_module(package)
    if not hasattr(module, "__all__"):  # names that it says are public by "import X as X"
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        module.__all__ = re.findall(r"import (\w+) as \1$", source, re.MULTILINE)
    for name in module.__all__:
        value = vars(module)[name] = getattr(module, name)
        if inspect.isclass(value) and issubclass(value, tuple) and hasattr(value, "_fields"):
            types = typing.get_type_hints(value)
            value.__annotations__ = types
            value.__new__.__annotations__ = types
            value.__new__.__doc__ = ""  # in place of "Create new instance of …"
            for field in value._fields:
                vars(value)[field].__doc__ = ""  # in place of "Alias for field number …"


@cache
def modules() -> dict[str, list[pdoc.doc.Doc[Any]]]:
    """Package → its documented names, in alphabetical order of both.

    A warning of pdoc's (an annotation it cannot read, a name that is not there) is an error.
    """
    warnings.filterwarnings("error", module="pdoc")
    stub = Path(str(importlib.import_module("searchgym").__file__)).with_suffix(".pyi")
    home = {name: f"searchgym.{where.split('.')[0]}" for where, name in _HOME.findall(
        stub.read_text(encoding="utf-8"))}  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    for package in ("searchgym", *PACKAGES):
        load(package)
        for name, member in pdoc.doc.Module.from_name(package).members.items():
            if name in importlib.import_module(package).__all__:
                where = home.get(name, package) if package == "searchgym" else package
                found.setdefault(where, {}).setdefault(name, member)
    found.pop("searchgym.utils")
    return {home: [found[home][n] for n in sorted(found[home])] for home in sorted(found)}


def page(package: str) -> str:
    """The page of a package."""
    about = inspect.getdoc(importlib.import_module(package)) or ""
    parts = [f"# {package}", "---\nsearch:\n  boost: 0.5\n---", _text(about)]
    for member in modules()[package]:
        parts += _entry(member, 2)
    parts[:2] = parts[1::-1]  # what MkDocs reads stands before the title
    return "\n\n".join(filter(None, parts)) + "\n"


def _entry(member: Any, level: int, owner: str = "") -> Iterator[str]:
    """Heading, signature and docstring of a name; of a class its public members, too."""
    name = f"{owner}.{member.name}" if owner else member.name
    yield f"{'#' * level} {member.name} {{#{name}}}"
    if isinstance(member, pdoc.doc.Class):
        made: Any = member.members.get("__init__")
        yield _code(f"class {name}{made.signature_without_self if made else '()'}")
        yield _text(member.docstring)
        public = [one for one in member.own_members if not one.name.startswith("_")]
        fields = [one for one in public if isinstance(one, pdoc.doc.Variable)]
        told = ((one, " ".join(_text(one.docstring).split())) for one in fields)
        yield "\n".join(
            f"- `{one.name}{one.annotation_str}`{': ' * bool(text)}{text}" for one, text in told
        )
        for one in public:
            if one not in fields:
                yield from _entry(one, level + 1, name)
        return
    if isinstance(member, pdoc.doc.Function):
        signature = member.signature_without_self if owner else member.signature
        yield _code(f"{name}{signature}")
    elif isinstance(member, pdoc.doc.Variable):
        yield _code(f"{name}{member.annotation_str}")
    yield _text(member.docstring)


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _text(docstring: str) -> str:
    """A docstring as Markdown: roles become code, heads of sections bold."""
    text = _ROLE.sub(r"`\1`", pdoc.docstrings.google(docstring or ""))
    text = re.sub(r"^#+ (.+)$", r"**\1**", text, flags=re.MULTILINE)
    return re.sub(r"::$", ":", text.replace("``", "`"), flags=re.MULTILINE)
