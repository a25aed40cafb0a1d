"""Unmodified clients of other projects against a server as people start it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from searchgym.engines import BM25Engine

from .conftest import ROOT, ServerProcess

pytestmark = [pytest.mark.contract, pytest.mark.timeout(120)]
QUERY = "painter of boats in Zürich"


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter of the venv that ``make .venv-peers/.installed`` makes."""
    named = os.environ.get("SEARCHGYM_PEERS_VENV")
    path = Path(named or ROOT / ".venv-peers") / "bin" / "python"
    if not (ROOT / path).is_file():
        if named or os.environ.get("CI"):
            pytest.fail(f"the clients of other projects are not installed: {path} is missing")
        pytest.skip("needs the clients of other projects: make .venv-peers/.installed")
    return str(ROOT / path)


@pytest.fixture(scope="module")
def server(passage_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    made = ServerProcess([passage_file, "--port", 0], tmp_path_factory.mktemp("server"))
    yield made
    made.end()


def ask(python: str, peer: str, server: ServerProcess) -> Any:
    script = Path(__file__).with_name("peer_clients.py")
    done = subprocess.run(
        [python, str(script), peer, server.url, QUERY], capture_output=True, text=True, timeout=90,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_gem_search_tool(python: str, server: ServerProcess, engine: BM25Engine) -> None:
    got = ask(python, "gem", server)
    assert got["valid"]
    assert not got["failed"], got["observation"]
    first, second = (hit.passage for hit in engine.search([QUERY], 2)[0])
    shown = got["observation"]
    assert f'Doc 1(Title: "{first.title}") {first.text}\n' in shown
    assert second.text in shown
    assert "Doc 3" not in shown


def test_skyrl_search_tool(python: str, server: ServerProcess, engine: BM25Engine) -> None:
    got = ask(python, "skyrl", server)
    first, second = (hit.passage for hit in engine.search([QUERY], 2)[0])
    assert got["observation"].startswith(f'Doc 1: "{first.title}"\n{first.text}\nDoc 2: ')
    assert second.text in got["observation"]


def test_mcp_client(python: str, server: ServerProcess, engine: BM25Engine) -> None:
    got = ask(python, "mcp", server)
    assert got["server"] == "searchgym"
    assert got["tools"] == ["search", "get_document"]
    wanted = [(hit.passage.id, hit.score) for hit in engine.search([QUERY], 3)[0]]
    assert [(item["docid"], item["score"]) for item in got["items"]] == wanted
    assert got["page"]["docid"] == wanted[0][0]
