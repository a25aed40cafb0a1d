"""``import searchgym as sg`` is enough: no program of a page or notebook imports from within."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import searchgym as sg

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in ("build", "dist") for part in page.parts)
)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LAZY = (
    "searchgym",
    *(f"searchgym.{name}" for name in ("llms", "reports")),
    *(f"searchgym_agents.{name}" for name in ("experts", "knower", "language_model", "reader")),
)
"""Packages whose public names load when they are first used."""


def programs(path: Path) -> list[str]:
    """The fenced Python of a page, or the code cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        sources = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
        return [re.sub(r"^(\s*)%.*", r"\1pass", s, flags=re.MULTILINE) for s in sources]
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def deep_imports(program: str) -> list[str]:
    """Imports of what is inside the package, within strings of code, too."""
    deep = []
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = re.findall(r"^\s*(?:from|import) (searchgym\.\S+)", node.value, re.MULTILINE)
        else:
            continue
        deep += [name for name in names if name.startswith("searchgym.")]
    return deep


def test_deep_imports_are_seen() -> None:
    assert deep_imports("from searchgym.rl.trainer import Trainer") == ["searchgym.rl.trainer"]
    assert deep_imports("def f():\n    import searchgym.rl as rl") == ["searchgym.rl"]
    assert deep_imports("s = 'import searchgym.llms.base'") == ["searchgym.llms.base"]
    assert not deep_imports("import searchgym as sg\nfrom searchgym import Trainer")


def test_nothing_is_imported_from_inside() -> None:
    deep = [
        (str(path.relative_to(ROOT)), name)
        for path in [*PAGES, *NOTEBOOKS]
        for program in programs(path)
        for name in deep_imports(program)
    ]
    assert deep == []


def test_the_pages_hold_programs() -> None:
    counts = {path.name: len(programs(path)) for path in [ROOT / "README.md", *NOTEBOOKS]}
    assert all(count >= 3 for count in counts.values()), counts


@pytest.mark.parametrize("package", LAZY)
def test_every_line_of_a_stub_is_read(package: str) -> None:
    """What the type checker is told is there at run time, and of the package there is not much."""
    module = importlib.import_module(package)
    stub = Path(str(module.__file__)).with_suffix(".pyi").read_text("utf-8")
    told = re.findall(r"^from \.[\w.]+ import \w+ as (\w+)$", stub, re.MULTILINE)
    assert module.__all__ == told
    assert len(told) <= 80


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_is_documented(package: str) -> None:
    module = importlib.import_module(package)
    for name in set(module.__all__) - {"__version__"}:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
            assert own, f"{package}.{name} has no docstring"
            assert not own.startswith(f"{name}("), f"{package}.{name}: only its signature"


@pytest.mark.parametrize("package", LAZY)
def test_a_public_name_is_not_hidden_by_a_module_of_its_name(package: str) -> None:
    """A function stays one, before and after the module of its name is loaded."""
    module = importlib.import_module(package)
    for name in set(module.__all__) - {"__version__"}:
        first = getattr(module, name)
        try:
            importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError:
            continue
        assert not isinstance(first, ModuleType)
        assert getattr(module, name) is first


def test_wrappers_and_packages_need_no_import() -> None:
    code = (
        "import sys, searchgym as sg\n"
        "before = {m for m in ('torch', 'numba', 'transformers') if m in sys.modules}\n"
        "print(sg.wrappers.CurriculumWrapper is sg.CurriculumWrapper, "
        "sg.curricula.CURRICULA != {}, sg.cards.cards('envs') != {}, sorted(before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "True True True []"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'evaluat'"):
        sg.evaluat  # type: ignore[attr-defined]  # noqa: B018
    assert {"evaluate", "wrappers", "__version__"} <= set(dir(sg))
