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


LANGUAGES: dict[str, tuple[str, str]] = {
    "german": (GERMAN, "cp1252 iso8859_1 mac_roman cp850"),
    "german-signs": ("Die Straße ist 5 m² groß und 3³ ist 27; § 5 gilt.", "cp1252"),
    "french": ("Les élèves sont à la plage, où l’été commence… «Où vas-tu?»", "cp1252 mac_roman"),
    "french-short": ("Il a mangé à Noël.", "iso8859_1"),
    "spanish": ("El niño preguntó: ¿Dónde está la estación? ¡Aquí!", "cp1252 iso8859_1 cp850"),
    "spanish-signs": ("3ª planta, 2º izq., n.º 5: ¡oferta!", "cp1252"),
    "english-pound": ("The ticket costs £5 and the café is open.", "cp1252 iso8859_1"),
    "english-price": ("It costs £12, £5 or £6; 2 × 3 × 4 × 5 cm.", "cp1252"),
    "english-signs": ("10 µg at 37°C ±2, © 2024 Acme® – ½ price", "cp1252"),
    "ordinals": ("Piso 3º, puerta 2ª", "cp1252"),
    "portuguese": ("A situação não é fácil: os cães têm três corações.", "cp1252 cp850"),
    "italian": ("Perché la città è più bella di così? Però andrò là.", "cp1252"),
    "swedish": ("Sjön är så blå på våren, sade flickan från Östersund.", "cp1252 mac_roman"),
    "danish": ("Rødgrød med fløde på æbleøen; år efter år går vi hjem.", "cp1252"),
    "icelandic": ("Það er fallegt veður í dag og ég ætla að fara út.", "cp1252"),
    "catalan": ("L'any següent, la col·lecció és més àmplia i el català també.", "cp1252"),
    "polish": (POLISH + " Święta są w grudniu.", "cp1250 iso8859_2 cp852"),
    "czech": ("Příliš žluťoučký kůň úpěl ďábelské ódy na nádraží.", "cp1250 iso8859_2"),
    "slovak": ("Na Slovensku je veľa kráľov a ľudí. Päť dní pršalo.", "cp1250"),
    "hungarian": ("Árvíztűrő tükörfúrógép. A gyerekek az erdőben játszottak.", "cp1250 iso8859_2"),
    "romanian": ("Aceasta este o casă frumoasă în care trăiesc mulţi oameni.", "cp1250"),
    "croatian": ("Čovjek je došao kući i vidio da je đak već otišao u školu.", "cp1250"),
    "turkish": ("Şehirde güneş parlıyor; çocuklar bahçede oynuyor.", "cp1254 iso8859_9"),
    "turkish-names": ("Ağrı Dağı ve İzmir: yağmur yağıyor", "cp1254"),
    "polish-name": ("Mieszka w Łodzi i śpi bardzo mało", "cp1250 iso8859_2"),
    "lithuanian": ("Žmonės gyvena prie ežero, kur vėjas pučia ąžuolų šakas.", "cp1257"),
    "latvian": ("Cilvēki dzīvo mazā ciematā pie ezera, kur ūdens ir tīrs.", "cp1257"),
    "russian": (RUSSIAN + " Всё хорошо.", "cp1251 koi8_r cp866 iso8859_5 mac_cyrillic"),
    "ukrainian": ("Київ є столицею України. Її населення зростає.", "cp1251 koi8_u"),
    "bulgarian": ("София е столицата на България и най-големият град.", "cp1251"),
    "serbian": ("Београд је главни град Србије. Људи живе у љубави.", "cp1251"),
    "greek": (GREEK, "cp1253 iso8859_7"),
    "hebrew": (HEBREW, "cp1255 iso8859_8"),
    "arabic": (ARABIC, "cp1256 iso8859_6"),
    "thai": (THAI, "cp874"),
    "japanese": (JAPANESE, "cp932 euc_jp iso2022_jp"),
    "chinese": (CHINESE, "gb18030"),
    "taiwanese": (TRADITIONAL, "big5"),
    "korean": (KOREAN, "cp949"),
}
"""Sentences and the older encodings that they are written in."""


def encoded() -> dict[str, tuple[bytes, list[tuple[str, str]]]]:
    """Every sentence in every encoding as text, as a table and as a page without a charset."""
    made: dict[str, tuple[bytes, list[tuple[str, str]]]] = {}
    for language, (text, encodings) in LANGUAGES.items():
        for encoding in encodings.split():
            stem = f"{language}-{encoding}"
            table, page = f'no,words\n7,"{text}"\n', f"<p>{text}</p>"
            made[f"in-{stem}.txt"] = (text.encode(encoding), [(f"in-{stem}", text)])
            made[f"in-{stem}.csv"] = (table.encode(encoding), [(text, f"no: 7\nwords: {text}")])
            made[f"in-{stem}.html"] = (page.encode(encoding), [(f"in-{stem}", text)])
    return made


