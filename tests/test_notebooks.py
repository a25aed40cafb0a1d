"""Every notebook is committed without outputs and runs from top to bottom on a CPU."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from docsite.notebooks import execute
from searchgym.llms import KIND, SOURCE, to_folder

from .llms.tiny_gguf import write_gguf

pytestmark = pytest.mark.contract

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_the_list_of_notebooks_is_whole() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS] == re.findall(
        r"^\| \[`(\S+\.ipynb)`", page, re.MULTILINE
    )
    assert len(NOTEBOOKS) >= 6


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_committed_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs
            assert cell.execution_count is None


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache in which the model that notebook 5 fetches is there: a tiny random one."""
    root = tmp_path_factory.mktemp("fetched")
    file = write_gguf(root / "tiny.gguf", context=8_192, layers=13)
    folder = to_folder(file, root / "cache" / KIND / "smollm2-135m")
    (folder / SOURCE).write_text("{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEARCHGYM_CACHE", str(root / "cache"))
        yield


SLOW = "04_", "05_", "06_"
"""Notebooks of trainings that other tests run as well."""


@pytest.mark.usefixtures("fetched")
@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.slow] * p.name.startswith(SLOW)) for p in NOTEBOOKS],
    ids=[p.stem for p in NOTEBOOKS],
)
def test_runs(path: Path, tmp_path: Path) -> None:
    execute(path, tmp_path / path.name)  # raises CellExecutionError with the cell and its traceback
    outputs = [
        output
        for cell in nbformat.read(tmp_path / path.name, as_version=4).cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    red = [output.text for output in outputs if output.get("name") == "stderr"]
    assert all("CollapseWarning" in text for text in red), red  # notebook 5 speaks of that one
