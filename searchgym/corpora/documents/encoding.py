"""Bytes to text: byte-order marks, UTF-8, and older encodings told from the languages they hold."""

from __future__ import annotations

import codecs
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

_CENTRAL = (
    "óąęłżśćńź",  # Polish
    "íáéěčřžšýůúňóťď",  # Czech
    "áíéčšúžýťľôňäďóĺŕ",  # Slovak
    "áéöíóőüúű",  # Hungarian
    "ăîşâţ",  # Romanian
    "čšžćđ",  # Croatian, Slovene
    "ëç",  # Albanian
)
_WESTERN = (
    "éàèêçôâîùûëïœæüÿñ",  # French
    "äüößé",  # German
    "óíáéñúü",  # Spanish
    "ãçáéíóêõúàâôü",  # Portuguese
    "èàùòìéóîí",  # Italian
    "äåöé",  # Swedish
    "åøæéöü",  # Danish, Norwegian
    "ëéïèöüáóê",  # Dutch
    "àéèíóçòúïü",  # Catalan
    "äõöüšž",  # Estonian
    "éäöüçàèíñøåæôêß",  # names in English
    "éèàáíóúüöäñçåøæêëôîâûïãõðþýœßìùòÿšž",  # several of them
)
_ICELANDIC = ("ðáíéþöóæúý",)
_TURKISH = ("ıüşğöçİâîû",)
_BALTIC = ("ėšžąįųūčę", "āīēšūņļžčģķļōŗ", "äõöüšž")
_RUSSIAN = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"
_UKRAINIAN = "оанівиретскулдмпяьзйбчгїхюцжєшщфґё"
_BULGARIAN = "аиоетнрсвлкдпмзяъбугчйцшжхщфюь"
_SERBIAN = "аиоенрсјтуквдмплзгбчшцжћхњљђфџ"
_CYRILLIC = (_RUSSIAN, _UKRAINIAN, _BULGARIAN, _SERBIAN)
_GREEK = ("αοτιεσνηυρκπμλςίόάέδήθγώχύφωβξζψϊϋΐΰ",)
_HEBREW = ("יוהלאמרשבתכנעדקפגטחסצזםןךףץ",)
_ARABIC = ("اليمنوترهبدسعكقفحجةىطصشخزءثضأذئغإآظؤ",)
_THAI = ("านรกเงอยลมวดทตปคสะหิขี่้ัไพุชแใบโจผึนำู็ซถฉฟธศณญฐภษฤฎฏฒฌฑฆฝฬฮ์ๆฯ",)

SINGLE_BYTE: tuple[tuple[str, float, bool, tuple[str, ...]], ...] = (
    ("cp1252", 0, True, _WESTERN), ("cp1252", -2.5, True, _ICELANDIC),
    ("cp1250", -1.5, True, _CENTRAL), ("iso8859_2", -2, True, _CENTRAL),
    ("cp1254", -2, True, _TURKISH), ("cp1257", -3, True, _BALTIC),
    ("cp1251", -3, False, _CYRILLIC), ("koi8_r", -4, False, (_RUSSIAN,)),
    ("koi8_u", -4, False, (_UKRAINIAN,)), ("iso8859_5", -4, False, _CYRILLIC),
    ("cp866", -4, False, (_RUSSIAN,)), ("mac_cyrillic", -4, False, _CYRILLIC),
    ("cp1253", -3, False, _GREEK), ("iso8859_7", -4, False, _GREEK),
    ("cp1255", -3, False, _HEBREW), ("cp1256", -3, False, _ARABIC),
    ("iso8859_6", -4, False, _ARABIC), ("cp874", -3, False, _THAI),
    ("mac_roman", -9, True, _WESTERN), ("cp850", -9, True, _WESTERN),
    ("cp852", -9, True, _CENTRAL),
)  # fmt: skip
"""(encoding, how likely it is before a byte was seen, whether its letters stand among ASCII ones,
alphabets)."""

MULTI_BYTE: tuple[tuple[str, float, range], ...] = (
    ("cp932", -4, range(0x88, 0x99)), ("euc_jp", -4, range(0xB0, 0xD0)),
    ("gb18030", -4, range(0xB0, 0xD8)), ("big5", -4, range(0xA4, 0xC7)),
    ("cp949", -6, range(0xB0, 0xC9)),
)  # fmt: skip
"""(encoding, how likely, first bytes of its common characters)."""


