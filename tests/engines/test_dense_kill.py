"""Killed at random moments, a build goes on where it was and ends with the same bytes."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from searchgym.corpora import Corpus
from searchgym.engines import build_engine
from searchgym.engines.dense.build import build_dense, locked, shard_path
from searchgym.engines.dense.encoder import SentenceEncoder
from searchgym.errors import EngineError

from .drawn import corpus_of
from .tiny import tiny_encoder

pytestmark = pytest.mark.contract

BUILDS = """
import os, sys
from searchgym.engines.dense.build import build_dense
from searchgym.engines.dense.encoder import SentenceEncoder
from tests.engines.drawn import corpus_of
from tests.engines.test_dense_kill import PASSAGES, SHARD
encoder = SentenceEncoder(sys.argv[1], pooling="mean", device="cpu", batch_size=16)
for line in sys.stdin:  # a process of its own for each build; the model is loaded once
    if (child := os.fork()) == 0:
        print(os.getpid(), flush=True)
        build_dense(corpus_of(PASSAGES), encoder, sys.argv[2], kind="hnsw", shard=SHARD)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
KILLS, PASSAGES, SHARD = 3, 1200, 40


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder(tiny_encoder(), pooling="mean", device="cpu", batch_size=16)


def content(folder: Path) -> dict[str, str]:
    return {
        str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in sorted(folder.rglob("*"))
        if f.is_file() and f.name != ".lock"
    }


def shards(folder: Path) -> dict[Path, tuple[int, int]]:
    """Finished shards, and what would change if one were written again."""
    found = ((path, path.stat()) for path in (folder / "shards").glob("*.sha256"))
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found}


@pytest.mark.slow  # chance adds little to the deaths at every file below
def test_kill_9_at_random_moments(encoder: SentenceEncoder, tmp_path: Path) -> None:
    corpus, folder, rng = corpus_of(PASSAGES), tmp_path / "killed", random.Random(7)
    kept: dict[Path, tuple[int, int]] = {}
    with subprocess.Popen(
        [sys.executable, "-c", BUILDS, str(tiny_encoder()), str(folder)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2], env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as parent:  # fmt: skip
        assert parent.stdin is not None
        assert parent.stdout is not None
        for _ in range(KILLS):
            print("build", file=parent.stdin, flush=True)
            child = int(parent.stdout.readline())
            wanted = len(kept) + rng.randint(1, 6)
            while len(shards(folder)) < wanted:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.02))
            os.kill(child, signal.SIGKILL)
            ended = int(parent.stdout.readline())
            assert ended == -signal.SIGKILL, "it ended before it was killed"
            after = shards(folder)
            assert after.items() >= kept.items(), "a finished shard is gone or was made again"
            assert PASSAGES // SHARD > len(after) >= wanted
            kept = after
        parent.stdin.close()
    made = build_dense(corpus, encoder, folder, kind="hnsw", shard=SHARD)
    assert shards(folder).items() >= kept.items()
    assert build_dense(corpus, encoder, tmp_path / "whole", kind="hnsw", shard=SHARD) == made
    assert content(folder) == content(tmp_path / "whole")
    spec = {"name": "dense", "encoder": encoder}
    texts = [p.text for p in list(corpus)[:5]]
    a = build_engine({**spec, "index": str(folder)}, corpus)
    b = build_engine({**spec, "index": str(tmp_path / "whole")}, corpus)
    assert a.search(texts, 5) == b.search(texts, 5)  # type: ignore[attr-defined]


class Died(BaseException):
    """The end of a process, between any two files."""


