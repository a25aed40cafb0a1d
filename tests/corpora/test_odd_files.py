"""What every file of a folder of odd files gives (``odd_files``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from searchgym.corpora.documents import DocumentCorpus, SkippedFiles, load_documents
from searchgym.engines import BM25Engine
from tests.corpora.odd_files import BROKEN, OTHERS, TEXTS, exact, write_odd_files

pytestmark = pytest.mark.contract

FIRST = "#00000"
GERMAN = ("16", "16be", "16nomark", "32")
EXACT = exact()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("odd")
    write_odd_files(made)
    return made


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Iterator[DocumentCorpus]:
    start = sum(os.times()[:4])  # with the process that reads
    with pytest.warns(SkippedFiles, match=f"{len(BROKEN)} of 70 files were not read"):
        found = load_documents(folder)
    assert sum(os.times()[:4]) - start < 30, "nothing hangs"
    yield found
    print(f"\n{'file':22} {'format':9} {'encoding':10} passages, or why it is left out")
    for file in found.files:
        print(f"{file.path:22} {file.format:9} {file.encoding or '–':10} {file.passages}")
    for path, reason in found.skipped:
        print(f"{path:22} {reason[:57]}")


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str]]]:
    folder = tmp_path_factory.mktemp("exact")
    for name, (raw, _) in EXACT.items():
        (folder / name).write_bytes(raw)
    found: dict[str, list[tuple[str, str]]] = {}
    for passage in load_documents(folder, strict=True):
        found.setdefault(passage.id.rpartition("#")[0], []).append((passage.title, passage.text))
    return found


def test_no_file_vanishes(folder: Path, corpus: DocumentCorpus) -> None:
    told = [f.path for f in corpus.files] + [s.path for s in corpus.skipped]
    assert sorted(told) == sorted(p.name for p in folder.iterdir())
    assert len(told) == len(TEXTS) + len(OTHERS) + len(BROKEN) == 70


@pytest.mark.parametrize("name", TEXTS)
def test_text_files(corpus: DocumentCorpus, name: str) -> None:
    _, encoding, text = TEXTS[name]
    file = next(f for f in corpus.files if f.path == name)
    assert file.encoding == encoding
    assert corpus.passage(name + FIRST).text == text


@pytest.mark.parametrize("name", OTHERS)
def test_other_files(corpus: DocumentCorpus, name: str) -> None:
    _, form, title, text = OTHERS[name]
    file = next(f for f in corpus.files if f.path == name)
    passage = corpus.passage(name + FIRST)
    assert (file.format, passage.title, passage.text) == (form, title, text)


@pytest.mark.parametrize("name", EXACT)
def test_whole_files(passages: dict[str, list[tuple[str, str]]], name: str) -> None:
    stem = name.rpartition(".")[0]
    wanted = [(title[:200] or stem, text) for title, text in EXACT[name][1]]
    assert passages[name] == wanted


def test_what_is_hidden_is_nowhere(passages: dict[str, list[tuple[str, str]]]) -> None:
    assert len(passages) == len(EXACT) > 250
    assert "UNSEEN" not in str(passages)
    assert sum(raw.count(b"UNSEEN") for raw, _ in EXACT.values()) > 15


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(corpus: DocumentCorpus, name: str) -> None:
    assert BROKEN[name][1] in dict(corpus.skipped)[name]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("北京的市花是什么？", {"chinese.md", "chinese-gbk.txt", "chinese.xhtml"}),
        ("日本で一番高い山は何ですか", {"japanese.md", "japanese-sjis.txt", "japanese-euc.txt"}),
        ("부산 영화제는 언제 열리나", {"korean.txt", "korean-euc.txt"}),
        ("ما هي عاصمة مصر؟", {"arabic.txt", "arabic-cp1256.txt"}),
        ("столица России", {"russian-cp1251.txt", "russian-koi8.txt"}),
        ("भारत की राजधानी", {"hindi.txt"}),
        ("Grosse des Hauses Wahler", {"latin1.txt", *(f"utf{n}.txt" for n in GERMAN)}),
        ("night ferry", {"english.txt", "bom.txt"}),
    ],
)  # fmt: skip
def test_questions_in_their_languages_find_them(
    corpus: DocumentCorpus, query: str, wanted: set[str]
) -> None:
    hits = BM25Engine(corpus).search([query], len(wanted))[0]
    assert {hit.passage.id.removesuffix(FIRST) for hit in hits} == wanted
