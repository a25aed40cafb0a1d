"""BM25 index folders of strangers, and of disks that lie: an error, never a crash or other hits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.corpora import Corpus
from searchgym.engines.bm25 import BM25Engine
from searchgym.engines.bm25_index import _FILES, file_in
from searchgym.errors import EngineError
from searchgym.storage import file_digest
from searchgym.types import Passage, Ranking
from tests.engines.forged import common_words, put

pytestmark = pytest.mark.contract

QUERIES = ["w0 w1", "w0", "w7 w30 w31", "w2 w3 w5 w50"]
Kept = tuple[Path, Corpus, list[Ranking]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A saved index with long columns (they have bitmaps), its corpus, and what it answers."""
    corpus = common_words()
    engine = BM25Engine(corpus)
    folder = tmp_path_factory.mktemp("index") / "index"
    engine.save(folder)
    return folder, corpus, answers(engine)


def answers(engine: BM25Engine) -> list[Ranking]:
    return engine.search(QUERIES, 3) + engine.search(QUERIES, 50)


def opened(folder: Path, corpus: Corpus) -> list[Ranking] | None:
    """What the index in a folder answers; None if it is refused."""
    try:
        return answers(BM25Engine.load(folder, corpus))
    except EngineError:
        return None


def file_of(folder: Path, name: str) -> Path:
    """A file of an index, whatever its digest."""
    (found,) = folder.glob(name.replace(".", "-*.") if name in _FILES else name)
    return found


def signed(folder: Path) -> None:
    """Record the digests of the files as they are now, as a forger would."""
    path = folder / "index.json"
    for name in _FILES:
        saved = file_of(folder, name)
        saved.rename(file_in(folder, name, file_digest(saved)))
    about = json.loads(path.read_text())
    about["sha256"] = {name: file_digest(file_of(folder, name)) for name in _FILES}
    path.write_text(json.dumps(about))


def test_an_index_that_nobody_altered_is_opened(kept: Kept, tmp_path: Path) -> None:
    folder, corpus, expected = kept
    assert opened(folder, corpus) == expected
    wordless = Corpus("none", [Passage("1", "", "the", "u")])
    BM25Engine(wordless).save(tmp_path / "empty")
    assert BM25Engine.load(tmp_path / "empty", wordless).search(["the"], 3) == [()]


@given(st.sampled_from([*_FILES, "index.json"]), st.data())
def test_a_file_with_other_bytes_is_an_error_or_gives_the_same_hits(
    tmp_path_factory: pytest.TempPathFactory, kept: Kept, name: str, data: st.DataObject
) -> None:
    folder, corpus, expected = kept
    place = tmp_path_factory.mktemp("altered") / "index"
    shutil.copytree(folder, place)
    path = file_of(place, name)
    content = bytearray(path.read_bytes())
    way = data.draw(st.sampled_from(["flip", "cut", "empty", "longer", "gone", "other"]))
    if way == "flip":
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif way == "cut":
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    elif way == "longer":
        content += data.draw(st.binary(min_size=1, max_size=40))
    elif way == "other":
        content[:] = data.draw(st.binary(max_size=300))
    elif way == "empty":
        content.clear()
    path.write_bytes(content)
    if way == "gone":
        path.unlink()
    found = opened(place, corpus)
    assert found is None or (name == "index.json" and found == expected)
    shutil.rmtree(place)


FORGED = {
    "indices far beyond": ("indices", put(2**31 - 1, slice(None))),
    "indices far below": ("indices", put(-(2**31), slice(None))),
    "one index beyond": ("indices", put(3000, 17)),
    "one index below": ("indices", put(-1, 0)),
    "an index twice": ("indices", lambda a: put(a[3], 4)(a)),
    "indptr far": ("indptr", put(10**12, 5)),
    "indptr negative": ("indptr", put(-5, 5)),
    "indptr falling": ("indptr", lambda a: put(a[7] + 1, 6)(a)),
    "indptr begins late": ("indptr", put(3, 0)),
    "data nan": ("data", put(np.nan, slice(0, 50))),
    "data inf": ("data", put(np.inf, 9)),
    "data negative": ("data", put(-1.0, 9)),
    "data zero": ("data", put(0.0, 9)),
    "data other": ("data", put(1e6, 9)),
    "largest zero": ("largest", put(0.0, slice(None))),
    "largest nan": ("largest", put(np.nan, 3)),
    "rows beyond": ("rows", put(10**6, 0)),
    "rows below": ("rows", put(-2, 0)),
    "another list's bitmap": ("rows", put(1, 0)),
    "marks all set": ("marks", put(2**64 - 1, slice(None))),
    "marks one bit": ("marks", lambda a: put(a[0, 3, 0] ^ np.uint64(1), (0, 3, 0))(a)),
    "marks count": ("marks", put(10**9, (0, 3, 1))),
}


