"""The stored law of transfer as the site shows it: predictions, their quality, a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from searchgym_agents.law import law as law_results


def table() -> dict[str, Any] | None:
    """Return the stored predictions; None if none were stored."""
    return law_results.stored_results()


def draw(folder: Path) -> None:
    """Write the figure, light and dark, into a folder."""
    result = table()
    if result is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    figure = law_results.figure(law_results.played(result), result["finding"])
    for scheme in ("light", "dark"):
        (folder / f"law-{scheme}.svg").write_text(figure.svg(scheme), encoding="utf-8")
