"""Gymnasium at the lowest version that ``pyproject.toml`` allows, and at the newest there is."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SMALL = "world={'entities': 400}, tasks={'simple': 12}"
SCRIPT = f"""
import importlib, pkgutil
import gymnasium as gym
import searchgym
from gymnasium.utils.env_checker import check_env
from searchgym.envs.curriculum import CurriculumWrapper, VectorCurriculumWrapper
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
print(gym.__version__)
"""


def lowest() -> str:
    """What ``pyproject.toml`` promises: ``gymnasium>=`` this."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = [d for d in project["dependencies"] if d.startswith("gymnasium>=")]
    return line.removeprefix("gymnasium>=")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", ["lowest", "newest"])
def test_every_public_name_works_with_this_gymnasium(version: str, tmp_path: Path) -> None:
    wanted = "gymnasium" if version == "newest" else f"gymnasium=={lowest()}.*"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps",
           "--disable-pip-version-check", "--target", str(tmp_path / "site"), wanted]  # fmt: skip
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode and "CI" not in os.environ:
        pytest.skip(f"pip cannot install {wanted}: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)])}
    ran = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:searchgym", "-c", SCRIPT],
        env=env, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    if version == "lowest":
        assert ran.stdout.split()[-1].startswith(lowest())
