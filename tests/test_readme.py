"""The README is true: its programs run and print what it says, its links lead somewhere; and the
catalogue's tree is the tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
ENVS = (ROOT / "envs" / "README.md").read_text(encoding="utf-8")
OF_ENVS = re.findall(r"```python\n(.*?)```", ENVS, re.DOTALL)
PAGES = [
    ROOT / "README.md",
    ROOT / "CATALOGUE.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / kind / "README.md" for kind in ("envs", "corpora", "agents", "notebooks")),
]


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 2
    agent = next(p for p in PROGRAMS if "class " in p)
    assert len([line for line in agent.splitlines() if line.strip()]) <= 20


def test_a_user_of_ones_own_is_short() -> None:
    (user,) = [p for p in OF_ENVS if "AskUser)" in p]
    assert len([line for line in user.splitlines() if line.strip()]) <= 20


def test_the_programs_of_envs_run() -> None:
    assert len(OF_ENVS) >= 3
    test_a_program_runs("\n".join(OF_ENVS))


@cache
def ran(program: str) -> str:
    """What a program prints in a process of its own, run once for all tests."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
        # threads that wait for a busy core spin: beside other tests eight times as slow
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.strip().splitlines()[0][:30])
def test_a_program_runs(program: str) -> None:
    assert ran(program).strip()


def test_the_output_is_what_the_program_prints() -> None:
    (program, printed), *_ = re.findall(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL
    )
    assert ran(program) == printed


def test_the_readme_is_short_and_its_first_table_of_contents_is_true() -> None:
    assert len(README.splitlines()) <= 180
    headings = {re.sub(r"[^a-z -]", "", h.lower()).replace(" ", "-") for h in
                re.findall(r"^## (.+)$", README, re.MULTILINE)}  # fmt: skip
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= headings


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8"))
    broken = [n for n in links if "://" not in n and not (page.parent / n).exists()]
    assert not broken


def test_the_tree_names_every_package() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = contributing.partition("## The tree")[2].partition("## ")[0]
    folders = {p.name for p in (ROOT / "searchgym").iterdir() if (p / "__init__.py").is_file()}
    missing = sorted(name for name in folders if f"{name}/" not in tree)
    named = set(re.findall(r"^  ([a-z]\w+)/ ", tree, re.MULTILINE))
    assert not missing, f"the tree does not name {missing}"
    assert named <= folders, f"the tree names {sorted(named - folders)}, which are not there"


def test_the_paper_of_the_same_name_is_cited() -> None:
    assert "2601.14615" in README
    assert "independent of both" in README


def test_the_citation_names_this_version() -> None:
    from searchgym import __version__

    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {__version__}\n" in cited
    assert re.search(r'^title: "(.+)"$', cited, re.MULTILINE)
