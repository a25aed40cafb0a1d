"""A small corpus, applications over it, and server processes."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from searchgym.corpora import Corpus
from searchgym.engines import BM25Engine
from searchgym.serve import Settings, build_app
from searchgym.types import Passage

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = Settings()
COLOURS = "red green blue amber violet grey black white pink brown".split()
PASSAGES = [
    Passage("p1", "Oldeth Marn", "Oldeth Marn is a painter from Zürich. She paints boats.", "u/1"),
    Passage("p2", 'The "Blue" House', "A house painted blue.\nIt stands in Zürich.", "u/2"),
    Passage("p3", "", "Boats without a title drift past the house.", "u/3"),
    Passage("p4", "東京", "東京 is a city; boats are rare in 東京.", "u/4"),
    *(
        Passage(f"x{i:03}", f"Note {i}", f"{a} {b} note {c}", f"n/{i}")
        for i, (a, b, c) in enumerate(itertools.product(COLOURS, COLOURS, "ab"))
    ),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return Corpus("small", PASSAGES)


@pytest.fixture(scope="session")
def engine(corpus: Corpus) -> BM25Engine:
    made = BM25Engine(corpus)
    made.warm_up()
    return made


@pytest.fixture(scope="session")
def passage_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "small.jsonl"
    lines = [json.dumps(p._asdict(), ensure_ascii=False) for p in PASSAGES]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@asynccontextmanager
async def client_of(
    engine: Any, corpus: Corpus, settings: Settings = DEFAULT
) -> AsyncIterator[httpx.AsyncClient]:
    """The application, without a network."""
    app = build_app(engine, corpus, settings, method="bm25")
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client,
    ):
        client.app = app  # type: ignore[attr-defined]
        yield client


class ServerProcess:
    """``searchgym serve …`` as people run it."""

    def __init__(self, arguments: Sequence[object], folder: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self.errors = folder / f"stderr-{time.monotonic_ns()}.txt"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "searchgym", "serve", *map(str, arguments)], cwd=ROOT,
                env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert " on http://127.0.0.1:" in self.line, self.errors.read_text()
        self.url = self.line.split()[-1]
        # a connection each, as with httpx.post, which reads all certificates for each, too
        once = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self.client = httpx.Client(base_url=self.url, timeout=30, limits=once)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self.client.post(path, json=body).raise_for_status().json()

    def stats(self) -> Any:
        return self.client.get("/stats").raise_for_status().json()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[..., ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start("corpus.jsonl", "--port", 0)``; everything started is ended with the test."""
    started: list[ServerProcess] = []

    def begin(*arguments: object) -> ServerProcess:
        started.append(ServerProcess([*arguments, "--port", 0], tmp_path))
        return started[-1]

    yield begin
    for server in started:
        server.end()
