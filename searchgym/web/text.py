"""Functions that make untrusted text safe to show.

Escaping is the template's business. What is left: characters that are not seen but change what is
seen. They are replaced by their names, so that a reader sees that they were there.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from ..errors import MissingExtraError

MOST_CHARS = 20_000
"""Longest text shown of one piece; the rest is counted."""
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but for tab and line feed
    "\u200b\u2060\u2028\u2029\ufeff"  # without width; separators that break lines
    "\u202a-\u202e\u2066-\u2069"  # that turn the direction of what follows
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # annotations and tags: text that no screen shows
    "\ud800-\udfff]"  # halves of characters, which no encoding can send
)


def shown(text: object, most: int = MOST_CHARS) -> Any:
    """Markup of a text: escaped, hidden characters named, cut after ``most`` characters."""
    try:
        from markupsafe import Markup, escape
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("web pages (jinja2)", "view") from error
    whole = str(text).replace("\r\n", "\n")
    kept = whole[:most]
    parts: list[Any] = []
    at = 0
    for match in _HIDDEN.finditer(kept):
        parts += [escape(kept[at : match.start()]), _named(match.group())]
        at = match.end()
    parts.append(escape(kept[at:]))
    if len(whole) > most:
        left = f"… {len(whole) - most:,} more characters"
        parts.append(Markup('<span class="cut">{}</span>').format(left))
    return Markup("").join(parts)


def plain(text: object, most: int = MOST_CHARS) -> str:
    """The same for where no markup can be: titles, attributes."""
    whole = str(text)
    cut = "…" if len(whole) > most else ""
    return _HIDDEN.sub(lambda match: f"[{_code(match.group())}]", whole[:most]) + cut


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _named(character: str) -> Any:
    from markupsafe import Markup

    name = unicodedata.name(character, "control character").lower()
    return Markup('<span class="hidden-char" title="{}">{}</span>').format(name, _code(character))
