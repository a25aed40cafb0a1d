"""Tests with packages whose pins fit no other: ``make peers`` runs each file in an environment of
its own, which ``NAME.txt`` describes, and only there they are collected. What passed is noted for
the documentation's table of versions."""

import importlib.metadata
import json
import os
import platform
from pathlib import Path

PEER = os.environ.get("SEARCHGYM_PEER")
TABLE = Path(__file__).resolve().parents[2] / ".site" / "docsite" / "peers.json"
TITLES = {
    "trl": ("TRL", ("trl", "transformers")),
    "verl": ("verl", ("verl", "ray", "transformers")),
    "verifiers": ("verifiers", ("verifiers",)),
    "openenv": ("OpenEnv", ("openenv",)),
    "skyrl": ("SkyRL", ("skyrl-gym",)),
    "rllib": ("RLlib", ("ray", "gymnasium")),
    "sb3": ("Stable-Baselines3", ("sb3-contrib", "gymnasium")),
    "inspect": ("Inspect", ("inspect-ai",)),
    "mcp": ("MCP", ("mcp",)),
    "langchain": ("LangChain and PyTerrier", ("langchain-core", "pyterrier")),
    "llamaindex": ("LlamaIndex", ("llama-index-core",)),
    "minari": ("Minari", ("minari",)),
}
"""Name → title and the packages whose versions are told, in the table's order."""
OF_THE_TESTS = ("trl", "sb3", "mcp", "langchain", "minari")
"""Those that the project's own tests install."""

if PEER is None:
    collect_ignore_glob = ["test_*.py"]


def note(names):
    """Write the versions of some frameworks into the table."""
    seen = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    for name in names:
        title, packages = TITLES[name]
        seen[name] = {
            "title": title,
            "versions": {package: importlib.metadata.version(package) for package in packages},
            "python": ".".join(platform.python_version_tuple()[:2]),
        }
    ordered = {name: seen[name] for name in TITLES if name in seen}
    TABLE.write_text(json.dumps(ordered, indent=2) + "\n")


def pytest_sessionfinish(session, exitstatus):
    """Note the versions of a run in which all of a framework's tests passed."""
    whole = not session.config.option.keyword and session.testscollected > 0
    if PEER is not None and exitstatus == 0 and whole:
        note(OF_THE_TESTS if PEER == "tests" else [PEER])
