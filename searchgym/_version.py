"""The version, for modules that are imported by the package itself."""

__version__ = "0.2.0"