_MARKS = (  # UTF-32's little-endian mark begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})
_ASCII = bytes(range(0x80))
_PARTS_OF_UTF8 = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_SAMPLE = 64_000
"""Bytes that an encoding is told from, from the first that is not ASCII."""
_PAIRS = 2000
"""Pairs of bytes, the most frequent ones, that are looked at."""
_SIGNS = frozenset("\xa0\xad«»“”„‘’‚–—…€£§°©®™·•¿¡²³ªº±×¼½¾µ†‹›№،؛؟฿¢¥¶÷¹¸´¨")
_AFTER_LETTER = frozenset("\xa0\xad»”’…™®°²³ªº·–—“‘›،؛؟×")
_BEFORE_LETTER = frozenset("\xa0\xad«“„‘’‚¿¡·–—§©•µ°‹†№…×¶")
_FINAL = frozenset("ךםןףץς")
_RARE, _FOREIGN, _UNDEFINED, _MIXED, _ODD_PLACE, _LONE = -5.5, -10.0, -12.0, -6.0, -4.0, -3.0
"""Logarithms of chances: a sign, a letter of no such language, a byte without a meaning, a word in
two scripts, a sign or a capital inside a word, a letter of a non-Latin script alone."""
_LONE_BYTE = re.compile(rb"(?<![\x80-\xffA-Za-z])[\x80-\xff](?![\x80-\xffA-Za-z])")
_AMONG_ASCII, _CAPITALS = -2.3, -0.3
_HOPELESS = -7.0
"""Mean chance of the bytes beyond ASCII below which no encoding fits."""


class Unreadable(Exception):
    """Raised with the reason why a file is left out."""


class CannotReadNow(Unreadable):
    """Raised where the reason is not the file: a package that is missing, a disk, a limit."""


def decode(raw: bytes, told: str | None = None) -> tuple[str, str]:
    """Text and the name of its encoding.

    Args:
        told: Encoding that the file names itself (a page's ``<meta charset>``); it counts after a
            mark, and only where it fits.

    Raises:
        Unreadable: it is not text, or in an encoding that is not told.
    """
    for mark, name in _MARKS:
        if raw.startswith(mark):
            try:
                return raw.decode(name).lstrip("\ufeff"), name.removesuffix("-sig")
            except UnicodeDecodeError as error:
                raise Unreadable(f"not the {name} text that its first bytes say: {error}") from None
    if _is_utf16(raw):
        name = "utf-16-le" if not raw[1] else "utf-16-be"
        return raw.decode(name), name
    if (len(raw) - len(raw.translate(None, _CONTROLS))) * 100 > len(raw):
        raise Unreadable("binary data, not text")
    name = "utf-8"
    try:
        text = raw.decode(name)
        if b"\x1b$B" in raw or b"\x1b$@" in raw:
            text, name = raw.decode("iso2022_jp_2"), "iso2022_jp"
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        fault = f"line {line} is not UTF-8 (byte {raw[error.start]:#04x})"
        text = _as_told(raw, told) if told else ""
        text, name = (text, told) if told and text else _older(raw, fault)
    else:
        if told and not raw.isascii() and told in _TWO_BYTES and (two := _as_told(raw, told)):
            text, name = two, told
    return text.lstrip("\ufeff"), _SHOWN.get(name, name)


_TWO_BYTES = frozenset(name for name, _, _ in MULTI_BYTE)
_LABELS = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030",
    "euc_kr": "cp949", "big5hkscs": "big5", "iso8859-8": "cp1255", "iso-8859-8-i": "cp1255",
    "windows-31j": "cp932", "windows-874": "cp874", "windows-949": "cp949",
    "gb_2312-80": "gb18030", "dos-866": "cp866",
}  # fmt: skip
"""Encodings that browsers read for the names that pages give."""
_SHOWN = {"cp932": "shift_jis", "cp949": "euc_kr"}


def encoding_named(label: str) -> str | None:
    """The encoding that a page means by a name; None for one that says nothing."""
    label = label.strip().lower().removeprefix("x-")
    try:
        name = codecs.lookup(_LABELS.get(label, label))
    except (LookupError, ValueError):
        return None
    if not getattr(name, "_is_text_encoding", True) or name.name.startswith("utf"):
        return None
    return _LABELS.get(name.name, name.name.replace("-", "_"))


def _as_told(raw: bytes, name: str) -> str:
    try:
        return raw.decode(name)
    except UnicodeDecodeError:
        return ""


def _is_utf16(raw: bytes) -> bool:
    """Test if every other byte is zero, as in UTF-16 without a mark of mostly Latin script."""
    if len(raw) < 4 or len(raw) % 2:
        return False
    zero = raw[:2000:2].count(0), raw[1:2000:2].count(0)
    return max(zero) * 2 > 0.8 * len(raw[:2000]) and min(zero) == 0


def _older(raw: bytes, fault: str) -> tuple[str, str]:
    start = len(raw) - len(raw.lstrip(_ASCII))
    sample = raw[max(0, start - 100) :][:_SAMPLE]
    high = len(sample.translate(None, _ASCII))
    whole = sum(map(len, _PARTS_OF_UTF8.findall(sample)))
    if whole > 0.9 * high:  # UTF-8 with a few bytes that are not
        return raw.decode("utf-8", _SPOILT), "utf-8"
    chance, name = max(_chances(sample))
    if chance >= _HOPELESS * (high + 0.5):
        try:
            return raw.decode(name, _SPOILT if name == "cp1252" else "strict"), name
        except UnicodeDecodeError as error:
            fault = f"{fault}, nor {name} (byte {error.start:,})"
    raise Unreadable(f"{fault}, and no other encoding fits: save it as UTF-8")