def pages() -> dict[str, tuple[bytes, list[tuple[str, str]]]]:
    """HTML whose text a browser shows; what it hides is called UNSEEN."""
    cases: dict[str, tuple[str, list[tuple[str, str]]]] = {
        "escaped": ("<h1>Guide</h1><p>Use List&lt;String&gt; &amp;amp; *x*.", [
            ("Guide", "Use List<String> &amp; *x*.")]),
        "code": ("<title>T</title><h2>Code</h2><pre>#include &lt;stdio.h&gt;\n  int x;</pre>", [
            ("T › Code", "#include <stdio.h>\n  int x;")]),
        "number-sign": ("<p># 1 in the charts<p>1. no list<p>- nor here", [
            ("", "# 1 in the charts\n1. no list\n- nor here")]),
        "script-word": ("<p>&lt;script&gt; opens</p><h2>Next</h2><p>important", [
            ("", "<script> opens"), ("Next", "important")]),
        "backticks": ("<pre>a\n```\n\nb</pre>", [("", "a\n```\n\nb")]),
        "short-row": (
            "<table><tr><th>Prices 2024<tr><td>Apple<td>three euro</table>", [
            ("", "Prices 2024\nApple | three euro")]),
        "strays": (
            "<table><tr>a<tr><form><td>b<td>c</form></table>d<table><td>e</table></body></html>f"
            "<table><form><tr><td>g<td>h</form></table>", [("", "a\nb\nc\nd\ne\nf\ng | h")]),
        "empty-cells": ("<table><tr><td>a<td><td>c<tr><td><td></table>", [("", "a |  | c")]),
        "caption": (
            "<table><caption>Fees</caption><thead><tr><th>a</thead><tr><td>b<br>c</table>", [
            ("", "Fees\na\nb c")]),
        "list-in-cell": ("<table><tr><td>x<td><ul><li>p<li>q</ul></table>", [("", "x | - p - q")]),
        "layout": (
            "<table><tr><td><h2>Left</h2>text<td><table><tr><td>1<td>2</table></table>after", [
            ("Left", "text\n1 | 2\nafter")]),
        "webform": (
            "<form><h1>News</h1><p>The ferry leaves.<button>Send <b>now</b></button>"
            "<input type=hidden value=UNSEEN><input type=submit value=Go!>"
            "<input placeholder='your name'><input type=password value=UNSEEN>"
            "<textarea>a\n b</textarea></form>", [
            ("News", "The ferry leaves. Send now Go! your name\na\n b")]),
        "select": (
            "<p>Colour<select><option>Red<option label=Blue>UNSEEN<optgroup label=Dark>"
            "<option selected>Black</select>", [("", "Colour\nRed\nBlue\nDark\nBlack")]),
        "hidden": (
            "a<p hidden>UNSEEN</p>b<p style='Display : none'>UNSEEN<b>UNSEEN</b></p>c"
            "<i style='visibility:hidden'>UNSEEN</i>tail", [("", "abctail")]),
        "unseen": (
            "<style>UNSEEN</style><script>UNSEEN</script><template>UNSEEN</template>seen"
            "<noscript>UNSEEN</noscript><dialog>UNSEEN</dialog><!-- UNSEEN --><iframe>UNSEEN"
            "</iframe><datalist><option>UNSEEN</datalist><canvas>UNSEEN</canvas>", [("", "seen")]),
        "details": ("<details><summary>More</summary>inside</details>", [("", "More\ninside")]),
        "lists": (
            "<ul><li>one<ul><li>deep</ul><li><p>two</p><p>more</ul>"
            "<ol start=3><li>x<li value=9>y<li>z</ol>", [
            ("", "- one\n  - deep\n- two\n  more\n3. x\n9. y\n10. z")]),
        "terms": ("<dl><dt>Term<dd>Meaning</dl>", [("", "Term\nMeaning")]),
        "breaks": ("x<br>y<br><br>z", [("", "x\ny\nz")]),
        "soft": ("infor&shy;ma&shy;tion 5&nbsp;km un<wbr>broken", [
            ("", "information 5 km unbroken")]),
        "mathml": (
            "<p>So <math><mi>x</mi><mo>=</mo><mfrac><mn>1</mn><msup><mi>y</mi><mn>2</mn></msup>"
            "</mfrac><annotation>UNSEEN</annotation></math>.", [("", "So x=1/(y^2) .")]),
        "svg": ("<svg><title>UNSEEN</title><text>Label</text></svg>", [("", "Label")]),
        "ruby": ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", [("", "漢(kan)")]),
        "picture": ("<a href=x><img alt='Logo of us' src=y></a>", [("", "Logo of us")]),
        "headings": ("<h1>Minutes</h1><h2>Raise the price</h2><h2>Meet on Friday</h2>", [
            ("Minutes › Raise the price", "Raise the price"),
            ("Minutes › Meet on Friday", "Meet on Friday")]),
        "title": ("<title>A &amp; B</title><h2>C</h2>d", [("A & B › C", "d")]),
        "unclosed": ("<h1>T<p>para<ul><li>x", [("T", "para\n- x")]),
        "inline": ("<b>bold</b><i>er</i> <code>a  b</code> <q>quoted</q>", [
            ("", "bolder a b “quoted”")]),
        "plaintext": ("<plaintext>a <b>", [("", "a <b>")]),
        "quirk": ("<p>1 < 2 & 3 > 2", [("", "1 < 2 & 3 > 2")]),
    }  # fmt: skip
    charsets = {
        "meta-utf8": f"<meta charset=utf-8><p>{POLISH}".encode(),
        "meta-latin2": f"<meta charset='iso-8859-2'><p>{POLISH}".encode("iso8859_2"),
        "meta-http": (
            '<meta http-equiv="Content-Type" content="text/html; charset=windows-1250">'
            f"<p>{POLISH}").encode("cp1250"),
        "meta-wrong": f"<meta charset=utf-8><p>{POLISH}".encode("cp1250"),
        "meta-noted": f"<!-- <meta charset=koi8-r> --><p>{POLISH}".encode("cp1250"),
        "meta-unknown": f"<meta charset=klingon><p>{POLISH}".encode(),
        "xml": f'<?xml version="1.0" encoding="iso-8859-2"?><p>{POLISH}</p>'.encode("iso8859_2"),
        "mark": b"\xef\xbb\xbf" + f"<meta charset=iso-8859-1><p>{POLISH}".encode(),
        "utf16": f"<p>{POLISH}".encode("utf-16"),
        "none": f"<p>{POLISH}".encode(),
    }  # fmt: skip
    made = {f"page-{name}.html": (text.encode(), wanted) for name, (text, wanted) in cases.items()}
    return made | {f"page-{name}.html": (raw, [("", POLISH)]) for name, raw in charsets.items()}


