"""Dense index folders of strangers: an error, never a crash."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from searchgym.corpora import Corpus
from searchgym.engines import build_engine
from searchgym.engines.dense.build import build_dense
from searchgym.engines.dense.encoder import SentenceEncoder
from searchgym.errors import EngineError
from searchgym.types import Passage
from searchgym.utils import trust
from searchgym.utils.trust import registered_only

from .tiny import tiny_encoder

pytestmark = pytest.mark.contract

CORPUS = Corpus(
    "c", [Passage(f"{i:03}", f"T{i}", f"red fox {i % 90}", f"u:{i}") for i in range(400)]
)


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder(tiny_encoder(), pooling="mean", device="cpu")


@pytest.fixture(scope="module")
def built(encoder: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    build_dense(CORPUS, encoder, folder, shard=100)
    return folder


def opened(folder: Path, encoder: Any, **options: Any) -> Any:
    spec = {"name": "dense", "index": str(folder), "encoder": encoder, "gpu": False, **options}
    return build_engine(spec, CORPUS).search(["red fox 7", "T3"], 5)  # type: ignore[attr-defined]


def test_a_shard_with_other_bytes_is_refused(
    built: Path, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    expected = opened(built, encoder)
    rng = np.random.default_rng(4)
    for way in ("flip", "cut", "empty"):
        shutil.copytree(built, tmp_path / way)
        file = tmp_path / way / "shards" / "000001.npy"
        content = bytearray(file.read_bytes())
        place = int(rng.integers(200, len(content)))
        if way == "flip":
            content[place] ^= 4
        else:
            del content[place if way == "cut" else 0 :]
        file.write_bytes(content)
        with pytest.raises(EngineError, match=r"build the index again|build it again"):
            opened(tmp_path / way, encoder)
    assert opened(built, encoder) == expected
    assert opened(built, encoder, verify=False) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"longest": "NaN"}, {"longest": 0}, {"dim": 10**12}, {"dim": "x"}, {"shard": 0},
        {"shard": None}, {"shards": []}, {"shards": None}, {"corpus": None}, {"format": 9},
    ],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_says_otherwise_is_refused(
    change: dict[str, Any], built: Path, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    shutil.copytree(built, tmp_path / "i")
    path = tmp_path / "i" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(EngineError):
        opened(tmp_path / "i", encoder)


def test_a_folder_does_not_choose_which_model_is_loaded(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(tiny_encoder())
    monkeypatch.setattr(trust, "_NAMED", {})
    with pytest.raises(EngineError, match=r"names the encoder .* give it yourself"):
        opened(built, None)
    with registered_only("index", trust=True):
        assert opened(built, None)
    assert opened(built, source, pooling="mean")
    assert opened(built, None), "it was named here by the caller"
