"""Tools for agents: search, pages, graphs, arithmetic, SQL, and tools of your own.

A tool is written as a name of :data:`TOOLS`, as ``"package.module:Object"``, as a table
``{"use": either, **options}``, as a class or a function, or as an object; :func:`make_tool` reads
all of them. See :class:`Tool` for how one is written.
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
