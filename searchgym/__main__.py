"""``python -m searchgym``: the same as the ``searchgym`` command."""

from __future__ import annotations

from .cli.main import run

if __name__ == "__main__":
    run()