def _latin1(error: UnicodeError) -> tuple[str, int]:
    """Read what cannot be decoded as browsers read a Western text."""
    assert isinstance(error, UnicodeDecodeError)
    bad = error.object[error.start : error.end]
    return "".join(bytes([b]).decode("cp1252", "replace") for b in bad), error.end


def _chances(sample: bytes) -> Iterator[tuple[float, str]]:
    """Logarithm of how likely the bytes are in every encoding, by its languages' letters."""
    pairs = Counter(zip(b" " + sample, sample + b" ", strict=True))
    common = [(pair, n) for pair, n in pairs.most_common() if max(pair) >= 0x80][:_PAIRS]
    lone = Counter(byte[0] for byte in _LONE_BYTE.findall(sample))
    for name, before, latin, alphabets in SINGLE_BYTE:
        table = [bytes([b]).decode(name, "replace") for b in range(256)]
        if not latin:
            before += _LONE * sum(n for byte, n in lone.items() if table[byte].isalpha())
        for alphabet in alphabets:
            letters = _letters(alphabet)
            yield (
                before
                + sum(
                    n * _pair(table[a], table[b], b >= 0x80, latin, letters) for (a, b), n in common
                ),
                name,
            )
    for name, before, first in MULTI_BYTE:
        text = codecs.getincrementaldecoder(name)("replace").decode(sample, len(sample) < _SAMPLE)
        kinds = Counter(text)
        kana = sum(n for sign, n in kinds.items() if "\u3040" <= sign < "\u3100")
        bare = -2.0 if name == "euc_jp" and kana * 20 < len(text) - text.count(" ") else 0.0
        yield before + sum(n * (_wide(sign, name, first) + bare)
                           for sign, n in kinds.items() if sign >= "\x80"), name  # fmt: skip


def _letters(alphabet: str) -> dict[str, float]:
    """Chances of letters that come the rarer, the later they stand."""
    weights = [1 / (place + 4) for place in range(len(alphabet))]
    whole = math.log(sum(weights))
    return {
        letter: math.log(0.9 * weight) - whole
        for letter, weight in zip(alphabet, weights, strict=True)
    }


def _pair(a: str, b: str, high: bool, latin: bool, letters: Mapping[str, float]) -> float:
    """Chance of the sign ``b`` after ``a`` if ``b`` is beyond ASCII, else of its place alone."""
    if not high:
        if not b.isalpha() or a.isdecimal():
            return 0.0
        if not a.isalpha():
            return 0.0 if a in _BEFORE_LETTER else _ODD_PLACE
        return (_ODD_PLACE if a.islower() and b.isupper() else 0.0) if latin else _MIXED
    small = b if b in letters else b.lower()  # "İ" has no small letter of one character
    if small in letters:
        chance = letters[small] + (_AMONG_ASCII if latin else 0)
        if b != small:
            chance += _ODD_PLACE if a.islower() else _CAPITALS if a.isupper() else -1.0
        if a in _FINAL or (latin and a.isdecimal()):
            chance += _ODD_PLACE
        if a.isascii() and a.isalpha() and not latin:
            chance += _MIXED
        elif not a.isascii() and not a.isalpha() and a not in _BEFORE_LETTER and a not in letters:
            chance += _ODD_PLACE
        return chance
    if b == "\ufffd" or "\x80" <= b < "\xa0":
        return _UNDEFINED
    if b.isalpha() and b not in _SIGNS:
        return _FOREIGN
    if b not in _SIGNS:
        return 1.5 * _RARE
    return _RARE + (_ODD_PLACE if a.isalpha() and b not in _AFTER_LETTER else 0)


def _wide(sign: str, name: str, common: range) -> float:
    """Chance of a character of two bytes, whose common ones begin with bytes in ``common``."""
    if "\u3040" <= sign < "\u3100":
        return -5.1 if name in ("cp932", "euc_jp") else -10.0
    if "\u3000" <= sign < "\u3040":
        return -6.0
    if "\uff00" <= sign < "\uff61":
        return -8.0
    if "\uff66" <= sign < "\uffa0":
        return -6.5
    first = sign.encode(name, "replace")[0]
    if "\uac00" <= sign < "\ud7a4":
        return -7.3 if first in common else -13.0
    if "\u4e00" <= sign < "\ua000":
        return -8.0 if first in common and name != "cp949" else -13.0
    return -12.0 if sign != "\ufffd" else -24.0


_SPOILT = "searchgym.documents.latin1"
codecs.register_error(_SPOILT, _latin1)
