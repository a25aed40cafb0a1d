"""Rendering: templates over the shared base, as served pages or as one file that needs no other."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import MissingExtraError
from .text import plain, shown

if TYPE_CHECKING:
    import jinja2

SHARED = "searchgym.web"
FILE_POLICY = {
    "default-src": "'none'",
    "img-src": "data:",
    "base-uri": "'none'",
    "form-action": "'none'",
}
"""Content security policy of a page in a file; styles and scripts only by their digests."""


class Templates:
    """The templates of a package (its ``templates`` folder) over the shared ones.

    Args:
        package: Such as ``searchgym.viewer``.
        styles: Files of its ``static`` folder, linked after the shared stylesheet.
        scripts: Likewise, run after the shared script.
    """

    def __init__(
        self, package: str, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()
    ) -> None:
        self.environment = environment(package)
        self.styles = ((SHARED, "style.css"), *((package, name) for name in styles))
        self.scripts = ((SHARED, "shell.js"), *((package, name) for name in scripts))

    def served(self, template: str, **values: Any) -> str:
        """A page that links its stylesheets and scripts."""
        links = {
            "styles": [_address(*file) for file in self.styles],
            "scripts": [_address(*file) for file in self.scripts],
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
        css = "\n".join([*(asset(*file) for file in self.styles), *styles])
        code = [*scripts, *(asset(*file) for file in self.scripts)]
        if any("</script" in text.lower() for text in code) or "</style" in css.lower():
            raise ValueError("a script or stylesheet that ends its own element cannot be inlined")
        rules = {
            **FILE_POLICY,
            "style-src": _digest(css),
            "script-src": " ".join(map(_digest, code)),
            **(policy or {}),
        }
        inside = {
            "policy": "; ".join(f"{name} {value}" for name, value in rules.items()),
            "css": css,
            "code": code,
        }
        return self.environment.get_template(template).render(page=inside, **values)


def environment(package: str) -> jinja2.Environment:
    """Jinja2 with escaping on; a name that is not there is an error. Filters: ``shown``, ``plain``
    (``web.text``)."""
    try:
        import jinja2
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("web pages (jinja2)", "view") from error
    loaders = [jinja2.PackageLoader(name) for name in dict.fromkeys((package, SHARED))]
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"shown": shown, "plain": plain}
    made.globals |= {"version": __version__}
    return made


@cache
def asset(package: str, name: str) -> str:
    """Text of a file in a package's ``static`` folder."""
    return resources.files(package).joinpath("static", name).read_text(encoding="utf-8")


def _address(package: str, name: str) -> str:
    tag = hashlib.sha256(asset(package, name).encode()).hexdigest()[:8]
    return f"/static/{package.rpartition('.')[2]}/{name}?v={tag}"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
