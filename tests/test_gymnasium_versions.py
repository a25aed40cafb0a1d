"""Gymnasium at the lowest version that ``pyproject.toml`` allows, and at the newest there is."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.contract

ROOT = Path(__file__).resolve().parent.parent
SMALL = "world={'entities': 400}, tasks={'simple': 12}"
SCRIPT = f"""
import importlib, pkgutil
import gymnasium as gym
import searchgym
from gymnasium.utils.env_checker import check_env
from searchgym.wrappers import CurriculumWrapper, VectorCurriculumWrapper
from searchgym.errors import MissingExtraError

for name in searchgym.__all__:
    getattr(searchgym, name)
for module in pkgutil.walk_packages(searchgym.__path__, "searchgym."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:  # an adapter to a framework that is not installed says so
            if ".integrations." not in module.name or "pip install" not in str(error):
                raise
env = gym.make("SearchQA-v0", {SMALL})
check_env(env.unwrapped)
wrapped = searchgym.CandidateActions(env)
wrapped.reset(seed=0)
wrapped.step(0)
CurriculumWrapper(env, "uniform").reset(seed=0)
vector = gym.make_vec("SearchQA-v0", 2, {SMALL})
slots, _ = VectorCurriculumWrapper(vector, "uniform").reset(seed=0)
assert len(slots) == 2
vector.step(["<search>a</search>", "<answer>b</answer>"])
print(gym.__version__, gym.__file__)
"""


def lowest() -> str:
    """What ``pyproject.toml`` promises: ``gymnasium>=`` this."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = [d for d in project["dependencies"] if d.startswith("gymnasium>=")]
    return line.removeprefix("gymnasium>=")


FORKING = """
import importlib, os, sys
for name in ("torch", "transformers", "scipy.optimize"):  # seconds each, and none knows Gymnasium
    importlib.import_module(name)
assert "gymnasium" not in sys.modules
script, *folders = sys.argv[1:]
for folder in folders:
    child = os.fork()
    if child == 0:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT, 0o600), number)
        sys.path.insert(0, f"{folder}/site")
        exec(script, {"__name__": "__main__"})
        sys.exit()
    with open(f"{folder}/status", "w") as file:
        file.write(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path | str]:
    """Where the script ran with each version; why not, where pip cannot install one."""
    found: dict[str, Path | str] = {}
    for version in ("lowest", "newest"):
        wanted = "gymnasium" if version == "newest" else f"gymnasium=={lowest()}.*"
        folder = tmp_path_factory.mktemp(version)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps",
               "--no-compile", "--disable-pip-version-check", "--target", str(folder / "site"),
               wanted]  # fmt: skip
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        found[version] = folder if done.returncode == 0 else f"pip, {wanted}: {done.stderr}"
    ready = [folder for folder in found.values() if isinstance(folder, Path)]
    ran = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:searchgym", "-c", FORKING, SCRIPT,
         *map(str, ready)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path_factory.mktemp("cwd"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", ["lowest", "newest"])
def test_every_public_name_works_with_this_gymnasium(
    version: str, folders: dict[str, Path | str]
) -> None:
    folder = folders[version]
    if isinstance(folder, str):
        if "CI" not in os.environ:
            pytest.skip(folder)
        pytest.fail(folder)
    assert (folder / "status").read_text() == "0", (folder / "err").read_text()[-3000:]
    used, where = (folder / "out").read_text().split()[-2:]
    assert Path(where).is_relative_to(folder)
    if version == "lowest":
        assert used.startswith(lowest())
