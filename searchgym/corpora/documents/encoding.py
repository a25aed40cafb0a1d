"""Bytes to text: byte-order marks, UTF-8, and what charset-normalizer tells of older encodings."""

from __future__ import annotations

import codecs
import re

_MARKS = (  # UTF-32's little-endian mark begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_OLDER = [
    "cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1255", "cp1256", "shift_jis", "euc_jp",
    "gb18030", "big5", "euc_kr",
]  # fmt: skip
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SIGN_IN_WORD = re.compile(
    r"[^\W\d_][\u00a1-\u00b6\u00b8-\u00bf\u00d7\u00f7]|[\u00a3\u00b3\u00bf]\w"
)
_SHARE = 0.3
"""Share of high bytes among letters from which a text is not in Latin script."""


class Unreadable(Exception):
    """Raised with the reason why a file is left out."""


def decode(raw: bytes) -> tuple[str, str]:
    """Text and the name of its encoding.

    Raises:
        Unreadable: it is not text, or in an encoding that is not told.
    """
    for mark, name in _MARKS:
        if raw.startswith(mark):
            try:
                return raw.decode(name), name.removesuffix("-sig")
            except UnicodeDecodeError as error:
                raise Unreadable(f"not the {name} text that its first bytes say: {error}") from None
    if _is_utf16(raw):
        name = "utf-16-le" if not raw[1] else "utf-16-be"
        return raw.decode(name), name
    if len(_CONTROLS.findall(raw)) * 100 > len(raw):
        raise Unreadable("binary data, not text")
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return _older(raw, f"line {line} is not UTF-8 (byte {raw[error.start]:#04x})")


def _is_utf16(raw: bytes) -> bool:
    """Test if every other byte is zero, as in UTF-16 without a mark of mostly Latin script."""
    if len(raw) < 4 or len(raw) % 2:
        return False
    zero = raw[:2000:2].count(0), raw[1:2000:2].count(0)
    return max(zero) * 2 > 0.8 * len(raw[:2000]) and min(zero) == 0


def _older(raw: bytes, fault: str) -> tuple[str, str]:
    high, low = sum(b >= 0x80 for b in raw), len(re.findall(rb"[A-Za-z]", raw))
    if high <= _SHARE * (high + low):  # mostly ASCII letters: a Western or Central European one
        latin = raw.decode("cp1252", errors="replace")
        name = "cp1250" if _SIGN_IN_WORD.search(latin) else "cp1252"
        try:
            return raw.decode(name), name
        except UnicodeDecodeError:
            raise Unreadable(f"{fault}, nor {name}") from None
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        raise Unreadable(
            f'{fault}: save it as UTF-8, or pip install "searchgym[documents]"'
        ) from None
    best = from_bytes(raw, cp_isolation=_OLDER).best()
    if best is None:
        raise Unreadable(f"{fault}, and no other encoding fits: save it as UTF-8")
    return str(best), best.encoding
