"""Rendering: templates over the shared base, as served pages or as one file that needs no other.

Escaping is the templates' business. What is left of making untrusted text safe to show: characters
that are not seen but change what is seen are replaced by their names, so that a reader sees them.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from ..utils.version import __version__

if TYPE_CHECKING:
    import jinja2

MOST_CHARS = 20_000
"""Longest text shown of one piece; the rest is counted."""
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but for tab and line feed
    "\u200b\u2060\u2028\u2029\ufeff"  # without width; separators that break lines
    "\u202a-\u202e\u2066-\u2069"  # that turn the direction of what follows
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # annotations and tags: text that no screen shows
    "\ud800-\udfff]"  # halves of characters, which no encoding can send
)
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' "
    "stroke='%230a6190' stroke-width='2.4'%3E%3Ccircle cx='10' cy='10' r='8'/%3E%3Cpath "
    "d='m16 16 6 6'/%3E%3Ccircle cx='10' cy='10' r='2' stroke='%23ff8a3d'/%3E%3C/svg%3E"
)
"""The picture of a tab."""
FILE_POLICY = {
    "default-src": "'none'",
    "img-src": "data:",
    "base-uri": "'none'",
    "form-action": "'none'",
}
"""Content security policy of a page in a file; styles and scripts only by their digests."""


class Templates:
    """The templates of all pages, rendered as served pages or as one file that needs no other.

    Args:
        styles: Files of ``static``, linked after the shared stylesheet.
        scripts: Likewise, run after the shared script.
    """

    def __init__(self, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> None:
        self.environment = environment()
        self.styles, self.scripts = ("style.css", *styles), ("shell.js", *scripts)

    def served(self, template: str, **values: Any) -> str:
        """A page that links its stylesheets and scripts."""
        links = {
            "styles": [_address(name) for name in self.styles],
            "scripts": [_address(name) for name in self.scripts],
        }
        return self.environment.get_template(template).render(page=links, **values)

    def standalone(
        self,
        template: str,
        *,
        scripts: Sequence[str] = (),
        styles: Sequence[str] = (),
        policy: Mapping[str, str] | None = None,
        **values: Any,
    ) -> str:
        """A page with everything inside.

        Args:
            scripts: Texts of further scripts (a charting library), run first.
            styles: Texts of further stylesheets, read last.
            policy: Directives of the content security policy that replace those of here.
        """
        css = "\n".join([*map(asset, self.styles), *styles])
        code = [*scripts, *map(asset, self.scripts)]
        if any("</script" in text.lower() for text in code) or "</style" in css.lower():
            raise ValueError("a script or stylesheet that ends its own element cannot be inlined")
        rules = {
            **FILE_POLICY,
            "style-src": _digest(css),
            "script-src": " ".join(map(_digest, code)),
            **(policy or {}),
        }
        told = "; ".join(f"{name} {value}" for name, value in rules.items())
        inside = {"policy": told, "css": css, "code": code}
        return self.environment.get_template(template).render(page=inside, **values)


def environment() -> jinja2.Environment:
    """Jinja2 with escaping on; a name that is not there is an error. Filters: ``shown``,
    ``plain``."""
    try:
        import jinja2
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("web pages (jinja2)", "view") from error
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"shown": shown, "plain": plain}
    made.globals |= {"version": __version__, "ICON": ICON}
    return made


@cache
def asset(name: str) -> str:
    """Text of a file of ``static``."""
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")


def _address(name: str) -> str:
    return f"/static/{name}?v={hashlib.sha256(asset(name).encode()).hexdigest()[:8]}"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