_WORD = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:v="urn:schemas-microsoft-com:vml"'
)


def word_file(body: str, **parts: str) -> bytes:
    """A DOCX file from the XML of its body and of other parts (styles, numbering, …)."""
    out, links = io.BytesIO(), ""
    with zipfile.ZipFile(out, "w") as packed:
        for name, inner in {"document": f"<w:body>{body}</w:body>", **parts}.items():
            packed.writestr(f"word/{name}.xml", f"<w:{name} {_WORD}>{inner}</w:{name}>")
            links += f'<Relationship Id="{name}" Type="http://x/{name}" Target="{name}.xml"/>'
        packed.writestr("word/_rels/document.xml.rels", f"<Relationships>{links}</Relationships>")
    return out.getvalue()


def _p(text: str, about: str = "", run: str = "") -> str:
    return f"<w:p><w:pPr>{about}</w:pPr><w:r><w:rPr>{run}</w:rPr><w:t>{text}</w:t></w:r></w:p>"


def word_files() -> dict[str, tuple[bytes, list[tuple[str, str]]]]:
    """Word documents; what Word does not show is called UNSEEN."""
    inner = f"<w:txbxContent>{_p('CALLOUT text')}</w:txbxContent>"
    box = f"<w:drawing><wps:txbx>{inner}</wps:txbx></w:drawing>"
    vml = f"<w:pict><v:textbox>{inner}</v:textbox></w:pict>"
    both = (
        f"<mc:AlternateContent><mc:Choice>{box}</mc:Choice>"
        f"<mc:Fallback>{vml}</mc:Fallback></mc:AlternateContent>"
    )

    def m(name: str, *inner: str) -> str:
        return f"<m:{name}>{''.join(inner)}</m:{name}>"

    def r(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    formula = (
        m("f", m("num", r("a+b")), m("den", r("2"))) + r("=")
        + m("sSup", m("e", r("x")), m("sup", r("2"))) + r("+")
        + m("nary", '<m:naryPr><m:chr m:val="∑"/></m:naryPr>', m("sub", r("i")), m("sup"),
            m("e", r("y")))
        + m("d", m("e", r("z"))) + m("rad", m("deg"), m("e", r("q")))
    )  # fmt: skip
    styles = (
        '<w:style w:styleId="b1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="own"><w:name w:val="Mine"/><w:basedOn w:val="b1"/></w:style>'
        '<w:style w:styleId="hid"><w:name w:val="Ghost"/><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:styleId="out"><w:name w:val="Outlined"/>'
        '<w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
    )
    numbering = (
        '<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="3"/>'
        '<w:numFmt w:val="decimal"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl>'
        '</w:abstractNum><w:num w:numId="5"><w:abstractNumId w:val="0"/></w:num>'
    )

    def item(level: int) -> str:
        return f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="5"/></w:numPr>'

    cell = "<w:tc>{}</w:tc>".format
    bodies: dict[str, tuple[str, str]] = {
        "escaped": (_p("Use List&lt;String&gt; # *x* _y_"), "Use List<String> # *x* _y_"),
        "box": (f"<w:p><w:r><w:t>before</w:t>{box}</w:r></w:p>", "before\nCALLOUT text"),
        "box-vml": (f"<w:p><w:r>{vml}</w:r></w:p>", "CALLOUT text"),
        "art": ('<w:p><w:pict><v:textpath string="Art"/></w:pict></w:p>', "Art"),
        "box-both": (f"<w:p><w:r>{both}</w:r></w:p>", "CALLOUT text"),
        "vanish": (
            _p("seen") + _p("UNSEEN", run="<w:vanish/>")
            + _p("too", run='<w:vanish w:val="0"/>'), "seen\ntoo"),
        "short-row": (
            f"<w:tbl><w:tr>{cell(_p('Prices'))}</w:tr><w:tr>{cell(_p('Apple'))}"
            f"{cell(_p('three euro') + _p('each'))}</w:tr></w:tbl>",
            "Prices\nApple | three euro each"),
        "nested-table": (
            f"<w:tbl><w:tr>{cell(_p('a'))}<w:tc><w:tbl><w:tr>{cell(_p('b'))}{cell(_p('c'))}"
            "</w:tr></w:tbl></w:tc></w:tr></w:tbl>", "a\nb | c"),
        "equation": (
            f"<w:p><w:r><w:t>For </w:t></w:r><m:oMath>{formula}</m:oMath><w:r><w:t>, ok</w:t>"
            "</w:r></w:p>", "For (a+b)/2=x^2+∑_i y(z)√q, ok"),
        "equation-alone": (f"<w:p><m:oMathPara><m:oMath>{r('E=1')}</m:oMath></m:oMathPara></w:p>",
                           "E=1"),
        "hyphens": (
            "<w:p><w:r><w:t>infor</w:t><w:softHyphen/><w:t>mation a</w:t><w:noBreakHyphen/>"
            '<w:t>b</w:t><w:tab/><w:t>c</w:t><w:br/><w:t>d</w:t><w:sym w:font="Symbol" '
            'w:char="F061"/></w:r></w:p>', "information a-b c\ndα"),
        "changes": (
            "<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>UNSEEN"
            "</w:delText></w:r></w:del></w:p>", "new"),
        "control": (f"<w:sdt><w:sdtContent>{_p('chosen')}</w:sdtContent></w:sdt>", "chosen"),
        "field": (
            '<w:p><w:r><w:instrText>UNSEEN</w:instrText></w:r><w:r><w:t>page 7</w:t></w:r></w:p>',
            "page 7"),
        "link": ("<w:p><w:hyperlink><w:r><w:t>here</w:t></w:r></w:hyperlink></w:p>", "here"),
    }  # fmt: skip
    made = {
        f"word-{name}.docx": (word_file(body), [("", text)])
        for name, (body, text) in bodies.items()
    }
    made["word-outline.docx"] = (
        word_file(
            _p("Head", '<w:pStyle w:val="own"/>') + _p("a", item(0)) + _p("b", item(1))
            + _p("c", item(0)) + _p("Sub", '<w:pStyle w:val="out"/>')
            + _p("UNSEEN", '<w:pStyle w:val="hid"/>')
            + '<w:p><w:r><w:t>x</w:t><w:footnoteReference w:id="2"/></w:r></w:p>'
            + _p("Alone", '<w:pStyle w:val="b1"/>'),
            styles=styles, numbering=numbering,
            footnotes=f'<w:footnote w:id="2">{_p("the note")}</w:footnote>',
        ),
        [("Head", "3. a\n  - b\n4. c"), ("Head › Sub", "x[1]"), ("Alone", "Alone"),
         ("", "[1] the note")],
    )  # fmt: skip
    return made


def records() -> dict[str, tuple[bytes, list[tuple[str, str]]]]:
    """Tables and JSON in odd forms."""
    big = "x" * 200_000
    return {
        name: (raw if isinstance(raw, bytes) else raw.encode(), wanted)
        for name, raw, wanted in [
            ("t-quotes.csv", "k;has;n\n1;['112', '112'];x\n2;['3', '4'];y\n", [
                ("['112', '112']", "k: 1\nhas: ['112', '112']\nn: x"),
                ("['3', '4']", "k: 2\nhas: ['3', '4']\nn: y")]),
            ("t-tabs.csv", "name\tnotes\nO'Brien\tpm; fine, 'so'\n", [
                ("O'Brien", "name: O'Brien\nnotes: pm; fine, 'so'")]),
            ("t-bars.csv", "a|b, c\nx|1, 2\n", [("x", "a: x\nb, c: 1, 2")]),
            ("t-decimals.csv", "a;b\nx;1,5\ny;2,5\n", [
                ("x", "a: x\nb: 1,5"), ("y", "a: y\nb: 2,5")]),
            ("t-repeated.csv", "Key,Note,Note\nX-1,first,second\n", [
                ("X-1", "Key: X-1\nNote: first\nNote (2): second")]),
            ("t-mac.csv", 'a,b\rx,"p\rq"\ry,c\r', [("x", "a: x\nb: p\nq"), ("y", "a: y\nb: c")]),
            ("t-blank.csv", 'a,b\nx,"one\n\ntwo"\n', [("x", "a: x\nb: one\n\ntwo")]),
            ("t-sep.csv", "sep=;\r\na;b\r\nx;2\r\n", [("x", "a: x\nb: 2")]),
            ("t-marks.csv", b"\xef\xbb\xbf\xef\xbb\xbfa,b\nx,2\n", [("x", "a: x\nb: 2")]),
            ("t-ragged.csv", "a,b\nx,2,3\ny\n", [("x", "a: x\nb: 2\ncolumn 3: 3"), ("y", "a: y")]),
            ("t-pound.csv", "a,b\nx,£12\n".encode("cp1252"), [("x", "a: x\nb: £12")]),
            ("t-huge.csv", f"text\n{big}\n", [("t-huge", big)]),
            ("j-lines.json", '{"a": "x"}\n{"a": "y"}\n', [("x", "a: x"), ("y", "a: y")]),
            ("j-parted.jsonl", '{"a": "x\u2028y\x85z"}\n{"a": "w"}', [
                ("x y z", "a: x\u2028y\x85z"), ("w", "a: w")]),
            ("j-list.json", '{"documents": [{"title": "T", "text": "B"}], "n": 1}', [("T", "B")]),
            ("j-around.json", '{"note": "two words", "rows": [{"a": "x"}]}', [
                ("two words", "note: two words"), ("x", "a: x")]),
            ("j-text.json", '{"text": "kept", "refs": [{"a": "x"}]}', [
                ("j-text", "kept\nrefs.1.a: x")]),
            ("j-mark.json", b"\xef\xbb\xbf" + b'[{"text": "B"}]', [("j-mark", "B")]),
            ("h-alone.md", "# M\n\n## Decide\n\n## Meet\n\ntext\n\n### Last\n", [
                ("M › Decide", "Decide"), ("M › Meet", "text"), ("M › Meet › Last", "Last")]),
            ("h-alone.rst", "M\n===\n\nDecide\n------\n\nMeet\n----\ntext\n", [
                ("M › Decide", "Decide"), ("M › Meet", "text")]),
            ("m-html.md", "<div>\n<script>UNSEEN</script><!-- UNSEEN -->a &lt;b&gt;\n</div>\n", [
                ("m-html", "a <b>")]),
            ("m-generic.md", "Use `List<T>` and 1 < 2.", [("m-generic", "Use List<T> and 1 < 2.")]),
            ("x-almost.txt", "Zażółć gęślą jaźń, ".encode() + b"caf\xe9", [
                ("x-almost", "Zażółć gęślą jaźń, café")]),
            ("x-soft.txt", "infor\xadmation", [("x-soft", "information")]),
            ("x-marks.txt", "\ufeff\ufeffword", [("x-marks", "word")]),
        ]
    }  # fmt: skip


def exact() -> dict[str, tuple[bytes, list[tuple[str, str]]]]:
    """Name → bytes, and all passages that must come out; an empty title is the file's name."""
    return {**encoded(), **pages(), **word_files(), **records()}


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
