"""Search over the network: servers with a ``/retrieve`` dialect, MCP, and live web engines."""

from .engine import RemoteEngine, make
from .formats import DIALECTS
from .pages import RemotePages
from .providers import PROVIDERS

__all__ = ["DIALECTS", "PROVIDERS", "RemoteEngine", "RemotePages", "make"]
