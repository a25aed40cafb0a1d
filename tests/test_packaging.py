"""The wheel, installed in a fresh environment elsewhere, with its base dependencies only."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.contract

ROOT = Path(__file__).resolve().parent.parent
AGENTS = ROOT / "agents" / "searchgym_agents"


def run(*command: str | Path | int, cwd: Path, expect: int = 0) -> str:
    """Standard output of a command that must exit as expected, far from the checkout; of one that
    must fail, standard error."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SEARCHGYM_DATA")}
    env["XDG_CACHE_HOME"] = str(cwd / "no-cache")  # no data set of this machine's user is seen
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, env=env, capture_output=True, text=True, timeout=540, check=False,
    )  # fmt: skip
    assert done.returncode == expect, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stderr if expect else done.stdout


def built(source: Path, out: Path, *kinds: str) -> dict[str, Path]:
    """Distributions of a checkout, by suffix."""
    run(sys.executable, "-m", "build", *kinds, "--no-isolation", "-o", out, source, cwd=out)
    return {path.suffix: path for path in out.iterdir() if path.suffix in (".whl", ".gz")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("dist"), "--wheel")[".whl"]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the scripts of a fresh virtual environment that holds the wheel."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    # Modules are compiled as they are imported; to compile all takes longer than the tests.
    quick = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-compile")
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python", "install")
    run(*pip, *quick, wheel, cwd=folder)
    return scripts


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="copies are made of a git checkout")
def test_two_builds_elsewhere_and_later_are_the_same_bytes(tmp_path: Path) -> None:
    """Other folders, times of files, permissions and remains beside them; the wheel is what the
    sdist holds."""
    found = []
    for name, day, mode in (("one", 1.0e9, 0o644), ("a longer name", 1.6e9, 0o600)):
        copy, out = tmp_path / name, tmp_path / f"dist of {name}"
        out.mkdir()
        run("git", "-C", ROOT, "archive", "-o", tmp_path / "tree.tar", "HEAD", cwd=tmp_path)
        with tarfile.open(tmp_path / "tree.tar") as tree:
            tree.extractall(copy, filter="data")
        for path in copy.rglob("*"):
            os.utime(path, (day, day))
            if path.is_file():
                path.chmod(mode)
        remains = copy / "searchgym" / "__pycache__"
        remains.mkdir()
        (remains / "old.cpython-311.pyc").write_text(name)
        found.append({
            suffix: hashlib.sha256(path.read_bytes()).hexdigest()
            for suffix, path in built(copy, out).items()
        })  # fmt: skip
    assert found[0].keys() == {".whl", ".gz"}
    assert found[0] == found[1]


def test_what_containers_and_workflows_make_can_be_made() -> None:
    """No container is built here: that their files name targets which there are, and that the
    release's build is the one of ``make dist``, is what can be told."""
    files = [ROOT / "Dockerfile", ROOT / ".devcontainer" / "devcontainer.json"]
    files += sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    named = {
        target
        for file in files
        for made in re.findall(r"\bmake ([\w./-]+(?: \.[\w./-]+)*)", file.read_text("utf-8"))
        for target in made.split()
    }
    assert {".venv/.installed", ".venv/.text", "test", "contracts"} <= named
    for target in sorted(named - {"quickstart"}):
        run("make", "-C", ROOT, "-n", target, "VENV=.venv", cwd=ROOT)
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    for said in ("git log -1 --format=%ct", "-m build", "--outdir dist"):
        assert said in release
        assert said in run("make", "-C", ROOT, "-n", "dist", cwd=ROOT) or "%ct" in said


MOST_MB, MOST_S = 200, 60
"""Megabytes of a core installation, and seconds until the README's ten lines have run."""


def test_the_core_is_small(installed: Path) -> None:
    """Everything that the wheel brings, with the bytecode that pip may compile."""
    code = (
        "import json, compileall\nfrom importlib.metadata import distributions\n"
        "sizes = {d.name: sum(f.locate().stat().st_size for f in d.files or () "
        "if f.locate().is_file()) for d in distributions()}\nprint(json.dumps(sizes))"
    )
    sizes = json.loads(run(installed / "python", "-c", code, cwd=installed))
    assert "searchgym" in sizes
    assert "numba" not in sizes
    # compiled, a package of Python alone is up to twice as large (numpy 1.2, networkx 2.3 times)
    assert 1.5 * sum(sizes.values()) / 1e6 < MOST_MB, sorted(sizes.items(), key=lambda s: -s[1])


def test_the_readmes_ten_lines_run_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines, told), *_ = re.findall(r"```python\n(.+?)```\s+```text\n(.+?)```", text, re.DOTALL)
    began = time.monotonic()
    assert run(installed / "python", "-c", lines, cwd=tmp_path) == told
    assert time.monotonic() - began < MOST_S
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "no-cache"])


def test_the_core_evaluates_and_searches(installed: Path, tmp_path: Path) -> None:
    command = installed / "searchgym"
    world = ("-s", "world.entities=300", "-n", 5, "--closed-book", "none")
    run(command, "eval", "SearchQA-v0", *world, "--out", tmp_path / "out", cwd=tmp_path)
    run(command, "verify", *(tmp_path / "out").glob("rules.json"), cwd=tmp_path)
    notes = tmp_path / "notes"
    notes.mkdir()
    shutil.copy(ROOT / "CONTRIBUTING.md", notes)
    shown = run(command, "search", notes, "rules of the house", "--json", cwd=tmp_path)
    assert "Rules of the house" in shown
    refused = run(command, "eval", "SearchQA-v0", "-s", "engine=graph", "-n", 1, cwd=tmp_path,
                  expect=2)  # fmt: skip
    assert "searchgym[fast]" in refused