def test_death_before_and_after_every_file(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = corpus_of(50)
    build_dense(corpus, encoder, tmp_path / "whole", kind="hnsw", shard=25)
    whole, replace = content(tmp_path / "whole"), os.replace
    files = len(whole)
    assert files == 2 * 2 + 3  # shards and digests, plan, index, manifest
    for last in range(files):
        for before in (True, False):
            folder = tmp_path / f"{last}-{before}"
            moved = 0

            def dying(a: Path, b: Path, last: int = last, before: bool = before) -> None:
                nonlocal moved
                if moved == last and before:
                    raise Died
                replace(a, b)
                moved += 1
                if moved == last + 1 and not before:
                    raise Died

            monkeypatch.setattr(os, "replace", dying)
            with pytest.raises(Died):
                build_dense(corpus, encoder, folder, kind="hnsw", shard=25)
            monkeypatch.setattr(os, "replace", replace)
            build_dense(corpus, encoder, folder, kind="hnsw", shard=25)
            assert content(folder) == whole


def test_a_finished_index_is_left_alone_and_another_kind_reuses_its_vectors(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, folder = corpus_of(300), tmp_path / "i"
    build_dense(corpus, encoder, folder, kind="hnsw", shard=100)
    before = content(folder)

    def refuse(*args: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr(SentenceEncoder, "passages", refuse)
    build_dense(corpus, encoder, folder, kind="hnsw", shard=100)
    assert content(folder) == before
    build_dense(corpus, encoder, folder, kind="flat", shard=100)
    assert not (folder / "hnsw.faiss").exists()
    build_dense(corpus, encoder, folder, kind="hnsw", shard=100)
    assert content(folder) == before


def test_a_shard_whose_bytes_changed_is_made_again(
    encoder: SentenceEncoder, tmp_path: Path
) -> None:
    corpus, folder = corpus_of(300), tmp_path / "i"
    build_dense(corpus, encoder, folder, shard=100)
    before = content(folder)
    data = bytearray(shard_path(folder, 1).read_bytes())
    data[-3] ^= 1
    shard_path(folder, 1).write_bytes(data)
    (folder / "shards" / "000002.npy.part").write_bytes(b"half a shard")
    build_dense(corpus, encoder, folder, shard=100)
    assert content(folder) == before
    shard_path(folder, 1).write_bytes(bytes(data[:500]))
    with pytest.raises(EngineError, match="build the index again"):
        build_engine({"name": "dense", "index": str(folder), "encoder": encoder}, corpus)


def test_death_between_a_new_index_and_its_manifest_leaves_no_mix(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebuilt with other numbers, the old index is there, whole, until the new one is."""
    corpus, folder, replace = corpus_of(60), tmp_path / "i", os.replace
    build_dense(corpus, encoder, folder, kind="hnsw", numbers={"links": 2})

    def dying(a: Path, b: Path) -> None:
        if Path(b).name == "manifest.json":
            raise Died
        replace(a, b)

    monkeypatch.setattr(os, "replace", dying)
    with pytest.raises(Died):
        build_dense(corpus, encoder, folder, kind="hnsw", numbers={"links": 5})
    monkeypatch.setattr(os, "replace", replace)
    spec = {"name": "dense", "index": str(folder), "encoder": encoder}
    assert build_engine(spec, corpus).index.numbers["links"] == 2  # type: ignore[attr-defined]
    for links in (5, 2, 5):
        build_dense(corpus, encoder, folder, kind="hnsw", numbers={"links": links})
        assert build_engine(spec, corpus).index.numbers["links"] == links  # type: ignore[attr-defined]
        assert len(list(folder.glob("*.faiss"))) == 1


def test_an_index_is_opened_while_others_rebuild_it(
    encoder: SentenceEncoder, tmp_path: Path
) -> None:
    corpus, folder, done = corpus_of(60), tmp_path / "i", threading.Event()
    build_dense(corpus, encoder, folder, kind="hnsw", numbers={"links": 2})

    def rebuild() -> None:
        try:
            for turn in range(12):
                kind, numbers = (("flat", {}), ("hnsw", {"links": 2 + turn}))[turn % 3 > 0]
                build_dense(corpus, encoder, folder, kind=kind, numbers=numbers, wait=True)
        finally:
            done.set()

    threads = [threading.Thread(target=rebuild) for _ in range(2)]
    for thread in threads:
        thread.start()
    opened = 0
    while not done.is_set():
        build_engine({"name": "dense", "index": str(folder), "encoder": encoder}, corpus)
        opened += 1
    for thread in threads:
        thread.join()
    assert opened


def test_processes_share_a_cache(encoder: SentenceEncoder, tmp_path: Path) -> None:
    """The second waits for the first, and a finished index needs neither lock nor building."""
    corpus, found = corpus_of(200), []
    spec = {"name": "dense", "encoder": encoder, "cache": str(tmp_path), "kind": "hnsw", "links": 4}
    (folder,) = [tmp_path / f"{corpus.digest}-{encoder.digest}-hnsw"]
    with locked(folder):
        second = threading.Thread(target=lambda: found.append(build_engine(spec, corpus)))
        second.start()
        second.join(0.3)
        assert second.is_alive(), "it waits"
    second.join(60)
    assert len(found) == 1
    before = content(folder)
    with locked(folder):  # held for good: opening must not need it
        again: Any = build_engine({**spec, "ef_search": 1}, corpus)
        whole: Any = build_engine(spec, corpus)
    assert again.index.numbers["ef_search"] == 1
    assert whole.fingerprint == found[0].fingerprint
    assert content(folder) == before, "ef_search is a matter of searching"


def test_folders_of_other_things_are_refused(encoder: SentenceEncoder, tmp_path: Path) -> None:
    corpus, folder = corpus_of(50), tmp_path / "i"
    build_dense(corpus, encoder, folder, shard=20)
    with pytest.raises(EngineError, match=r"another build \(other corpus\)"):
        build_dense(corpus_of(51), encoder, folder, shard=20)
    with pytest.raises(EngineError, match=r"another build \(other shard\)"):
        build_dense(corpus, encoder, folder, shard=25)
    with locked(folder), pytest.raises(EngineError, match="another build is writing"):
        build_dense(corpus, encoder, folder, shard=20)
    (folder / "manifest.json").unlink()
    with pytest.raises(EngineError, match="is not finished: run the build again"):
        build_engine({"name": "dense", "index": str(folder), "encoder": encoder}, corpus)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    with pytest.raises(EngineError, match=r"holds other files \(thesis.txt\)"):
        build_dense(corpus, encoder, tmp_path / "mine")
    with pytest.raises(EngineError, match="is empty"):
        build_dense(Corpus("none", []), encoder, tmp_path / "none")


def test_vectors_are_mapped_not_read(encoder: SentenceEncoder, tmp_path: Path) -> None:
    corpus, folder = corpus_of(50), tmp_path / "i"
    build_dense(corpus, encoder, folder, shard=20)
    engine = build_engine({"name": "dense", "index": str(folder), "encoder": encoder}, corpus)
    blocks = engine.index.vectors.blocks  # type: ignore[attr-defined]
    assert [len(block) for block in blocks] == [20, 20, 10]
    assert all(isinstance(block, np.memmap) for block in blocks)
