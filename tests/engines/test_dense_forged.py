"""Dense index folders and FAISS files of strangers: an error, never a crash."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from searchgym.corpora import Corpus
from searchgym.engines import build_engine
from searchgym.engines.dense.build import build_dense
from searchgym.engines.dense.encoder import SentenceEncoder
from searchgym.errors import EngineError
from searchgym.storage import file_digest
from searchgym.types import Passage
from searchgym.utils import trust
from searchgym.utils.trust import registered_only

from .tiny import tiny_encoder

pytestmark = pytest.mark.contract

KINDS = ("flat", "hnsw")
CORPUS = Corpus(
    "c", [Passage(f"{i:03}", f"T{i}", f"red fox {i % 90}", f"u:{i}") for i in range(400)]
)


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder(tiny_encoder(), pooling="mean", device="cpu")


@pytest.fixture(scope="module")
def built(encoder: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of each kind."""
    folder = tmp_path_factory.mktemp("dense")
    for kind in KINDS:
        build_dense(CORPUS, encoder, folder / kind, kind=kind, shard=100)
    return folder


def opened(folder: Path, encoder: Any, **options: Any) -> Any:
    spec = {"name": "dense", "index": str(folder), "encoder": encoder, "gpu": False, **options}
    return build_engine(spec, CORPUS).search(["red fox 7", "T3"], 5)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
def test_any_file_with_other_bytes_is_refused(
    kind: str, built: Path, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    expected = opened(built / kind, encoder)
    rng = np.random.default_rng(4)
    files = ["shards/000001.npy", *([] if kind == "flat" else [f"{kind}.faiss"])]
    for file in files:
        for way in ("flip", "cut", "empty"):
            folder = tmp_path / f"{Path(file).name}-{way}"
            shutil.copytree(built / kind, folder)
            content = bytearray((folder / file).read_bytes())
            place = int(rng.integers(200, len(content)))
            if way == "flip":
                content[place] ^= 4
            else:
                del content[place if way == "cut" else 0 :]
            (folder / file).write_bytes(content)
            with pytest.raises(EngineError, match=r"build the index again|build it again"):
                opened(folder, encoder)
    assert opened(built / kind, encoder) == expected
    assert opened(built / kind, encoder, verify=False) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "tree"}, {"kind": 3}, {"numbers": None}, {"numbers": {"depth": -1}},
        {"file": "../../secret"}, {"file": None}, {"file_digest": None}, {"longest": "NaN"},
        {"longest": 0}, {"dim": 10**12}, {"dim": "x"}, {"shard": 0}, {"shard": None},
        {"shards": []}, {"shards": None}, {"corpus": None}, {"format": 9},
    ],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_says_otherwise_is_refused(
    change: dict[str, Any], built: Path, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    shutil.copytree(built / "hnsw", tmp_path / "i")
    path = tmp_path / "i" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(EngineError):
        opened(tmp_path / "i", encoder)


def test_an_index_of_other_vectors_or_another_kind_is_refused_though_signed(
    built: Path, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    import faiss

    kind, dim = "hnsw", encoder.dim
    others = {
        "more": faiss.IndexHNSWFlat(dim, 8, faiss.METRIC_INNER_PRODUCT),
        "wider": faiss.IndexHNSWFlat(dim + 4, 8, faiss.METRIC_INNER_PRODUCT),
        "kind": faiss.IndexFlatIP(dim),
    }
    for name, index in others.items():
        rows = 400 + (name == "more")
        index.add(np.random.default_rng(0).random((rows, index.d), np.float32))
        folder = tmp_path / name
        shutil.copytree(built / kind, folder)
        faiss.write_index(index, str(folder / f"{kind}.faiss"))
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["file_digest"] = file_digest(folder / f"{kind}.faiss")
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(EngineError, match=r"expected a Index|leads out"):
            opened(folder, encoder)


FUZZ = """
import json, shutil, sys
from pathlib import Path
import numpy as np
from searchgym.errors import EngineError
from searchgym.storage.files import file_digest
from tests.engines.test_dense_forged import opened
from tests.engines.tiny import tiny_encoder
from searchgym.engines.dense.encoder import SentenceEncoder
built, place = Path(sys.argv[1]), Path(sys.argv[2])
encoder = SentenceEncoder(tiny_encoder(), pooling="mean", device="cpu")

def fuzz(kind="hnsw"):
    rng, refused, answered = np.random.default_rng(11), 0, 0
    for _ in range(60):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(built / kind, place)
        file = place / f"{kind}.faiss"
        content = np.fromfile(file, np.uint8)
        spots = rng.integers(0, len(content) // 4, rng.integers(1, 6)) * 4
        if rng.random() < 0.5:
            spots = np.minimum(spots, rng.integers(4, 400, len(spots)) * 4)  # where sizes stand
        for spot in spots.tolist():
            number = np.int32(rng.choice([0, -1, 1, 399, 400, 2**20, 2**31 - 1, -(2**31)]))
            content[spot : spot + 4] = np.frombuffer(number.tobytes(), np.uint8)
        content.tofile(file)
        manifest = json.loads((place / "manifest.json").read_text())
        manifest["file_digest"] = file_digest(file)
        (place / "manifest.json").write_text(json.dumps(manifest))
        try:
            opened(place, encoder)
            answered += 1
        except EngineError:
            refused += 1
    return refused, answered

print(*fuzz(), flush=True)
"""


def test_forged_and_signed_files_end_no_process(built: Path, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, built, tmp_path / "i"],
        env={**os.environ, "PYTHONPATH": str(root)}, cwd=root,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode}: {done.stdout} {done.stderr[-2000:]}"
    refused, answered = map(int, done.stdout.split())
    assert refused > 10
    assert refused + answered == 60


def test_a_folder_does_not_choose_which_model_is_loaded(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(tiny_encoder())
    monkeypatch.setattr(trust, "_NAMED", {})
    with pytest.raises(EngineError, match=r"names the encoder .* give it yourself"):
        opened(built / "flat", None)
    with registered_only("index", trust=True):
        assert opened(built / "flat", None)
    assert opened(built / "flat", source, pooling="mean")
    assert opened(built / "flat", None), "it was named here by the caller"
