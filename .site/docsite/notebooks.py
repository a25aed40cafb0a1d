"""Notebooks as pages of the site, executed. What a run gave is kept by a digest of the notebook and
of the code that it ran, so that only what has changed is run again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from searchgym import __version__

CACHE = Path("build") / "notebooks"
_OUTPUT = re.compile(r"(?:^    .*\n(?:[ \t]*\n(?=    ))*)+", re.MULTILINE)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def titles(root: Path) -> dict[str, str]:
    """The first heading of each notebook by its name without suffix."""
    headings = {}
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        first = json.loads(path.read_text("utf-8"))["cells"][0]["source"]
        headings[path.stem] = "".join(first).splitlines()[0].removeprefix("# ")
    return headings


COLAB = "https://colab.research.google.com"
INSTALLS = "%pip install"
"""In a notebook that brings what it needs, and so runs in Colab."""


def badge(path: Path, repository: str) -> str:
    """A badge that opens a notebook in Colab; "" where it does not install what it needs, or the
    repository is not on GitHub."""
    place = repository.removeprefix("https://github.com/")
    if place == repository or INSTALLS not in path.read_text("utf-8"):
        return ""
    link = f"{COLAB}/github/{place}/blob/main/notebooks/{path.name}"
    return f" [![Open in Colab]({COLAB}/assets/colab-badge.svg)]({link})"


def pages(root: Path, docs: Path, *, run: bool, repository: str = "") -> Iterator[tuple[Path, str]]:
    """Each notebook as Markdown, relative to the site; its pictures are written into ``docs``.

    Args:
        root: The repository.
        docs: The folder of the site's sources.
        run: Execute notebooks that have no kept outputs; else those are shown without outputs.
        repository: Its address, for badges.
    """
    import nbformat
    from nbconvert import MarkdownExporter

    for path in sorted((root / "notebooks").glob("*.ipynb")):
        kept = root / CACHE / f"{path.stem}-{_digest(path)}.ipynb"
        if run and not kept.is_file():
            execute(path, kept)
        shown = kept if kept.is_file() else path
        notebook = nbformat.read(shown, as_version=4)
        names = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
        text, resources = MarkdownExporter().from_notebook_node(notebook, resources=names)
        for name, data in resources["outputs"].items():
            picture = docs / "notebooks" / name
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(data)
        (docs / "notebooks").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, docs / "notebooks" / path.name)
        run_or_not = "Executed copy" if shown is kept else "Copy, not run for this build,"
        note = f'*{run_or_not} of a notebook:* <a href="../{path.name}" download>download it</a>.'
        note += badge(path, repository)
        head, _, rest = text.partition("\n")
        yield Path("notebooks", f"{path.stem}.md"), f"{head}\n\n{note}\n{_fenced(rest)}"


def _fenced(text: str) -> str:
    """Outputs, which nbconvert writes as indented blocks, as fenced blocks without colours."""
    text = _ESCAPES.sub("", text).replace("![png](", "![Picture that the cell draws](")
    outside = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    outside[::2] = [_OUTPUT.sub(_fence, part) for part in outside[::2]]
    return "".join(outside)


def _fence(block: re.Match[str]) -> str:
    if not block[0].strip():  # nbconvert puts an empty one around each picture
        return "\n"
    return "```{.text .output}\n" + textwrap.dedent(block[0]).strip("\n") + "\n```\n"


def _digest(path: Path) -> str:
    return hashlib.sha256(f"{__version__}\n".encode() + path.read_bytes()).hexdigest()[:16]


def execute(path: Path, into: Path) -> None:
    """Run a notebook in an empty folder by this very interpreter, and write it with its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder, "kernels", "this-python")
        kernel.mkdir(parents=True)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": "this Python", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        work = Path(folder, "work")
        work.mkdir()
        old = dict(os.environ)
        paths = [str(path.parent.parent), *filter(None, [old.get("PYTHONPATH")])]
        os.environ |= {
            "JUPYTER_PATH": folder,
            "IPYTHONDIR": str(Path(folder, "ipython")),
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",  # models this small only wait for a second thread
        }
        try:
            nbclient.NotebookClient(
                notebook, timeout=900, kernel_name="this-python",
                coalesce_streams=True,
                resources={"metadata": {"path": str(work)}},
            ).execute()  # fmt: skip
        finally:
            os.environ.clear()
            os.environ.update(old)
    into.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, into)