PLUGIN = "searchgym_v1.py"
"""Module that verifiers looks for beside the package: names of its plug-ins have no dots."""


def test_the_wheel_has_the_package_its_agents_and_the_catalogue(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {
        "searchgym", "searchgym_agents", PLUGIN
    }  # fmt: skip
    assert "searchgym/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    for kind in ("envs", "corpora"):
        shipped = {
            name.removeprefix(f"searchgym/_catalog/{kind}/")
            for name in names
            if name.startswith(f"searchgym/_catalog/{kind}/")
        }
        here = {
            str(path.relative_to(ROOT / kind).as_posix())
            for path in (ROOT / kind).rglob("*")
            if path.is_file()
        }
        assert shipped == here
    stray = [n for n in names if "/tests/" in n or "__pycache__" in n or n.endswith(".jsonl.gz")]
    assert not stray


def test_every_module_is_in_the_wheel(wheel: Path) -> None:
    shipped = {n for n in zipfile.ZipFile(wheel).namelist() if n.endswith(".py")}
    here = {
        path.relative_to(folder.parent).as_posix()
        for folder in (ROOT / "searchgym", AGENTS) for path in folder.rglob("*.py")
    }  # fmt: skip
    assert shipped == here - {f"searchgym/integrations/{PLUGIN}"} | {PLUGIN}


def test_every_file_that_modules_read_is_in_the_wheel(wheel: Path) -> None:
    """Word lists, templates, schemas: with the catalogue all that environments are made of."""
    names = set(zipfile.ZipFile(wheel).namelist())
    made = {"__pycache__", ".mypy_cache", ".ruff_cache"}
    here = {
        path.relative_to(folder.parent).as_posix()
        for folder in (ROOT / "searchgym", AGENTS)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".py" and not made & set(path.parts)
    }
    assert len(here) > 10
    assert here - names == set()


def test_an_environment_is_checked_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    """One with its data, and one whose data must be got."""
    check = (installed / "searchgym", "check")
    (row,) = json.loads(run(*check, "SearchQA-v0", "--seeds", 1, "--json", cwd=tmp_path))
    assert row["result"] == "ok"
    said = run(*check, "HotpotQA-v0", cwd=tmp_path, expect=2)
    assert "Get it: searchgym data get hotpotqa" in said


@pytest.mark.slow  # builds every environment once more; that all files are there is shown above
def test_check_all_runs_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    few = ("--seeds", 1, "--json")  # how many episodes are walked is no matter of the wheel
    rows = json.loads(run(installed / "searchgym", "check", "--all", *few, cwd=tmp_path))
    results = {row["env"]: row["result"] for row in rows}
    assert results["SearchQA-v0"] == results["searchgym/LongSearchQA-v0"] == "ok"
    broken = {row["env"]: row["note"] for row in rows if row["result"] == "broken"}
    assert not broken
    for row in rows:
        if row["result"] == "no data":
            assert "Get it" in row["note"]
    assert sum(r == "ok" for r in results.values()) >= 10


def test_an_environment_is_made_by_name_alone(installed: Path, tmp_path: Path) -> None:
    code = (
        "import gymnasium as gym\n"
        "env = gym.make('searchgym:SearchQA-v0')\n"
        "env.reset(seed=1)\n"
        "for action in env.unwrapped.oracle():\n"
        "    _, reward, terminated, _, _ = env.step(action)\n"
        "import sys, searchgym\n"
        "print(reward, terminated, 'torch' in sys.modules, searchgym.__file__)"
    )
    reward, terminated, torch, where = run(installed / "python", "-c", code, cwd=tmp_path).split()
    assert (reward, terminated, torch) == ("1.0", "True", "False")
    assert str(ROOT / "searchgym") not in where


def test_a_missing_extra_says_what_to_type(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(installed / "searchgym"), "train", "candidate"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert 'pip install "searchgym[' in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


EVERY_COMMAND = """
import contextlib, io, json, sys
from searchgym.cli.main import command, run

def leaves(found, path=()):
    if not hasattr(found, "commands"):
        yield [*path]
    for name, below in getattr(found, "commands", {}).items():
        yield from leaves(below, (*path, name))

at_work = (["play"], ["transfer"])  # without arguments, these play
bare = [line for line in leaves(command()) if line not in at_work]
for line in [*leaves(command())]:
    bare.append([*line, "--help"])
for line in [*bare, *json.loads(sys.argv[1])]:
    told = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
        try:
            run(line)
        except SystemExit as end:
            code = end.code
    print(json.dumps([line, code, told.getvalue()]), flush=True)
"""
NEED_MORE = [
    ["train", "grpo", "--model", "smollm2-135m"], ["train", "candidate"], ["train", "smollm"],
    ["quickstart"], ["lab", "grpo"], ["serve", "encyclopedia", "--engine", "bm25"], ["watch", "."],
    ["serve", "SearchQA-v0", "--mcp"], ["report", "."], ["view", "encyclopedia"],
    ["warmstart"], ["knower"], ["eval", "SearchQA-v0", "-n", "2", "-s", "engine=dense"],
]  # fmt: skip
"""Commands that need an extra, which is not there."""


def test_every_command_runs_without_extras_or_says_what_it_needs(
    installed: Path, tmp_path: Path
) -> None:
    lines = json.dumps(NEED_MORE)
    said = run(installed / "python", "-c", EVERY_COMMAND, lines, cwd=tmp_path).splitlines()
    ended = [json.loads(one) for one in said]
    assert len(ended) > 60
    for line, code, told in ended:
        assert code == 0 if line[-1] == "--help" else code in (0, 2), (line, told)
        assert code == 0 or len(told.splitlines()) == 1, (line, told)
        assert "Traceback" not in told
        if line in NEED_MORE:
            assert code == 2, line
            assert "pip install" in told, (line, told)
