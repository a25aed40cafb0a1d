from __future__ import annotations

from pathlib import Path

import pytest

from searchgym.corpora.folder import load_folder
from searchgym.corpora.load import load_corpus
from searchgym.engines.bm25 import BM25Engine
from searchgym.errors import DataError


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "trips").mkdir()
    (tmp_path / "trips" / "oslo.md").write_text(
        "# Oslo ##\nWe took the night ferry.\n\nIt rained.\n\n```\n# not a heading\n```\n"
        "## Food\nBrown cheese.\n",
        encoding="utf-8",
    )
    (tmp_path / "plain.txt").write_text("word " * 250, encoding="utf-8")
    (tmp_path / "manual.rst").write_text(
        "Install\n=======\nRun the wizard.\n\nUse\n---\nPress a key.\n", encoding="utf-8"
    )
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "secret.txt").write_text("password")
    (tmp_path / "link.txt").symlink_to(tmp_path / ".hidden" / "secret.txt")
    return tmp_path


def test_headings_become_titles_and_long_texts_are_cut(notes: Path) -> None:
    corpus = load_folder(notes)
    shown = {p.id: (p.title, p.text) for p in corpus}
    assert shown["trips/oslo.md#00000"][0] == "Oslo"
    assert "night ferry.\nIt rained." in shown["trips/oslo.md#00000"][1]
    assert "# not a heading" in shown["trips/oslo.md#00000"][1]
    assert shown["trips/oslo.md#00001"] == ("Food", "Brown cheese.")
    assert shown["manual.rst#00000"] == ("Install", "Run the wizard.")
    assert shown["manual.rst#00001"] == ("Use", "Press a key.")
    plain = [p for p in corpus if p.id.startswith("plain.txt")]
    assert [len(p.text.split()) for p in plain] == [120, 120, 10]
    assert {p.title for p in plain} == {"plain"}
    assert not any("password" in p.text for p in corpus)


def test_opening_a_url_shows_the_whole_file_and_searching_finds_it(notes: Path) -> None:
    corpus = load_corpus(notes)
    url = (notes / "trips" / "oslo.md").resolve().as_uri()
    page = corpus.page(url)
    assert page is not None
    assert page.passage_ids == ("trips/oslo.md#00000", "trips/oslo.md#00001")
    assert page.text.endswith("Brown cheese.")
    assert BM25Engine(corpus).search(["cheese"], 3)[0][0].passage.url == url


def test_faults_name_the_file(notes: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"plain.txt is too large"):
        load_folder(notes, max_file_bytes=500)
    with pytest.raises(DataError, match="more than 2 text files"):
        load_folder(notes, max_files=2)
    (notes / "old.txt").write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"old.txt, line 2: not UTF-8 text \(byte 0xe9\)"):
        load_folder(notes)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="holds no text"):
        load_folder(tmp_path / "none")
    with pytest.raises(DataError, match="is not a folder"):
        load_folder(tmp_path / "absent")


def test_no_text_is_taken_for_a_heading(tmp_path: Path) -> None:
    """A line above a code fence or a rule is text; headings of one name are two."""
    (tmp_path / "a.md").write_text(
        "# C#\nSharp.\n\n## Notes ##\nOne.\n\n## Notes\nTwo.\n~~~\n# not a heading\n```\n~~~\n"
        "Title\n=====\nRun:\n```\nls\n```\nLast.\n***\n",
        encoding="utf-8",
    )
    (tmp_path / "b.rst").write_text("Use\n~~~\nPress a key.\n", encoding="utf-8")
    shown = [(p.title, " ".join(p.text.split())) for p in load_folder(tmp_path)]
    assert shown == [
        ("C#", "Sharp."),
        ("Notes", "One."),
        ("Notes", "Two. ~~~ # not a heading ```"),
        ("Title", "Run: ``` ls Last."),
        ("Use", "Press a key."),
    ]
