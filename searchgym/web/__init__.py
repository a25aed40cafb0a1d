"""The one web layer: base template, stylesheet, templates, checks of requests, a server.

Pages are rendered here, by Jinja2 with escaping on, and work without JavaScript; small scripts add
keys, the choice of colours, filters that answer while one types and charts that follow the pointer.
Nothing is ever loaded from elsewhere.
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
