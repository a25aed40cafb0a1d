"""``import searchgym`` is light: nothing heavy is imported, and no connection is opened."""

from __future__ import annotations

import statistics
import subprocess
import sys

import searchgym

HEAVY = (
    "torch", "numba", "networkx", "bm25s", "typer", "rich", "pydantic", "scipy",
    "sentence_transformers", "transformers", "matplotlib", "huggingface_hub", "safetensors",
    "Stemmer", "faiss", "fastapi", "uvicorn", "httpx", "msgpack", "openai", "vllm",
    "jsonschema", "mcp", "prometheus_client",
)  # fmt: skip
FACTOR, ROUNDS = 2.5, 3


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def import_seconds(module: str) -> float:
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return float(python(code))


def test_nothing_heavy_is_imported() -> None:
    code = f"import sys, searchgym; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code) == "[]"


def test_everything_is_listed_and_recipes_are_shown_by_the_bare_installation() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(["torch", "scipy", "numba"]))
from searchgym.__main__ import main
for line in ["list"], ["show", "grpo"]:
    sys.argv = ["searchgym", *line]
    try:
        failed = main()
    except SystemExit as ended:
        failed = ended.code
    assert not failed, line
print("ok")
"""
    assert python(code).endswith("ok")


def test_no_connection_is_opened() -> None:
    code = """
import socket
def refuse(*args, **kwargs):
    raise AssertionError("a connection was opened")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import searchgym
print("ok", searchgym.__version__)
"""
    assert python(code).startswith("ok ")


def test_the_import_costs_at_most_two_and_a_half_times_gymnasiums() -> None:
    import_seconds("searchgym")  # compiles what is not compiled yet
    # One of each in turn, so that a busy moment on the machine hits both alike.
    pairs = [(import_seconds("gymnasium"), import_seconds("searchgym")) for _ in range(ROUNDS)]
    base = statistics.median(p[0] for p in pairs)
    ours = statistics.median(p[1] for p in pairs)
    assert ours <= FACTOR * base, f"searchgym {ours:.3f} s, gymnasium {base:.3f} s"


def test_every_lazy_name_is_there() -> None:
    """In a fresh process, too: :mod:`tests.test_gymnasium_versions` gets every one there."""
    assert [name for name in searchgym.__all__ if not hasattr(searchgym, name)] == []


def test_make_imports_the_package_by_itself() -> None:
    code = (
        "import sys, gymnasium as gym\n"
        "env = gym.make('searchgym:SearchQA-v0', world={'entities': 400}, tasks={'simple': 5})\n"
        "print(env.spec.id, type(env.unwrapped).__name__)"
    )
    assert python(code) == "SearchQA-v0 SearchEnv"


def test_an_environment_and_a_search_execute_few_of_our_modules() -> None:
    """What an environment's keywords do not ask for is not imported, and a step enters few files
    of those that are."""
    code = """
import sys, gymnasium as gym, searchgym
env = gym.make("SearchQA-v0")
print(sum(m.split(".")[0] == "searchgym" for m in sys.modules))
env.reset(seed=0)
action = f"<search>{env.unwrapped.episode.config.task.queries[0]}</search>"
env.step(action)
entered = set()
def note(frame, event, argument):
    module = frame.f_globals.get("__name__", "")
    if event == "call" and module.partition(".")[0] == "searchgym":
        entered.add(module)
sys.setprofile(note)
env.step(action)
sys.setprofile(None)
assert "searchgym.core.episode" in entered and "searchgym.engines.bm25" in entered
print(len(entered), *sorted(entered))
"""
    modules, entered = python(code).splitlines()
    assert int(modules) <= 81
    assert int(entered.split()[0]) <= 12, entered