@pytest.mark.parametrize("how", FORGED)
def test_numbers_that_retrieval_cannot_rely_on_are_refused_though_signed(
    kept: Kept, tmp_path: Path, how: str
) -> None:
    folder, corpus, _ = kept
    shutil.copytree(folder, tmp_path / "index")
    name, change = FORGED[how]
    path = file_of(tmp_path / "index", f"{name}.npy")
    array = np.load(path).copy()
    change(array)
    np.save(path, array)
    signed(tmp_path / "index")
    with pytest.raises(EngineError, match="damaged"):
        BM25Engine.load(tmp_path / "index", corpus)


@pytest.mark.parametrize("name", [n.removesuffix(".npy") for n in _FILES if n.endswith(".npy")])
@pytest.mark.parametrize("shape", ["short", "long", "flat", "wide", "other", "object", "fortran"])
def test_other_shapes_and_types_are_refused_though_signed(
    kept: Kept, tmp_path: Path, name: str, shape: str
) -> None:
    folder, corpus, expected = kept
    shutil.copytree(folder, tmp_path / "index")
    path = file_of(tmp_path / "index", f"{name}.npy")
    array = np.load(path)
    changed: Any = {
        "short": lambda: array[:-1],
        "long": lambda: np.concatenate([array, array[-1:]]),
        "flat": lambda: array.reshape(-1)[None],
        "wide": lambda: array.astype(np.float64 if array.dtype.kind == "f" else ">i8"),
        "other": lambda: array.view(np.uint8),
        "object": lambda: np.array([{"a": 1}], object),
        "fortran": lambda: np.asfortranarray(array),
    }[shape]()
    np.save(path, changed, allow_pickle=True)
    signed(tmp_path / "index")
    found = opened(tmp_path / "index", corpus)
    assert found is None or (shape == "fortran" and array.ndim == 1 and found == expected)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vocabulary.json", "[" * 100_000),
        ("vocabulary.json", '{"w0": 0}'),
        ("vocabulary.json", "null"),
        ("vocabulary.json", "[]"),
    ],
)
def test_other_vocabularies_are_refused_though_signed(
    kept: Kept, tmp_path: Path, name: str, text: str
) -> None:
    folder, corpus, _ = kept
    shutil.copytree(folder, tmp_path / "index")
    file_of(tmp_path / "index", name).write_text(text)
    signed(tmp_path / "index")
    assert opened(tmp_path / "index", corpus) is None


@pytest.mark.parametrize(
    "change",
    [
        {"settings": None}, {"settings": {}}, {"settings": {"k1": "x"}}, {"fingerprint": 3},
        {"sha256": None}, {"sha256": {}}, {"format": 2}, {"settings": {"threads": 9}},
    ],
)  # fmt: skip
def test_other_words_about_an_index_are_refused(
    kept: Kept, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder, corpus, _ = kept
    shutil.copytree(folder, tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert opened(tmp_path / "index", corpus) is None


def test_an_array_of_no_bytes_is_one_clear_error(kept: Kept, tmp_path: Path) -> None:
    folder, corpus, _ = kept
    shutil.copytree(folder, tmp_path / "index")
    file_of(tmp_path / "index", "rows.npy").write_bytes(b"")
    for signing in (False, True):
        if signing:
            signed(tmp_path / "index")
        with pytest.raises(EngineError, match=r"damaged .*build it again"):
            BM25Engine.load(tmp_path / "index", corpus)
