"""Python's own documentation strings as passages: real text that every machine has.

For a smoke run where no real set is present. The questions quote a documentation string's first
sentence and ask for the name: one search answers them, so scores on them say that the pipeline
works, nothing about an agent.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..errors import DataError
from ..seeding import derive
from ..types import Passage, Task
from .corpus import Corpus

_LEFT_OUT = frozenset(
    {"test", "idlelib", "lib2to3", "turtledemo", "ensurepip", "antigravity", "this", "pydoc_data",
     "tkinter", "distutils", "turtle", "venv"}
)  # fmt: skip
_LONGEST = 200
_KINDS = {"Module": "module", "ClassDef": "class"}
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def load_docstrings(n_questions: int = 200, *, seed: int = 0) -> tuple[Corpus, list[Task]]:
    """Documented names of the standard library written in Python, and questions about them.

    Source files are parsed, not imported. The passages depend on the Python version, hence the
    corpus' digest does. Tasks have ``meta["smoke_test"] = True``. ``DataError`` if the
    standard library's source is not on this machine.
    """
    corpus, kinds = _read()
    return corpus, _questions(corpus, kinds, n_questions, seed)


@cache
def _read() -> tuple[Corpus, dict[str, str]]:
    """The passages, and the kind of each; read once per process, for it takes seconds."""
    passages: dict[str, Passage] = {}
    kinds: dict[str, str] = {}
    for module, path in _modules():
        for name, kind, text in _documented(module, path):
            if name not in passages:
                url = f"https://docs.python.org/3/library/{module}.html#{name}"
                passages[name] = Passage(name, name, text, url)
                kinds[name] = kind
    if not passages:
        raise DataError(f"no Python source in {sysconfig.get_path('stdlib')}")
    return Corpus("python-docstrings", passages.values()), kinds


def _modules() -> Iterator[tuple[str, Path]]:
    root = Path(sysconfig.get_path("stdlib"))
    for name in sorted(sys.stdlib_module_names):
        if name.startswith("_") or name in _LEFT_OUT:
            continue
        if (root / f"{name}.py").is_file():
            yield name, root / f"{name}.py"
        elif (root / name / "__init__.py").is_file():
            yield name, root / name / "__init__.py"
            for path in sorted((root / name).glob("[a-z]*.py")):
                yield f"{name}.{path.stem}", path


def _documented(module: str, path: Path) -> Iterator[tuple[str, str, str]]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise DataError(f"{path}: not the source of this Python: {error}") from error
    todo: list[tuple[str, _Documented]] = [(module, tree)]
    while todo:
        name, node = todo.pop(0)
        words = (ast.get_docstring(node) or "").split()
        if len(words) >= 5:
            yield name, _KINDS.get(type(node).__name__, "function"), " ".join(words[:_LONGEST])
        if isinstance(node, ast.Module | ast.ClassDef):
            todo += [
                (f"{name}.{child.name}", child)
                for child in node.body
                if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and not child.name.startswith("_")
            ]


def _questions(corpus: Corpus, kinds: dict[str, str], n: int, seed: int) -> list[Task]:
    sentences = {p.id: _first_sentence(p.text) for p in corpus}
    often = Counter(sentences.values())
    usable = [
        p.id
        for p in corpus
        if often[sentences[p.id]] == 1
        and 6 <= len(sentences[p.id].split()) <= 40
        and p.title.rsplit(".", 1)[-1].lower() not in sentences[p.id].lower()
    ]
    chosen = sorted(usable, key=lambda key: derive(seed, "docstrings", key))[:n]
    return [
        Task(
            id=f"docstring-{key}",
            question=(
                f"Which {kinds[key]} of Python's standard library is documented as "
                f"“{sentences[key]}”?"
            ),
            answers=tuple(dict.fromkeys((key, key.rsplit(".", 1)[-1]))),
            evidence=(key,),
            queries=(sentences[key],),
            family="real",
            split="test",
            meta={"smoke_test": True},
        )
        for key in chosen
    ]


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", inspect.cleandoc(text), maxsplit=1)[0].rstrip(".")
