"""Documents are read in a process with limits, and what is not a file's fault is tried again."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from searchgym.corpora.documents import load_documents, readers
from searchgym.corpora.documents.encoding import CannotReadNow, Unreadable
from searchgym.corpora.documents.readers import FileReader, ParsedFile, RememberedFiles, parse
from tests.corpora.odd_files import word_file

pytestmark = pytest.mark.contract

PARAGRAPH = "<w:p><w:r><w:t>hello</w:t></w:r></w:p>"


def pdf_of(*objects: bytes) -> bytes:
    out, places = b"%PDF-1.7\n", []
    for number, inner in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, inner)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Size %d/Root 1 0 R>>\n" % (
        len(objects) + 1, table, len(objects) + 1
    ) + b"startxref\n%d\n%%%%EOF\n" % len(out)  # fmt: skip


def stream(content: bytes, about: bytes = b"") -> bytes:
    packed = zlib.compress(content, 9)
    return b"<</Length %d/Filter/FlateDecode%s>>\nstream\n%s\nendstream" % (
        len(packed), about, packed
    )  # fmt: skip


def pdf_page(content: bytes, *forms: bytes) -> bytes:
    return pdf_of(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R"
        b"/Resources<</XObject<</X0 5 0 R>>>>>>",
        stream(content),
        *forms,
    )


def pdf_of_forms(depth: int = 9) -> bytes:
    """A PDF file of 2 kB that draws 10**depth times."""
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]"
    forms = [
        stream(
            b"/X%d Do " % at * 10, form + b"/Resources<</XObject<</X%d %d 0 R>>>>" % (at, at + 5)
        )
        for at in range(1, depth + 1)
    ]
    return pdf_page(b"/X0 Do", *forms, stream(b"BT (x) Tj ET", form))


SLOW: dict[str, Callable[[], bytes]] = {
    "operators.pdf": lambda: pdf_page(b"BT (hello) Tj ET " + b"q Q " * 2_000_000),
    "paragraphs.docx": lambda: word_file(PARAGRAPH * 400_000),
    "attributes.html": lambda: ("<p " + " ".join(f"a{i}=1" for i in range(60_000)) + ">x").encode(),
    "wide.csv": lambda: b"\n".join([b",".join(b"c%d" % i for i in range(200_000))] * 12),
    "lists.json": lambda: b"[" + b",".join([b"[]"] * 3_000_000) + b"]",
}
"""Files of a few kB to a few MB whose readers take many seconds."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "SECONDS_A_MB", 0)


@pytest.mark.usefixtures("quick")
def test_a_file_that_takes_too_long_is_left_out_and_the_next_ones_are_read(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# Ferry\n\nIt leaves at nine.", encoding="utf-8")
    with FileReader(words=120, max_bytes=50_000_000, seconds=0.7) as reader:
        for name, made in SLOW.items():
            (tmp_path / name).write_bytes(made())
            with pytest.raises(CannotReadNow, match="takes more than 1 s to read"):
                reader.parse(tmp_path / name)
            assert reader.parse(tmp_path / "note.md").pieces == [("Ferry", "It leaves at nine.")]
        # Newer releases of pypdf stop drawing by themselves: on a fast machine, in time.
        (tmp_path / "forms.pdf").write_bytes(pdf_of_forms())
        with pytest.raises(Unreadable, match=r"takes more than 1 s to read|hold no text"):
            reader.parse(tmp_path / "forms.pdf")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to the limit")
def test_a_file_that_takes_too_much_memory_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "much.docx").write_bytes(word_file(PARAGRAPH * 400_000))
    (tmp_path / "much.html").write_text("<p>hello" * 1_000_000, encoding="utf-8")
    (tmp_path / "much.json").write_bytes(SLOW["lists.json"]())
    (tmp_path / "note.md").write_text("Fine.", encoding="utf-8")
    with FileReader(words=120, max_bytes=50_000_000, seconds=60, memory=300 << 20) as reader:
        for ending in ("docx", "html", "json"):
            with pytest.raises(CannotReadNow, match=r"takes more than 0.3 GB of memory to read"):
                reader.parse(tmp_path / f"much.{ending}")
        assert reader.parse(tmp_path / "note.md").pieces == [("", "Fine.")]


def test_a_reader_that_dies_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("Fine.", encoding="utf-8")
    with FileReader(words=120, max_bytes=1000) as reader:
        assert reader.parse(tmp_path / "note.md").pieces == [("", "Fine.")]
        process = reader._process
        assert process is not None
        process.kill()
        process.wait()
        with pytest.raises(CannotReadNow, match="its reader crashed"):
            reader.parse(tmp_path / "note.md")
        assert reader.parse(tmp_path / "note.md").pieces == [("", "Fine.")]
    assert process.poll() is not None


def test_short_texts_need_no_process_and_long_ones_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.rst", "c.log"):
        (tmp_path / name).write_text("Use\n===\nPress a key, müßte.\n" * 9, encoding="cp1252")
    here = list(load_documents(tmp_path))
    monkeypatch.setattr(readers, "_PLAIN_BYTES", 0)
    assert list(load_documents(tmp_path)) == here
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    monkeypatch.setattr(readers, "_PLAIN_BYTES", 1000)
    assert list(load_documents(tmp_path)) == here


def test_a_script_without_a_guard_reads_documents_and_finds_no_module_beside_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Ferry\n\nNine.", encoding="utf-8")
    (tmp_path / "json.py").write_text("print('not this one')", encoding="utf-8")
    code = "from searchgym.corpora.load import load_corpus; print(load_corpus('notes')[0].text)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Nine.\n"


@pytest.mark.parametrize(
    ("reason", "kept"), [(Unreadable("not a PDF file"), True), (CannotReadNow("no pypdf"), False)]
)
def test_only_what_a_file_is_to_blame_for_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: Unreadable, kept: bool
) -> None:
    monkeypatch.setattr(readers, "_SETTLED_NS", 0)
    (tmp_path / "a.txt").write_text("Fine.", encoding="utf-8")

    def fails(path: Path) -> ParsedFile:
        raise reason

    def reads(path: Path) -> ParsedFile:
        return parse(path, words=9, max_bytes=99)

    first = RememberedFiles(tmp_path / "kept.json", words=9, max_file_bytes=99)
    first.begin()
    with pytest.raises(Unreadable):
        first.parse(tmp_path / "a.txt", fails)
    first.end()
    second = RememberedFiles(tmp_path / "kept.json", words=9, max_file_bytes=99)
    second.begin()
    if kept:
        with pytest.raises(Unreadable, match="not a PDF file"):
            second.parse(tmp_path / "a.txt", reads)
        monkeypatch.setattr(readers, "_version", lambda package: "another version")
        second = RememberedFiles(tmp_path / "kept.json", words=9, max_file_bytes=99)
        second.begin()
    assert second.parse(tmp_path / "a.txt", reads).pieces == [("", "Fine.")]


@pytest.mark.parametrize(("ending", "package"), [(".pdf", "pypdf"), (".html", "lxml")])
def test_a_missing_package_is_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, package: str
) -> None:
    (tmp_path / f"a{ending}").write_bytes(b"<p>x")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CannotReadNow, match="needs an optional package"):
        parse(tmp_path / f"a{ending}", words=9, max_bytes=99)


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="everything is readable")
def test_a_file_without_the_right_to_read_it_may_be_read_later(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "a.txt").chmod(0)
    with pytest.raises(CannotReadNow, match="Permission denied"):
        parse(tmp_path / "a.txt", words=9, max_bytes=99)
