"""Write the reference of the public names, one HTML page per package.

Run it as ``python -m docsite.api DIR``.

A package's public names are those of its ``__all__``. Modules are left out: what is public is
importable from a package.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import typing
import warnings
from pathlib import Path

import pdoc

PACKAGES = (
    "searchgym",
    "searchgym.curricula",
    "searchgym.engines",
    "searchgym_agents.knower",
    "searchgym.llms",
    "searchgym.charts",
    "searchgym.reports",
    "searchgym.rewards",
    "searchgym.tools",
    "searchgym_agents.reader",
)


def load(package: str) -> None:
    """Load a package's public names, and give its named tuples the types of their fields in place
    of the types' names, which only their own modules can read.

    What Python says of every named tuple ("Alias for field number 0") is taken out.
    """
    module = importlib.import_module(package)
    for name in module.__all__:
        value = vars(module)[name] = getattr(module, name)
        if inspect.isclass(value) and issubclass(value, tuple) and hasattr(value, "_fields"):
            types = typing.get_type_hints(value)
            value.__annotations__ = types
            value.__new__.__annotations__ = types
            value.__new__.__doc__ = ""  # in place of "Create new instance of …"
            for field in value._fields:
                vars(value)[field].__doc__ = ""  # in place of "Alias for field number …"


def without_dead_links(html: str) -> str:
    """Take out links to members without documentation, which pdoc leaves out of the page."""
    return re.sub(
        r'<a href="#([^"]+)">([^<]*)</a>',
        lambda link: link[0] if f'id="{link[1]}"' in html else link[2],
        html,
    )


def main(folder: Path) -> None:
    """Write the pages into ``folder``; ``index.html`` leads to them.

    A warning of pdoc's (an annotation it cannot read, a name that is not there) is an error.
    """
    warnings.filterwarnings("error", module="pdoc")
    pages = {}
    for package in PACKAGES:
        load(package)
        pages[package] = page = pdoc.doc.Module.from_name(package)
        page.submodules = []
    pdoc.render.configure(docformat="google", show_source=False)
    for package, page in pages.items():
        path = folder.joinpath(*package.split(".")).with_suffix(".html")
        path.parent.mkdir(parents=True, exist_ok=True)
        html = without_dead_links(pdoc.render.html_module(page, pages))
        # "text::" before a block of code, which pdoc shows as it stands
        path.write_text(html.replace("::</p>", ":</p>"), encoding="utf-8")
    (folder / "index.html").write_text(pdoc.render.html_index(pages), encoding="utf-8")
    (folder / "search.js").write_text(pdoc.render.search_index(pages), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
