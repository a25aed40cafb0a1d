"""Who may import whom: a total order over the package's modules, read off the source.

A module may import only what stands before its own group; imports inside functions count, too, for
a late import hides a cycle, it does not remove one. Imports that only a type checker runs
(``if TYPE_CHECKING``) do not count. ``searchgym/__init__.py`` stands outside: it names everything,
lazily.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "searchgym"

ORDER = (
    "errors", "plugins", "seeding", "text", "types", "utils", "storage", "batching",
    "web", "objects", "cards", "charts", "scoring", "curricula", "dialects", "rewards", "llms",
    "worlds", "corpora", "kgs", "tasks", "engines", "tools", "core", "envs", "wrappers", "agents",
    "policies", "evaluation", "rl", "reports", "benchmark",
    "serve", "viewer", "integrations", "cli", "__main__",
)  # fmt: skip
"""Packages and the loose modules, lowest first."""

RANK = {name: i for i, name in enumerate(ORDER)}


def modules() -> list[Path]:
    found = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")
    assert len(found) > 30, "the package was not found"
    return found


def group(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements within a node, without the many expressions of which none is an import."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from statements(child)


@cache
def imported(path: Path) -> list[tuple[int, str]]:
    """(line, group) of every import of our own package in a file."""
    here = path.relative_to(PACKAGE.parent).with_suffix("").parts  # ("searchgym", "envs", "info")
    found: list[tuple[int, str]] = []

    def add(line: int, parts: tuple[str, ...], names: list[str]) -> None:
        if parts[:1] != ("searchgym",):
            return
        for target in [parts[1]] if len(parts) > 1 else names:
            if (
                target in RANK
                or (PACKAGE / target).is_dir()
                or (PACKAGE / f"{target}.py").is_file()
            ):
                found.append((line, target))

    for node in statements(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                add(node.lineno, tuple(alias.name.split(".")), [])
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                package = here[:-1]
                module = package[: len(package) - node.level + 1] + module
            add(node.lineno, module, [alias.name for alias in node.names])
    return found


def test_the_package_imports_none_of_its_agents() -> None:
    """They are found by their entry point, as plug-ins of others are."""
    wrong = [
        f"{path.relative_to(PACKAGE.parent)}:{node.lineno}"
        for path in modules()
        for node in statements(tree(path))
        if (
            isinstance(node, ast.Import) and "searchgym_agents" in str([a.name for a in node.names])
        )
        or (isinstance(node, ast.ImportFrom) and str(node.module).startswith("searchgym_agents"))
    ]
    assert not wrong, wrong


def test_every_module_has_a_place_in_the_order() -> None:
    unplaced = sorted({group(p) for p in modules()} - set(ORDER))
    assert not unplaced, f"give these a place in ORDER: {unplaced}"


@pytest.fixture(scope="module", autouse=True)
def _forget() -> Iterator[None]:
    yield
    tree.cache_clear()


def test_a_module_imports_only_what_stands_before_it() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE.parent)}:{line} imports {target}, which stands after it"
        for path in modules()
        for line, target in imported(path)
        if target != group(path) and RANK[target] > RANK[group(path)]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_reader_of_imports_sees_every_form(tmp_path: Path) -> None:
    """The test above must not pass because nothing was read."""
    seen = {t for p in modules() for _, t in imported(p)}
    assert {"errors", "types", "cards", "envs", "core"} <= seen
    oracle = {t for _, t in imported(PACKAGE / "core" / "oracle.py")}
    assert oracle == {"core", "dialects", "errors", "types"}
    sources = {t for _, t in imported(PACKAGE / "envs" / "sources.py")}
    assert "engines" in sources, "imports inside functions must count"


def test_few_modules_lie_outside_the_packages() -> None:
    loose = {p.stem for p in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert len(loose) <= 8, sorted(loose)


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in modules():
        for node in statements(tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert not twice, twice


def test_every_package_says_what_it_holds() -> None:
    silent = [
        str(p.relative_to(PACKAGE))
        for p in PACKAGE.rglob("__init__.py")
        if len(ast.get_docstring(tree(p)) or "") < 20
    ]
    assert not silent, f"give these packages a docstring: {silent}"


MODULES_ARE_PUBLIC = frozenset({"integrations", "utils"})
"""Packages whose modules are named one by one: a project each, a helper each."""


def test_tests_of_others_see_only_the_face_of_a_package() -> None:
    """So that a merge of two modules inside a package changes no test of another package."""
    packages = {p.parent.name for p in PACKAGE.glob("*/__init__.py")} - MODULES_ARE_PUBLIC
    here = Path(__file__).resolve().parent
    wrong = []
    for path in sorted(here.rglob("*.py")):
        own = path.relative_to(here).parts[0]
        for line, parts in _named(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            if len(parts) > 2 and parts[1] in packages - {own}:
                wrong.append(f"{path.relative_to(here.parent)}:{line} {'.'.join(parts)}")
    assert not wrong, "import from the package: " + "\n".join(wrong)


def test_what_tests_share_stands_in_no_test_file() -> None:
    here = Path(__file__).resolve().parent
    wrong = [
        f"{path.relative_to(here.parent)}:{node.lineno} {node.module}"
        for path in sorted(here.rglob("*.py"))
        for node in statements(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        if isinstance(node, ast.ImportFrom)
        and str(node.module).rpartition(".")[2].startswith("test_")
    ]
    assert not wrong, "move it into a module or a conftest.py: " + "\n".join(wrong)


def _named(source: ast.Module) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, parts) of the modules of ours that are imported from."""
    for node in statements(source):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from ((node.lineno, tuple(name.split("."))) for name in names
                    if name.startswith("searchgym."))  # fmt: skip


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Within packages, too: a late import would hide a circle, so those count."""
    graph = nx.DiGraph()
    places = {p.relative_to(PACKAGE.parent).with_suffix("").parts: p for p in modules()}
    for parts, path in places.items():
        for target in _modules_imported(parts, path, places):
            if target != parts:
                graph.add_edge(parts, target)
    circles = [
        sorted(map(".".join, c)) for c in nx.strongly_connected_components(graph) if len(c) > 1
    ]
    assert not circles, circles


def _modules_imported(
    here: tuple[str, ...], path: Path, places: Mapping[tuple[str, ...], Path]
) -> Iterator[tuple[str, ...]]:
    for node in statements(tree(path)):
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level] if node.level else ()
            base += tuple((node.module or "").split(".")) if node.module else ()
            for alias in node.names:
                for target in ((*base, alias.name), base, (*base, "__init__")):
                    if target in places:
                        yield target
                        break
