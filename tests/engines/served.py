"""A search server of ours in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from searchgym.corpora import Corpus
from searchgym.engines.bm25 import BM25Engine
from searchgym.serve import Settings, build_app

from ..small import CORPUS


@contextmanager
def running(dialect: str, corpus: Corpus = CORPUS) -> Iterator[str]:
    app = build_app(BM25Engine(corpus), corpus, Settings(dialect=dialect), method="bm25")
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    try:
        end = time.monotonic() + 20
        while not server.started and time.monotonic() < end:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        bound.close()
