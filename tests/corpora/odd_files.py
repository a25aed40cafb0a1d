"""A folder of odd files: formats, encodings, languages and broken ones, each with what it gives."""

from __future__ import annotations

import gzip
import io
import os
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

PARAGRAPH = "The night ferry to Oslo leaves at nine and the harbour is dark."
GERMAN = "Der Wähler müßte über die Größe des Hauses nachdenken, weil es früher schöner war."
FRENCH = "Les élèves étaient déjà arrivés à la plage où l'été commençait."
POLISH = "Żółta łódź płynęła przez jezioro, gdzie było zimno i źle."
RUSSIAN = "Москва столица России и крупнейший город страны."
GREEK = "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας και έχει λιμάνι."
ARABIC = "القاهرة هي عاصمة مصر وتقع على نهر النيل في شمال البلاد."
CHINESE = "北京的市花是月季和菊花。青海湖是中国最大的咸水湖。"
TRADITIONAL = "臺北是臺灣的首都，有很多夜市。"
JAPANESE = "富士山は日本で一番高い山です。京都の祭りは七月です。"
KOREAN = "비빔밥은 한국의 음식이다. 부산에서는 영화제가 열린다."
HINDI = "दिल्ली भारत की राजधानी है।"
THAI = "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย"
QUOTED = "“Quoted” – naïve café"
LINES = "First line.\nSecond line.\nThird."
HEBREW = "ירושלים היא עיר הבירה של ישראל."

TEXTS: dict[str, tuple[bytes, str, str]] = {
    "english.txt": (PARAGRAPH.encode(), "utf-8", PARAGRAPH),
    "bom.txt": (PARAGRAPH.encode("utf-8-sig"), "utf-8", PARAGRAPH),
    "utf16.txt": (GERMAN.encode("utf-16"), "utf-16", GERMAN),
    "utf16be.txt": (b"\xfe\xff" + GERMAN.encode("utf-16-be"), "utf-16", GERMAN),
    "utf16nomark.txt": (GERMAN.encode("utf-16-le"), "utf-16-le", GERMAN),
    "utf32.txt": (GERMAN.encode("utf-32"), "utf-32", GERMAN),
    "latin1.txt": (GERMAN.encode("latin-1"), "cp1252", GERMAN),
    "short-latin1.txt": ("fine\ncafé\n".encode("latin-1"), "cp1252", "fine\ncafé"),
    "french-latin1.md": (FRENCH.encode("latin-1"), "cp1252", FRENCH),
    "quotes-cp1252.txt": (QUOTED.encode("cp1252"), "cp1252", QUOTED),
    "polish-cp1250.txt": (POLISH.encode("cp1250"), "cp1250", POLISH),
    "russian-cp1251.txt": (RUSSIAN.encode("cp1251"), "cp1251", RUSSIAN),
    "russian-koi8.txt": (RUSSIAN.encode("koi8-r"), "koi8_r", RUSSIAN),
    "greek-cp1253.txt": (GREEK.encode("cp1253"), "cp1253", GREEK),
    "arabic-cp1256.txt": (ARABIC.encode("cp1256"), "cp1256", ARABIC),
    "chinese-gbk.txt": (CHINESE.encode("gb18030"), "gb18030", CHINESE),
    "chinese-big5.txt": (TRADITIONAL.encode("big5"), "big5", TRADITIONAL),
    "japanese-sjis.txt": (JAPANESE.encode("shift_jis"), "shift_jis", JAPANESE),
    "japanese-euc.txt": (JAPANESE.encode("euc_jp"), "euc_jp", JAPANESE),
    "korean-euc.txt": (KOREAN.encode("euc_kr"), "euc_kr", KOREAN),
    "chinese.md": (CHINESE.encode(), "utf-8", CHINESE),
    "japanese.md": (JAPANESE.encode(), "utf-8", JAPANESE),
    "korean.txt": (KOREAN.encode(), "utf-8", KOREAN),
    "arabic.txt": (ARABIC.encode(), "utf-8", ARABIC),
    "hindi.txt": (HINDI.encode(), "utf-8", HINDI),
    "thai.txt": (THAI.encode(), "utf-8", THAI),
    "hebrew.txt": (HEBREW.encode(), "utf-8", HEBREW),
    "crlf.txt": (b"First line.\r\nSecond line.\r\n\r\nThird.\r\n", "utf-8", LINES),
    "cr.txt": (b"First line.\rSecond line.\r", "utf-8", "First line.\nSecond line."),
    "manual.rst": (b"Use\n===\nPress a key.\n", "utf-8", "Press a key."),
    "front.md": (b"---\ntitle: Plan\ntags: [evil, hack]\n---\nBuy seeds.\n", "utf-8", "Buy seeds."),
    "table.md": (b"| a | b |\n|---|---|\n| 1 | 2 |\n", "utf-8", "a | b\n1 | 2"),
    "list.md": (b"* one\n* two\n  1. deep\n", "utf-8", "- one\n- two\n  1. deep"),
    "upper.TXT": (b"Shouting.", "utf-8", "Shouting."),
    "with blank ünd é.md": (b"Named oddly.", "utf-8", "Named oddly."),
    "rows.csv": (b"city,people\nOslo,700000\n", "utf-8", "city: Oslo\npeople: 700000"),
    "semicolons.csv": (
        "Ort;Straße\nKöln;Domstraße\n".encode("cp1252"), "cp1252", "Ort: Köln\nStraße: Domstraße"),
    "rows.tsv": (b"a\tb\nx\ty\n", "utf-8", "a: x\nb: y"),
    "array.json": (b'[{"title": "T", "text": "Body."}]', "utf-8", "Body."),
    "object.json": (b'{"name": "N", "size": {"h": 2}}', "utf-8", "name: N\nsize.h: 2"),
    "lines.jsonl": (b'{"id": 1, "text": "Line one."}\n', "utf-8", "Line one."),
    "packed.txt.gz": (gzip.compress(b"Packed.", mtime=0), "utf-8", "Packed."),
}  # fmt: skip
"""Text files: name → bytes, encoding that must be told, text of the first passage."""


