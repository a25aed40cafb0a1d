"""A search server: any engine behind every ``/retrieve`` dialect that search-agent code speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils import attach

_WHERE = {
    "answerer": ("INLINE_SECONDS", "Answerer", "is_quick", "time_queries"),
    "app": ("build_app",),
    "batcher": ("Batcher",),
    "dialects": ("Limits",),
    "metrics": ("Board",),
    "middleware": ("HttpError", "guard"),
    "server": ("bind", "make_server", "supervise", "worker"),
    "settings": ("LOOPBACK", "Settings", "is_loopback"),
    "watcher": ("Watcher",),
}
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .answerer import INLINE_SECONDS as INLINE_SECONDS
    from .answerer import Answerer as Answerer
    from .answerer import is_quick as is_quick
    from .answerer import time_queries as time_queries
    from .app import build_app as build_app
    from .batcher import Batcher as Batcher
    from .dialects import Limits as Limits
    from .metrics import Board as Board
    from .middleware import HttpError as HttpError
    from .middleware import guard as guard
    from .server import bind as bind
    from .server import make_server as make_server
    from .server import supervise as supervise
    from .server import worker as worker
    from .settings import LOOPBACK as LOOPBACK
    from .settings import Settings as Settings
    from .settings import is_loopback as is_loopback
    from .watcher import Watcher as Watcher

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
