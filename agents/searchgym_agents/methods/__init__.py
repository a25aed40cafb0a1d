"""Published methods, a recipe (``name.toml``) and the Python that only it uses (``name.py``)."""
