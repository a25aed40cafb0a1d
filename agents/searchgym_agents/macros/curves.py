"""Learning curves that are kept in the package: what trainings earned, update by update."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from searchgym.storage.files import read_json, write_whole

CURVES = Path(__file__).with_suffix(".json")


def curves() -> dict[str, Any]:
    """Environment → what was measured of its trainings (:func:`began`); empty where none was."""
    return dict(read_json(CURVES)) if CURVES.exists() else {}


def began(questions: int, episodes: int, uniform: float) -> dict[str, Any]:
    """A record to be filled.

    ``uniform``: mean reward, on so many questions of the split "test", of the same choices drawn
    uniformly; ``episodes`` of each update; ``seeds``: seed → ``train``, the mean of each update's
    episodes, and ``test``, rows of (update, mean, low, high).
    """
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"date": date, "questions": questions, "episodes": episodes,
            "uniform": round(uniform, 4), "seeds": {}}  # fmt: skip


def keep(env: str, made: dict[str, Any]) -> None:
    """Write a record, in the place of an older one of this environment."""
    kept = {**curves(), env: made}
    write_whole(CURVES, json.dumps(dict(sorted(kept.items()))).replace('"seeds"', '\n"seeds"')
                .replace('}, "', '},\n"') + "\n")  # fmt: skip
