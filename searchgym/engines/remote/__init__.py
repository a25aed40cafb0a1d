"""Search over the network: servers with a ``/retrieve`` dialect, MCP, and live web engines."""

from .engine import RemoteEngine, make
from .pages import RemotePages

__all__ = ["RemoteEngine", "RemotePages", "make"]
