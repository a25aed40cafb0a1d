"""The version that is installed, for modules that ``searchgym`` itself imports."""

from importlib.metadata import version

__version__ = version("searchgym")
