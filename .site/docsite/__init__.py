"""The documentation site: what is generated from docstrings and cards."""