def docx_file(text: str = "Word says hello.") -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Memo", 0)
    document.add_heading("Greeting", 1)
    document.add_paragraph(text)
    document.add_paragraph("a point", style="List Bullet")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def pdf_file(*pages: str, title: str = "Report", password: str = "") -> bytes:
    from fpdf import FPDF

    made = FPDF()
    made.set_title(title)
    for page in pages:
        made.add_page()
        made.set_font("helvetica", size=12)
        if page:
            made.multi_cell(0, 5, page)
    if password:
        made.set_encryption(owner_password=password, user_password=password)
    return bytes(made.output())


PAGE = (
    "<html><head><title>Site</title><script>var junk = 1</script><style>p{}</style></head><body>"
    "<nav>Home About</nav><h2>Part &amp; whole</h2><p>Seen <b>text</b>.</p><!-- unseen -->"
    "<ul><li>one<li>two</ul><table><tr><th>h<th>i<tr><td>1<td>2</table></body></html>"
)
PAGE_TEXT = "Seen text.\n- one\n- two\nh | i\n1 | 2"
OTHERS: dict[str, tuple[bytes, str, str, str]] = {
    "page.html": (PAGE.encode(), "HTML", "Site › Part & whole", PAGE_TEXT),
    "latin1.htm": (
        b'<meta charset="iso-8859-1"><h1>Caf\xe9</h1><p>na\xefve</p>', "HTML", "Café", "naïve"),
    "chinese.xhtml": (
        f'<html><head><meta charset="gbk"></head><body><p>{CHINESE}</p></body></html>'
        .encode("gb18030"), "HTML", "chinese", CHINESE),
    "memo.docx": (b"", "DOCX", "Memo › Greeting", "Word says hello.\n- a point\nleft | right"),
    "report.pdf": (b"", "PDF", "Report › page 1", "Page one speaks."),
}  # fmt: skip
"""Other files: name → bytes (empty: made below), format, title and text of the first passage."""

BROKEN: dict[str, tuple[bytes, str]] = {
    "empty.md": (b"", "empty"),
    "blank.txt": (b" \n\t\n", "empty"),
    "binary.md": (bytes(range(256)) * 8, "binary data, not text"),
    "photo.jpg": (b"\xff\xd8\xff", "no reader for .jpg"),
    "archive.zip": (b"PK\x03\x04", "no reader for .zip"),
    "noending": (b"text", "no reader for files without an ending"),
    "half.json": (b'{"a": ', "not valid JSON"),
    "deep.json": (b"[" * 100_000, "nested too deeply"),
    "header.csv": (b"a,b\n", "a table without rows"),
    "cut.txt.gz": (gzip.compress(b"x" * 10_000)[:20], "broken compression"),
    "bomb.txt.gz": (gzip.compress(b"a" * 60_000_000, 1), "unpacks to more than"),
    "large.txt": (b"word " * 12_000_000, "too large"),
    "broken.pdf": (b"%PDF-1.4\n garbage", "not a PDF file"),
    "scanned.pdf": (b"", "hold no text"),
    "locked.pdf": (b"", "encrypted"),
    "broken.docx": (b"PK\x03\x04 nothing", "not a DOCX file"),
    "bomb.docx": (b"", "unpacks to"),
    "nontext.html": (b"<script>only code</script>", "holds no text"),
    "utf16-cut.txt": (b"\xff\xfea", "not the utf-16 text"),
    ".hidden.md": (b"secret", "hidden"),
    "pipe.md": (b"", "a FIFO"),
    "socket.md": (b"", "a socket"),
    "link.md": (b"", "a link"),
}
"""Files that are left out: name → bytes (empty: made below), beginning of the reason."""


def write_odd_files(folder: Path) -> None:
    """Write every file of ``TEXTS``, ``OTHERS`` and ``BROKEN``."""
    made: dict[str, Callable[[], bytes]] = {
        "memo.docx": docx_file,
        "report.pdf": lambda: pdf_file("Page one speaks.", "Page two, too."),
        "scanned.pdf": lambda: pdf_file("", ""),
        "locked.pdf": lambda: pdf_file("Secret.", password="pass"),
        "bomb.docx": _bomb,
    }
    plain = {name: row[0] for table in (TEXTS, OTHERS, BROKEN) for name, row in table.items()}
    for name, raw in plain.items():
        if name not in ("pipe.md", "socket.md", "link.md"):
            (folder / name).write_bytes(made[name]() if name in made else raw)
    os.mkfifo(folder / "pipe.md")
    (folder / "link.md").symlink_to("/dev/zero")
    here = os.getcwd()
    os.chdir(folder)  # a socket's address has at most 107 characters
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket.md")
    finally:
        os.chdir(here)


def _bomb() -> bytes:
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open("word/document.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(501):
            part.write(b" " * 1_000_000)
    return out.getvalue()
